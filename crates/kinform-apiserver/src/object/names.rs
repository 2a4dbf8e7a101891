//! Checks of names that do not depend on the resource: names that are one segment of a path.
//!
//! ```text
//! name -> error messages
//! ```
//!
//! Upstream: `kubernetes/apimachinery:pkg/api/validation/path/name.go`.

/// Validates a name that is one segment of a path; returns a message for each fault.
pub(crate) fn path_segment_errors(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    let within = |letter: char| {
        name.contains(letter)
            .then(|| format!("may not contain '{letter}'"))
    };
    ['/', '%'].into_iter().filter_map(within).collect()
}
