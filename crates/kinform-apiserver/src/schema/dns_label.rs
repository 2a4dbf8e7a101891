//! Validates names in definitions, with upstream's error messages.
//!
//! ```text
//! name -> [error]
//! ```
//!
//! Upstream: `kubernetes/apimachinery:pkg/util/validation/validation.go` (`IsDNS1035Label`).

const LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
                     start with an alphabetic character, and end with an alphanumeric character \
                     (e.g. 'my-name',  or 'abc-123', regex used for validation is \
                     '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Returns the errors of a DNS label that must begin with a letter.
pub(crate) fn label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    let is_inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let is_label = text.starts_with(|c: char| c.is_ascii_lowercase())
        && !text.ends_with('-')
        && text.bytes().all(is_inner);
    if !is_label {
        errors.push(LABEL.to_owned());
    }
    errors
}
