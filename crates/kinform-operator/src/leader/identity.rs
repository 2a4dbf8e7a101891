//! The name of this process in a lease, and the namespace of its pod.
//!
//! ```text
//! host name + random part → identity        POD_NAMESPACE | the service account's file → namespace
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/leaderelection/leader_election.go`
//! (`getInClusterNamespace`; host name and UUID).

use std::path::Path;

use kinform::env::Env;

use crate::error::{Error, ErrorKind};

/// Mounted into each pod that has a service account.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// BOUND: bytes of a namespace.
const MAX_NAMESPACE_BYTES: u64 = 4096;

/// The host's name and a random part: two processes in one pod differ.
pub(super) fn default_identity(random: &Env) -> String {
    format!("{}_{:016x}", host(), random.seed())
}

/// BOUND: characters of the host's name in a member's identity, which is a part of a lease's name.
const MAX_HOST_CHARS: usize = 63;

/// The identity of a member of a group, which is a part of the name of its lease.
pub(crate) fn member_id(random: &Env) -> String {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let host = host().to_ascii_lowercase();
    let host = host.chars().map(|c| if is_plain(c) { c } else { '-' });
    let host: String = host.take(MAX_HOST_CHARS).collect();
    format!("{}-{:016x}", host.trim_matches('-'), random.seed())
}

#[cfg(unix)]
fn host() -> String {
    let name = nix::unistd::gethostname();
    name.map_or_else(
        |_| "unknown".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown".to_owned())
}

/// The namespace of this pod: the environment variable `POD_NAMESPACE`, else the namespace of the
/// pod's service account.
///
/// # Errors
/// Neither is set, as outside of a cluster. The message says how to set one.
///
/// Upstream: controller-runtime reads the file only.
pub fn pod_namespace() -> Result<String, Error> {
    let set = std::env::var("POD_NAMESPACE").ok();
    namespace_of(set, Path::new(NAMESPACE_FILE))
}

fn namespace_of(set: Option<String>, file: &Path) -> Result<String, Error> {
    if let Some(namespace) = set.filter(|namespace| !namespace.trim().is_empty()) {
        return Ok(namespace.trim().to_owned());
    }
    let missing = || {
        Error::new(
            ErrorKind::Config,
            "the namespace is unknown outside of a pod: name one, or set POD_NAMESPACE",
        )
    };
    let text = read(file).map_err(|error| missing().with_cause(error))?;
    match text.trim() {
        "" => Err(missing()),
        namespace => Ok(namespace.to_owned()),
    }
}

fn read(file: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(file)?;
    file.take(MAX_NAMESPACE_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    // controller-runtime: a lease without a namespace outside of a cluster is an error
    #[test]
    fn the_namespace_is_set_or_read_and_otherwise_the_error_says_what_to_set() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("namespace");
        let error = namespace_of(None, &file).unwrap_err();
        assert!(error.is_config() && error.to_string().contains("POD_NAMESPACE"));
        std::fs::write(&file, "\n").unwrap();
        assert!(namespace_of(Some(String::new()), &file).is_err());
        std::fs::write(&file, "kube-system\n").unwrap();
        assert_eq!(namespace_of(None, &file).unwrap(), "kube-system");
        let set = Some("mine".to_owned());
        assert_eq!(namespace_of(set, &file).unwrap(), "mine");
    }

    #[test]
    fn identities_name_the_host_and_differ() {
        let (a, b) = (Env::seeded(1), Env::seeded(2));
        let (a, b) = (default_identity(&a), default_identity(&b));
        assert_ne!(a, b);
        let member = member_id(&Env::seeded(1));
        assert_eq!(
            kinform_api::names::dns_subdomain_errors(&format!("m-{member}")),
            [""; 0]
        );
        let (host_part, random) = a.rsplit_once('_').unwrap();
        assert_eq!(host_part, host());
        assert_eq!(random.len(), 16);
    }
}
