//! Checks of webhook configurations: names, rules, versions of reviews, addresses.
//!
//! ```text
//! rules -> `*` stands alone          clientConfig -> https://host[/path] | service
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/admissionregistration/validation/validation.go`,
//! `apiserver:pkg/util/webhook/validation.go`.

use std::collections::HashSet;

use kinform_api::{FieldError, ShownValue, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site, checks, words};
use crate::object::metadata::shown;
use crate::object::text;

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":client_config" => client_config,
        ":review_versions" => review_versions,
        ":rule_resources" => rule_resources,
        ":star_alone" => star_alone,
        ":webhook_name" => webhook_name,
        _ => return None,
    })
}

fn webhook_name(site: &Site<'_>, errors: &mut Errors<'_>) {
    let name = site.text();
    if name.is_empty() {
        errors.push(FieldError::required(site.path(), ""));
        return;
    }
    let wrong = names::dns_subdomain_errors(name);
    let is_well = wrong.is_empty();
    checks::form(site, errors, wrong);
    if is_well && name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(site.path(), name, detail));
    }
}

fn review_versions(site: &Site<'_>, errors: &mut Errors<'_>) {
    let versions: Vec<&str> = site
        .items()
        .iter()
        .map(|version| version.as_str().unwrap_or_default())
        .collect();
    if versions.is_empty() {
        errors.push(FieldError::required(
            site.path(),
            "must specify one of v1, v1beta1",
        ));
        return;
    }
    let mut seen = HashSet::new();
    for (place, version) in versions.iter().enumerate() {
        let field = format!("{}[{place}]", site.path());
        if !seen.insert(*version) {
            errors.push(FieldError::invalid(field, *version, "duplicate version"));
            continue;
        }
        for detail in words::dns_1035_label(version) {
            errors.push(FieldError::invalid(field.clone(), *version, detail));
        }
    }
    if !versions
        .iter()
        .any(|version| matches!(*version, "v1" | "v1beta1"))
    {
        let detail = "must include at least one of v1, v1beta1";
        let shown = ShownValue::raw(serde_json::json!(versions).to_string());
        errors.push(FieldError::invalid(site.path(), shown, detail));
    }
}

/// A star must not have others beside it.
fn star_alone(site: &Site<'_>, errors: &mut Errors<'_>) {
    let items = site.items();
    if items.len() > 1 && items.iter().any(|item| item == "*") {
        errors.push(FieldError::invalid(
            site.path(),
            shown(site.value),
            site.detail(),
        ));
    }
}

/// Resources and subresources of a rule: what a star covers must not be named, too.
fn rule_resources(site: &Site<'_>, errors: &mut Errors<'_>) {
    let items: Vec<&str> = site
        .items()
        .iter()
        .map(|item| item.as_str().unwrap_or_default())
        .collect();
    let path = site.path();
    if items.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let (mut of_resource, mut of_part) = (HashSet::new(), HashSet::new());
    let mut has_plain = false;
    for (place, item) in items.iter().enumerate() {
        let field = format!("{path}[{place}]");
        if item.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let Some((resource, part)) = item.split_once('/') else {
            has_plain = *item != "*";
            continue;
        };
        let mut covered = |by: String| {
            let detail = format!("if '{by}' is present, must not specify {item}");
            errors.push(FieldError::invalid(field.clone(), *item, detail));
        };
        if of_resource.contains(resource) {
            covered(format!("{resource}/*"));
        }
        if of_part.contains(part) {
            covered(format!("*/{part}"));
        }
        if part == "*" {
            of_resource.insert(resource);
        }
        if resource == "*" {
            of_part.insert(part);
        }
    }
    let mut all = |detail: &str| {
        errors.push(FieldError::invalid(path.clone(), shown(site.value), detail));
    };
    if items.len() > 1 && items.contains(&"*/*") {
        all("if '*/*' is present, must not specify other resources");
    }
    if items.contains(&"*") && has_plain {
        all("if '*' is present, must not specify other resources without subresources");
    }
}

fn client_config(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(config) = site.value else { return };
    let path = site.path();
    let has = |name: &str| config.get(name).is_some_and(|of| !of.is_null());
    match (has("url"), has("service")) {
        (true, true) | (false, false) => {
            let detail = "exactly one of url or service is required";
            errors.push(FieldError::required(path, detail));
        }
        (true, false) => url(&format!("{path}.url"), text(config, &["url"]), errors),
        (false, true) => service(&format!("{path}.service"), &config["service"], errors),
    }
}

/// An address: https, a host, and nothing but a path.
fn url(field: &str, url: &str, errors: &mut Errors<'_>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut push = |value: &str, detail: &str| {
        errors.push(FieldError::invalid(field, value, detail));
    };
    let is_scheme = |text: &str| {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_inner)
    };
    let (scheme, rest) = match url.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => (String::new(), url),
    };
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.strip_prefix("//").unwrap_or_default();
    let authority = authority.split('/').next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if scheme != "https" {
        push(
            &scheme,
            &format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    if host.is_empty() {
        push(host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        push(user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        push(fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        push(query, "query parameters are not permitted in the URL");
    }
}

fn service(field: &str, service: &Value, errors: &mut Errors<'_>) {
    for (name, detail) in [
        ("name", "service name is required"),
        ("namespace", "service namespace is required"),
    ] {
        if text(service, &[name]).is_empty() {
            errors.push(FieldError::required(format!("{field}.{name}"), detail));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    if let Some(wrong) = words::port_number(port) {
        let detail = format!("port is not valid: {wrong}");
        errors.push(FieldError::invalid(format!("{field}.port"), port, detail));
    }
    let path = text(service, &["path"]);
    let mut push = |detail: String| {
        errors.push(FieldError::invalid(format!("{field}.path"), path, detail));
    };
    match path {
        "" | "/" => return,
        "//" => return push("segment[0] may not be empty".to_owned()),
        path if !path.starts_with('/') => push("must start with a '/'".to_owned()),
        _ => {}
    }
    // The first letter is left out, whatever it is.
    let mut letters = path.chars();
    letters.next();
    let rest = letters.as_str();
    for (at, segment) in rest
        .strip_suffix('/')
        .unwrap_or(rest)
        .split('/')
        .enumerate()
    {
        if segment.is_empty() {
            push(format!("segment[{at}] may not be empty"));
            continue;
        }
        for wrong in names::dns_subdomain_errors(segment) {
            push(format!("segment[{at}]: {wrong}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::errors;
    use super::*;
    use crate::budget::Meter;

    /// The errors of a configuration with one webhook.
    fn messages(config: &Value, rule: &Value) -> Vec<String> {
        let group = "admissionregistration.k8s.io";
        let of = kinform_schema::builtin(group, "v1", "ValidatingWebhookConfiguration").unwrap();
        let hook = json!({"name": "w.example.com", "clientConfig": config, "rules": [rule],
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
            "failurePolicy": "Fail", "matchPolicy": "Exact"});
        let object = json!({"metadata": {"name": "x"}, "webhooks": [hook]});
        let found = errors(of, &object, &Meter::endless()).into_iter();
        let found = found.map(|error| error.to_string());
        found.map(|text| text.replace("webhooks[0].", "")).collect()
    }

    fn rule(member: &str, values: Value) -> Value {
        let mut rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"], "scope": "*"});
        rule[member] = values;
        rule
    }

    #[test]
    fn an_address_is_a_host_and_a_path() {
        const FORM: &str = "; desired format: https://host[/path]";
        for (url, wanted) in [
            ("https://host:1/a/b", vec![]),
            (
                "http://host",
                vec![format!(
                    "\"http\": 'https' is the only allowed URL scheme{FORM}"
                )],
            ),
            (
                "host/a",
                vec![
                    format!("\"\": 'https' is the only allowed URL scheme{FORM}"),
                    format!("\"\": host must be specified{FORM}"),
                ],
            ),
            (
                "https://u:p@host/?a=b#c",
                vec![
                    "\"u:p\": user information is not permitted in the URL".to_owned(),
                    "\"c\": fragments are not permitted in the URL".to_owned(),
                    "\"a=b\": query parameters are not permitted in the URL".to_owned(),
                ],
            ),
        ] {
            let wanted: Vec<String> = wanted
                .into_iter()
                .map(|text| format!("clientConfig.url: Invalid value: {text}"))
                .collect();
            let found = messages(&json!({"url": url}), &rule("scope", json!("*")));
            assert_eq!(found, wanted, "{url}");
        }
    }

    #[test]
    fn a_path_of_a_service_has_names_as_its_segments() {
        for (path, wanted) in [
            ("/", &[][..]),
            ("/a/b/", &[]),
            ("//", &["segment[0] may not be empty"]),
            (
                "x",
                &["must start with a '/'", "segment[0] may not be empty"],
            ),
            ("/a//b", &["segment[1] may not be empty"]),
        ] {
            let config = json!({"service": {"name": "s", "namespace": "n", "path": path}});
            let wanted: Vec<String> = wanted
                .iter()
                .map(|text| format!("clientConfig.service.path: Invalid value: {path:?}: {text}"))
                .collect();
            assert_eq!(
                messages(&config, &rule("scope", json!("*"))),
                wanted,
                "{path}"
            );
        }
    }

    #[test]
    fn what_a_star_covers_is_not_named_too() {
        let config = json!({"url": "https://host"});
        for (member, values, wanted) in [
            ("resources", json!(["*", "pods/status"]), ""),
            ("resources", json!(["*/scale", "pods"]), ""),
            (
                "operations",
                json!(["*", "CREATE"]),
                "operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not \
                 specify other operations",
            ),
            (
                "apiGroups",
                json!(["*", ""]),
                "apiGroups: Invalid value: [\"*\",\"\"]: if '*' is present, must not specify \
                 other API groups",
            ),
            (
                "resources",
                json!(["*", "pods"]),
                "resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify \
                 other resources without subresources",
            ),
            (
                "resources",
                json!(["pods/*", "pods/status"]),
                "resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not \
                 specify pods/status",
            ),
            (
                "resources",
                json!(["*/status", "pods/status"]),
                "resources[1]: Invalid value: \"pods/status\": if '*/status' is present, must not \
                 specify pods/status",
            ),
            ("resources", json!([""]), "resources[0]: Required value"),
        ] {
            let found = messages(&config, &rule(member, values.clone()));
            let wanted = match wanted {
                "" => vec![],
                text => vec![format!("rules[0].{text}")],
            };
            assert_eq!(found, wanted, "{member} {values}");
        }
    }
}
