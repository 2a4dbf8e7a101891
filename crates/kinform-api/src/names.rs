//! Validates label keys, label values and object names, with upstream's messages.
//!
//! ```text
//! text ──▶ [] (fine) │ ["must be no more than 63 bytes", ..]
//! ```
//!
//! Each function returns a list, as upstream's do: a field error joins it with "; ". Matching
//! is by hand over bytes, so a text of any length and content costs one pass and no memory.
//! Upstream: `apimachinery:pkg/api/validate/content/{kube,dns}.go`, of which the regular
//! expressions are quoted in the messages.

const LABEL_KEY_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must \
     start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
     regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const LABEL_VALUE_WORDS: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const DNS_LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
     characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  \
     or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const DNS_SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
     alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
     (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

// BOUND: upstream's limits, in bytes.
const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// The errors of a label key; empty if it is valid.
///
/// Upstream: `content.IsLabelKey`, also known as `IsQualifiedName`.
#[must_use]
pub fn label_key_errors(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {LABEL_KEY_WORDS} with an optional DNS subdomain prefix and \
                 '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            if prefix.len() > SUBDOMAIN_MAX {
                errors.push(format!("prefix part {}", too_long(SUBDOMAIN_MAX)));
            }
            if !is_dns_subdomain(prefix) {
                errors.push(format!("prefix part {DNS_SUBDOMAIN_WORDS}"));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        errors.push(format!("name part {}", too_long(LABEL_MAX)));
    }
    if !is_label_name(name) {
        errors.push(format!("name part {LABEL_KEY_WORDS}"));
    }
    errors
}

/// The errors of a label value; empty if it is valid. The empty value is valid.
///
/// Upstream: `content.IsLabelValue`.
#[must_use]
pub fn label_value_errors(value: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if value.len() > LABEL_MAX {
        errors.push(too_long(LABEL_MAX));
    }
    if !value.is_empty() && !is_label_name(value) {
        errors.push(LABEL_VALUE_WORDS.to_owned());
    }
    errors
}

/// The errors of a DNS label, such as a namespace's name; empty if it is valid.
///
/// Upstream: `content.IsDNS1123Label`.
#[must_use]
pub fn dns_label_errors(label: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if label.len() > LABEL_MAX {
        errors.push(too_many(LABEL_MAX));
    }
    if !is_dns_label(label) {
        let dots = is_dns_subdomain(label);
        errors.push(
            if dots {
                "must not contain dots"
            } else {
                DNS_LABEL_WORDS
            }
            .to_owned(),
        );
    }
    errors
}

/// The errors of a DNS subdomain, such as most objects' names; empty if it is valid.
///
/// Upstream: `content.IsDNS1123Subdomain`.
#[must_use]
pub fn dns_subdomain_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        errors.push(too_many(SUBDOMAIN_MAX));
    }
    if !is_dns_subdomain(name) {
        errors.push(DNS_SUBDOMAIN_WORDS.to_owned());
    }
    errors
}

/// Upstream's messages count characters of names and bytes of labels; both count bytes.
fn too_many(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn is_label_name(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(inner)
        && bytes.last().is_some_and(inner)
        && bytes.iter().all(|b| inner(b) || *b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_follow_upstream() {
        // apimachinery: TestIsQualifiedName
        let long = "x".repeat(63);
        let prefix = ["x".repeat(63).as_str(); 3].join(".") + "/y";
        for good in [
            "simple",
            "now-with-dashes",
            "1-starts-with-num",
            "a.b_c",
            &long,
            "1234/1234",
            "a.b/C",
            &prefix,
        ] {
            assert_eq!(label_key_errors(good), Vec::<String>::new(), "{good}");
        }
        let too_long = "x".repeat(64);
        let far_prefix = "x".repeat(254) + "/y";
        for bad in [
            "",
            "-a",
            "a-",
            "a/b/c",
            "/a",
            "a/",
            "A/b",
            "a b",
            "é",
            "nospecialchars%^=@",
            &too_long,
            &far_prefix,
        ] {
            assert!(!label_key_errors(bad).is_empty(), "{bad}");
        }
        assert_eq!(label_key_errors("/a"), ["prefix part must be non-empty"]);
        assert_eq!(
            label_key_errors(&too_long),
            ["name part must be no more than 63 bytes"]
        );
    }

    #[test]
    fn label_values_follow_upstream() {
        // apimachinery: TestIsValidLabelValue
        for good in ["", "simple", "1-starts", "a.b_c", "A"] {
            assert_eq!(label_value_errors(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["-a", "a-", "a/b", "a b", "é", &"x".repeat(64)] {
            assert!(!label_value_errors(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn dns_names_follow_upstream() {
        // apimachinery: TestIsDNS1123Label, TestIsDNS1123Subdomain
        for good in ["a", "ab", "a-1", "1", &"a".repeat(63)] {
            assert_eq!(dns_label_errors(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a.b", "a_b", &"a".repeat(64)] {
            assert!(!dns_label_errors(bad).is_empty(), "{bad}");
        }
        assert_eq!(dns_label_errors("a.b"), ["must not contain dots"]);
        for good in ["a", "a.b.c", "0.1", "a-b.c-d"] {
            assert_eq!(dns_subdomain_errors(good), Vec::<String>::new(), "{good}");
        }
        for bad in ["", ".", "a.", ".a", "a..b", "a.-b", "A.b", &"a".repeat(254)] {
            assert!(!dns_subdomain_errors(bad).is_empty(), "{bad}");
        }
    }

    #[test]
    fn words_are_upstreams() {
        assert_eq!(
            label_value_errors("b c"),
            [concat!(
                "a valid label must be an empty string or consist of alphanumeric characters, ",
                "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. ",
                "'MyValue',  or 'my_value',  or '12345', regex used for validation is ",
                "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            )]
        );
    }
}
