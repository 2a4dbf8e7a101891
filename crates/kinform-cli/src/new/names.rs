//! The names of a project: what Rust, Kubernetes and YAML allow.
//!
//! ```text
//! NewArgs → Names { project, group, kind, version, plural } | one line: what is allowed
//! ```
//!
//! Pure. A kind must not clash with a name that its module uses: those names are read from the
//! module's template, and the rest of the project writes `api::KIND`.
//!
//! Upstream counterpart: `kubernetes:apiextensions-apiserver/pkg/apis/apiextensions/validation`,
//! `cargo:util/restricted_names.rs`, `kubebuilder:pkg/model/resource`.

use kube_core::discovery::ApiResource;
use kube_core::gvk::GroupVersionKind;

use super::template::{self, Names};
use crate::args::creating::NewArgs;

/// BOUND: characters of a label of DNS, and of a domain.
const MAX_LABEL: usize = 63;
const MAX_DOMAIN: usize = 253;
/// BOUND: characters of a kind, so that `KINDList` is a label, too.
const MAX_KIND: usize = MAX_LABEL - 4;
/// BOUND: characters of a project's name, so that `NAME-metrics` is a Service's name.
const MAX_PROJECT: usize = 50;

/// Words that are no name of a crate: Rust's, then its own crates and cargo's folders.
const NO_CRATE: &str = "abstract as async await become box break const continue crate do dyn else \
    enum extern false final fn for gen if impl in let loop macro match mod move mut override priv \
    pub ref return self static struct super trait true try type typeof unsafe unsized use virtual \
    where while yield \
    alloc core proc-macro std test build deps examples incremental";

/// Words that a reader of YAML takes for something else than text.
const NO_TEXT: [&str; 9] = ["false", "n", "no", "null", "off", "on", "true", "y", "yes"];

/// Names that each module of Rust has, and that derived code uses.
const PRELUDE: &str = "AsMut AsRef AsyncFn AsyncFnMut AsyncFnOnce Box Clone Copy Debug Default \
    DoubleEndedIterator Drop Eq Err ExactSizeIterator Extend Fn FnMut FnOnce From FromIterator \
    Future Hash Into IntoFuture IntoIterator Iterator None Ok Option Ord PartialEq PartialOrd \
    Result Self Send Sized Some String Sync ToOwned ToString TryFrom TryInto Unpin Vec";

/// The names on a command line.
///
/// # Errors
/// The line that says which name is refused, and what is allowed.
pub(super) fn names(args: &NewArgs) -> Result<Names, String> {
    project(&args.name)?;
    group(&args.group)?;
    kind(&args.kind)?;
    version(&args.version)?;
    let guessed = || guess(&args.kind);
    let plural_name = args.plural.clone().unwrap_or_else(guessed);
    plural(&plural_name, &args.group)?;
    Ok(Names {
        project: args.name.clone(),
        group: args.group.clone(),
        kind: args.kind.clone(),
        version: args.version.clone(),
        plural: plural_name,
    })
}

/// The plural that kube's derive guesses, too.
fn guess(kind: &str) -> String {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "", kind)).plural
}

fn project(name: &str) -> Result<(), String> {
    let is_word =
        |word: &str| !word.is_empty() && word.chars().all(|c| is_lower(c) || c.is_ascii_digit());
    let is_shaped =
        name.len() <= MAX_PROJECT && name.starts_with(is_lower) && name.split('-').all(is_word);
    if !is_shaped {
        return Err(format!(
            "NAME {name:?} is refused: use lower case letters and digits, a letter first, and \
             single \"-\" between them, {MAX_PROJECT} characters at most, as website-operator"
        ));
    }
    let dependencies = template::dependencies();
    let is_reserved = NO_CRATE.split_whitespace().any(|word| word == name)
        || NO_TEXT.contains(&name)
        || dependencies.contains(name.replace('-', "_").as_str())
        || dependencies.contains(name);
    if is_reserved {
        return Err(format!(
            "NAME {name:?} is refused: it is a word of Rust, cargo or YAML, or a crate that the \
             project needs; use another, as {name}-operator"
        ));
    }
    Ok(())
}

fn group(group: &str) -> Result<(), String> {
    let is_domain = group.len() <= MAX_DOMAIN
        && group.contains('.')
        && group.split('.').all(|label| is_label(label, is_digit))
        && group.parse::<f64>().is_err();
    if !is_domain {
        return Err(format!(
            "--group {group:?} is refused: use a domain in lower case with a dot in it, as \
             example.com"
        ));
    }
    let is_protected = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    if is_protected("k8s.io") || is_protected("kubernetes.io") {
        return Err(format!(
            "--group {group:?} is refused: groups of k8s.io and kubernetes.io are Kubernetes' own, \
             and servers require the annotation api-approved.kubernetes.io; use a domain of yours"
        ));
    }
    Ok(())
}

fn kind(kind: &str) -> Result<(), String> {
    let is_shaped = kind.len() <= MAX_KIND
        && kind.starts_with(|c: char| c.is_ascii_uppercase())
        && kind.chars().all(|c| c.is_ascii_alphanumeric());
    if !is_shaped || NO_TEXT.contains(&kind.to_ascii_lowercase().as_str()) {
        return Err(format!(
            "--kind {kind:?} is refused: use letters and digits, a capital letter first, \
             {MAX_KIND} characters at most, no word that YAML takes for a value, as Website"
        ));
    }
    let used = template::names_of_the_module();
    let taken =
        |name: &str| PRELUDE.split_whitespace().any(|word| word == name) || used.contains(name);
    let made = [
        kind.to_owned(),
        format!("{kind}Spec"),
        format!("{kind}Status"),
    ];
    if let Some(name) = made.iter().find(|name| taken(name)) {
        return Err(format!(
            "--kind {kind:?} is refused: {name} has a meaning in Rust code already; use another \
             name, as My{kind}"
        ));
    }
    Ok(())
}

