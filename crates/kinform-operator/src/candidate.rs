//! The versions of a candidate in a coordinated election, and its name.
//!
//! ```text
//! LeaseCandidate + identity ──validate──▶ candidacy     or an error before anything starts
//! ```
//!
//! Upstream counterpart: `LeaseCandidateSpec` in `kubernetes/api:coordination/v1beta1`, and its
//! validation in `kubernetes:pkg/apis/coordination/validation`.

/// The only strategy that Kubernetes defines: the oldest emulation version leads.
pub(crate) const STRATEGY: &str = "OldestEmulationVersion";

/// The versions by which a coordinated election chooses: the candidate with the oldest emulation
/// version leads, of these the one with the oldest binary, then the one that came first.
///
/// Upstream: `LeaseCandidateSpec` with the strategy `OldestEmulationVersion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseCandidate {
    pub(crate) binary_version: String,
    pub(crate) emulation_version: String,
}

impl LeaseCandidate {
    /// A candidate of this version, as `1.4.0`: that of the program, `env!("CARGO_PKG_VERSION")`. It
    /// emulates no older one.
    pub fn new(binary_version: impl Into<String>) -> Self {
        let binary_version = binary_version.into();
        Self {
            emulation_version: binary_version.clone(),
            binary_version,
        }
    }

    /// The version whose behaviour the program emulates, as `1.3.0`. Default: the binary's.
    #[must_use]
    pub fn emulation_version(mut self, version: impl Into<String>) -> Self {
        self.emulation_version = version.into();
        self
    }

    /// Validates the versions and the name; the error is one line.
    pub(crate) fn validate(&self, name: &str) -> Result<(), String> {
        let is_ours = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.len() > MAX_NAME_BYTES || !name.chars().all(is_ours) || name.starts_with("..") {
            return Err(format!(
                "the identity {name:?} cannot name a LeaseCandidate: set one of letters, digits, '-', '_' and '.'"
            ));
        }
        let mut numbers = [[0; 3]; 2];
        let versions = [&self.binary_version, &self.emulation_version];
        for (found, text) in numbers.iter_mut().zip(versions) {
            match core_of(text) {
                Some(core) => *found = core,
                None => return Err(format!("{text:?} is no semantic version as 1.4.0")),
            }
        }
        let [binary, emulation] = numbers;
        if emulation == [0; 3] || binary < emulation {
            let Self {
                binary_version,
                emulation_version,
            } = self;
            return Err(format!(
                "the emulation version must be above 0.0.0 and at most the binary version {binary_version}: {emulation_version}"
            ));
        }
        Ok(())
    }
}

/// BOUND: bytes of a name.
const MAX_NAME_BYTES: usize = 253;

/// Major, minor and patch of a semantic version. The server parses the rest.
fn core_of(version: &str) -> Option<[u64; 3]> {
    let core = version.split(['-', '+']).next()?;
    let mut numbers = core.split('.').map(|number| {
        let is_plain = number == "0" || !number.starts_with(['0', '+']);
        number.parse().ok().filter(|_| is_plain)
    });
    let found = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_names_that_the_server_refuses_are_refused_before_anything_starts() {
        let check = |binary: &str, emulation: &str, name: &str, expected: &str| {
            let found = LeaseCandidate::new(binary).emulation_version(emulation);
            let error = found.validate(name).err().unwrap_or_default();
            let is_right = error.contains(expected) && error.is_empty() == expected.is_empty();
            assert!(is_right, "{binary} {emulation} {name}: {error}");
        };
        check("1.30.0", "1.30.0", "foo", "");
        check("1.30.0-alpha.1+x", "0.0.1", "Host_0af3.b-c", "");
        check("1.30", "1.30.0", "foo", "\"1.30\" is no semantic");
        check("1.30.0", "v1.30.0", "foo", "\"v1.30.0\" is no semantic");
        check("1.030.0", "1.30.0", "foo", "no semantic");
        check("1.2.3.4", "1.30.0", "foo", "no semantic");
        check(
            "1.29.9",
            "1.30.0",
            "foo",
            "at most the binary version 1.29.9: 1.30.0",
        );
        check("1.0.0", "0.0.0", "foo", "above 0.0.0");
        check("1.0.0", "1.0.0", "a b", "cannot name a LeaseCandidate");
        check("1.0.0", "1.0.0", "..", "cannot name a LeaseCandidate");
        check("1.0.0", "1.0.0", &"a".repeat(254), "cannot name");
    }
}
