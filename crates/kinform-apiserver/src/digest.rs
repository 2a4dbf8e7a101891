//! Digests by which clients notice changes.
//!
//! ```text
//! bytes ──▶ SHA-256 ──▶ entity tags, hashes in addresses, hashes of stored versions
//! ```
//!
//! The digests protect no secrets. The hash function is that of the TLS library.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::SupportedCipherSuite;
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    let function = match TLS13_AES_128_GCM_SHA256 {
        SupportedCipherSuite::Tls13(suite) => suite.common.hash_provider,
        SupportedCipherSuite::Tls12(suite) => suite.common.hash_provider,
    };
    function.hash(bytes).as_ref().to_vec()
}

/// Bytes as hexadecimal digits, as upstream writes them in entity tags.
pub(crate) fn upper_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Returns the hash by which clients of discovery see the storage version of a resource.
///
/// Upstream: `apiserver:pkg/endpoints/discovery/storageversionhash.go`.
pub(crate) fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    let digest = sha256(format!("{group}/{version}/{kind}").as_bytes());
    STANDARD.encode(&digest[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_sha_256() {
        let empty = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855";
        assert_eq!(upper_hex(&sha256(b"")), empty);
        let widgets = storage_version_hash("stable.example.com", "v1", "Widget");
        assert_eq!(widgets, "2vCiI1Gcs2s=");
    }
}