fn version(version: &str) -> Result<(), String> {
    let refused = || {
        format!("--version {version:?} is refused: use v1, v2.., v1beta1 or v1alpha1 and the like")
    };
    let rest = version.strip_prefix('v').ok_or_else(refused)?;
    let is_number = |text: &str| {
        text.starts_with(|c: char| ('1'..='9').contains(&c)) && text.chars().all(is_digit)
    };
    let stage = ["alpha", "beta"]
        .iter()
        .find_map(|stage| rest.split_once(stage));
    let is_valid = match stage {
        Some((major, minor)) => is_number(major) && is_number(minor),
        None => is_number(rest),
    };
    match is_valid && version.len() <= MAX_LABEL {
        true => Ok(()),
        false => Err(refused()),
    }
}

fn plural(plural: &str, group: &str) -> Result<(), String> {
    let is_valid = is_label(plural, |_| false)
        && !NO_TEXT.contains(&plural)
        && plural.len() + 1 + group.len() <= MAX_DOMAIN;
    match is_valid {
        true => Ok(()),
        false => Err(format!(
            "--plural {plural:?} is refused: use lower case letters, digits and \"-\", a letter \
             first, {MAX_LABEL} characters at most and {MAX_DOMAIN} with the group, as websites"
        )),
    }
}

/// Returns whether this is a label of DNS; `begins` says which characters but letters can be first.
fn is_label(label: &str, begins: impl Fn(char) -> bool) -> bool {
    let is_inner = |c: char| is_lower(c) || is_digit(c);
    label.len() <= MAX_LABEL
        && label.starts_with(|c| is_lower(c) || begins(c))
        && label.ends_with(is_inner)
        && label.chars().all(|c| is_inner(c) || c == '-')
}

fn is_lower(c: char) -> bool {
    c.is_ascii_lowercase()
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(check: fn(&str) -> Result<(), String>, allowed: &[&str], refused: &[&str]) {
        for name in allowed {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        for name in refused {
            let line = check(name).expect_err(name);
            assert!(line.contains("use ") && !line.contains('\n'), "{line}");
            // What is not shown as typed cannot control a terminal.
            assert!(line.contains(&format!("{name:?}")), "{line}");
        }
    }

    #[test]
    fn projects_have_names_of_crates_and_of_objects() {
        let long = "a".repeat(51);
        let refused = [
            "",
            "1st",
            "-a",
            "a-",
            "a--b",
            "a_b",
            "A",
            "a.b",
            "größe",
            "a b",
            "../a",
            &long,
            "match",
            "async",
            "gen",
            "test",
            "core",
            "std",
            "build",
            "kube",
            "kinform",
            "serde-json",
            "kinform-testkit",
            "yes",
            "null",
            "a\u{1b}[2J",
        ];
        check(
            project,
            &["a", "website-operator", "web2-0", "website", "kubes"],
            &refused,
        );
    }

    #[test]
    fn groups_are_domains_that_are_not_of_kubernetes() {
        let refused = [
            "",
            "example",
            "Example.com",
            "example..com",
            ".example.com",
            "example.com.",
            "a_b.com",
            "-a.com",
            "1.5",
            "k8s.io",
            "apps.k8s.io",
            "kubernetes.io",
            "x.kubernetes.io",
            "a.b\n",
        ];
        check(
            group,
            &["example.com", "a.b.c", "4k.example", "notk8s.io"],
            &refused,
        );
        let line = group("apps.k8s.io").unwrap_err();
        assert!(
            line.contains("annotation api-approved.kubernetes.io"),
            "{line}"
        );
    }

    #[test]
    fn kinds_are_types_of_rust_that_clash_with_none() {
        let refused = [
            "",
            "website",
            "Web-Site",
            "Web_Site",
            "1Web",
            "Größe",
            "Self",
            "Option",
            "String",
            "Vec",
            "Result",
            "Box",
            "Iterator",
            "Serialize",
            "JsonSchema",
            "CustomResource",
            "Yes",
            "Null",
        ];
        // These would clash if the rest of the project imported the type.
        let allowed = [
            "Website",
            "A1",
            "Client",
            "Command",
            "Match",
            "ConfigMap",
            "Error",
            "Arc",
        ];
        check(kind, &allowed, &refused);
    }

    #[test]
    fn versions_and_plurals_are_those_of_kubernetes() {
        check(
            version,
            &["v1", "v12", "v1alpha1", "v2beta10"],
            &[
                "",
                "1",
                "v0",
                "v01",
                "v1alpha",
                "v1alpha0",
                "v1gamma1",
                "V1",
                "valpha1",
                "v1alpha1beta1",
            ],
        );
        let of_group = |name: &str| plural(name, "example.com");
        check(
            of_group,
            &["websites", "web-sites"],
            &["", "Websites", "1s", "a-", "a.b", "no"],
        );
        for (kind, expected) in [
            ("Website", "websites"),
            ("Policy", "policies"),
            ("Mesh", "meshes"),
        ] {
            assert_eq!(guess(kind), expected);
        }
    }
}
