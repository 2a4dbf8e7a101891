//! Rules for names of objects, and generated names.
//!
//! ```text
//! name + rule -> messages about errors         generateName + 5 letters -> name
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/storage/names/generate.go`,
//! `kubernetes/apimachinery:pkg/api/validation/generic.go`,
//! `kubernetes/kubernetes:pkg/apis/core/validation/names.go`.

use kinform_api::names::{dns_label_errors, dns_subdomain_errors};
use serde_json::Value;

use super::validation::words::config_key;
use crate::object::names::path_segment_errors;
use crate::object::text;
use crate::resource::NameRule;

/// BOUND: a generated name has 63 letters at most, 5 of them random.
const MAX_BASE: usize = 58;

/// The letters of generated names: no vowels, and none that look alike.
pub(crate) const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Five letters for a generated name, out of random numbers.
pub(crate) fn random_suffix(random: [u8; 5]) -> String {
    random
        .iter()
        .map(|number| char::from(LETTERS[usize::from(*number) % LETTERS.len()]))
        .collect()
}

/// A name made of a base and five letters.
pub(crate) fn generate(base: &str, suffix: &str) -> String {
    let mut end = base.len().min(MAX_BASE);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &base[..end])
}

/// Errors of the name of an object, whose other fields may have a say in it.
pub(crate) fn errors_in(
    object: &Value,
    rule: NameRule,
    name: &str,
    is_prefix: bool,
) -> Vec<String> {
    let signer = text(object, &["spec", "signerName"]);
    if rule != NameRule::AfterSigner {
        return errors(rule, name, is_prefix);
    }
    if signer.is_empty() {
        return match name.contains(':') {
            true => vec![
                "ClusterTrustBundle without signer name must not have \":\" in its name".to_owned(),
            ],
            false => errors(rule, name, is_prefix),
        };
    }
    let start = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&start) {
        Some(rest) => errors(rule, rest, is_prefix),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {start}"
        )],
    }
}

/// Errors of a name. A prefix of a generated name may end with a dash.
fn errors(rule: NameRule, name: &str, is_prefix: bool) -> Vec<String> {
    let masked = match name.strip_suffix('-') {
        Some(rest) if is_prefix && !rest.is_empty() => format!("{rest}a"),
        _ => name.to_owned(),
    };
    match rule {
        NameRule::Subdomain | NameRule::AfterSigner => dns_subdomain_errors(&masked),
        NameRule::Label => dns_label_errors(&masked),
        NameRule::PathSegment => path_segment_errors(&masked),
        NameRule::ConfigKey => config_key(&masked),
        NameRule::Address if masked.parse::<std::net::IpAddr>().is_ok() => Vec::new(),
        NameRule::Address => {
            vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generated_names_are_cut_and_end_in_five_letters() {
        assert_eq!(generate("w-", "bcdfg"), "w-bcdfg");
        assert_eq!(generate(&"é".repeat(40), "bcdfg").len(), 63);
        let suffix = random_suffix([0, 26, 27, 200, 255]);
        assert_eq!(suffix.len(), 5);
        assert!(suffix.bytes().all(|letter| LETTERS.contains(&letter)));
    }

    #[test]
    fn names_follow_the_rule_of_their_type() {
        for (rule, name, good) in [
            (NameRule::Subdomain, "a.b-c", true),
            (NameRule::Subdomain, "A", false),
            (NameRule::Subdomain, "", false),
            (NameRule::Label, "a.b", false),
            (NameRule::ConfigKey, "Host_0af3.b-", true),
            (NameRule::ConfigKey, "a:b", false),
            (NameRule::PathSegment, "system:x", true),
            (NameRule::PathSegment, "a/b", false),
            (NameRule::PathSegment, "..", false),
        ] {
            assert_eq!(errors(rule, name, false).is_empty(), good, "{name}");
        }
        assert!(errors(NameRule::Subdomain, "w-", true).is_empty());
        assert!(!errors(NameRule::Subdomain, "w-", false).is_empty());
    }

    // kubernetes: TestValidateClusterTrustBundle
    #[test]
    fn a_bundle_of_a_signer_begins_with_its_name() {
        let named = |signer: &str, name: &str, is_prefix| {
            let bundle = json!({"spec": {"signerName": signer}});
            errors_in(&bundle, NameRule::AfterSigner, name, is_prefix).join("; ")
        };
        for (signer, name, is_prefix, said) in [
            ("", "a", false, ""),
            (
                "",
                "a:b",
                false,
                "without signer name must not have \":\" in its name",
            ),
            ("", "A", false, "a lowercase RFC 1123 subdomain must"),
            ("x.io/s", "x.io:s:one", false, ""),
            ("x.io/s", "x.io:s:one-", true, ""),
            (
                "x.io/s",
                "one",
                false,
                "for signerName x.io/s must be named with prefix x.io:s:",
            ),
            (
                "x.io/s",
                "x.io:s:",
                false,
                "a lowercase RFC 1123 subdomain must",
            ),
            (
                "x.io/s",
                "x.io:s:a:b",
                false,
                "a lowercase RFC 1123 subdomain must",
            ),
        ] {
            let found = named(signer, name, is_prefix);
            assert_eq!(
                found.is_empty(),
                said.is_empty(),
                "{signer} {name}: {found}"
            );
            assert!(found.contains(said), "{signer} {name}: {found}");
        }
    }
}
