//! Names, versions and conversion of a definition.
//!
//! ```text
//! definition -> [FieldError]
//! ```
//!
//! Upstream: `apiextensions-apiserver:pkg/apis/apiextensions/validation/validation.go`.

use std::collections::HashSet;

use kinform_api::{FieldError, ShownValue, names as rules};
use serde_json::Value;

use super::versions as all_versions;
use crate::object::{at, text};
use crate::schema::dns_label;

/// The suffixes of groups that are reserved for the community.
const PROTECTED: [&str; 2] = ["k8s.io", "kubernetes.io"];
const APPROVED: &str = "api-approved.kubernetes.io";

/// Checks that a definition is named by its plural and its group.
pub(super) fn definition_name(
    definition: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let name = text(definition, &["metadata", "name"]);
    let (plural, group) = (
        text(definition, &["spec", "names", "plural"]),
        text(definition, &["spec", "group"]),
    );
    if old.is_none() && name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
}

pub(super) fn group_and_scope(definition: &Value, errors: &mut Vec<FieldError>) {
    let group = text(definition, &["spec", "group"]);
    let wrong = rules::dns_subdomain_errors(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, wrong.join(",")));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", group, detail));
    }
    match text(definition, &["spec", "scope"]) {
        "Namespaced" | "Cluster" => {}
        "" => errors.push(FieldError::required("spec.scope", "")),
        scope => {
            let known = ["Cluster", "Namespaced"];
            errors.push(FieldError::not_supported("spec.scope", scope, &known));
        }
    }
}

/// Checks the names of versions, and that exactly one version is stored.
pub(super) fn versions(definition: &Value, errors: &mut Vec<FieldError>) {
    let mut names = Vec::new();
    let mut stored = 0;
    let list = || {
        let list = at(definition, &["spec", "versions"]).filter(|list| list.is_array());
        let list = list.cloned();
        ShownValue::raw(list.unwrap_or_else(|| Value::Array(Vec::new())).to_string())
    };
    for (place, version) in all_versions(definition).enumerate() {
        let name = text(version, &["name"]);
        let wrong = dns_label::label(name);
        if !wrong.is_empty() {
            let field = format!("spec.versions[{place}].name");
            errors.push(FieldError::invalid(field, name, wrong.join(",")));
        }
        stored += usize::from(version.get("storage") == Some(&Value::Bool(true)));
        deprecation(version, place, errors);
        names.push(name);
    }
    let count = names.len();
    let first = names.first().copied().unwrap_or_default();
    let wrong_first = dns_label::label(first);
    names.sort_unstable();
    names.dedup();
    if names.len() != count {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid("spec.versions", list(), detail));
    }
    if stored != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", list(), detail));
    }
    if count > 0 && !first.is_empty() && !wrong_first.is_empty() {
        errors.push(FieldError::invalid(
            "spec.version",
            first,
            wrong_first.join(","),
        ));
    }
}

fn deprecation(version: &Value, place: usize, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let is_deprecated = version.get("deprecated") == Some(&Value::Bool(true));
    let control = warning.char_indices().find(|(_, c)| c.is_control());
    let detail = if !is_deprecated {
        "can only be set for deprecated versions".to_owned()
    } else if warning.len() > 256 {
        "must be <= 256 characters long".to_owned()
    } else if warning.is_empty() {
        "must not be an empty string".to_owned()
    } else if let Some((at, _)) = control {
        format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        )
    } else {
        return;
    };
    let field = format!("spec.versions[{place}].deprecationWarning");
    errors.push(FieldError::invalid(field, warning, detail));
}

/// Checks plural, singular, kinds, short names and categories.
pub(super) fn names(definition: &Value, field: &str, path: &[&str], errors: &mut Vec<FieldError>) {
    let names = at(definition, path).unwrap_or(&Value::Null);
    if field.starts_with("spec") {
        for name in ["plural", "singular", "kind", "listKind"] {
            if text(names, &[name]).is_empty() {
                errors.push(FieldError::required(format!("{field}.{name}"), ""));
            }
        }
    }
    for name in ["plural", "singular", "kind", "listKind"] {
        let said = text(names, &[name]);
        let wrong = dns_label::label(&said.to_lowercase());
        let is_kind = name.ends_with("ind");
        let wrong = if is_kind {
            wrong
        } else {
            dns_label::label(said)
        };
        if said.is_empty() || wrong.is_empty() {
            continue;
        }
        let mut detail = wrong.join(",");
        if is_kind {
            detail = format!("may have mixed case, but should otherwise match: {detail}");
        }
        errors.push(FieldError::invalid(format!("{field}.{name}"), said, detail));
    }
    let mut list = |name: &str| {
        let list = names.get(name).and_then(Value::as_array);
        let texts = list.into_iter().flatten().filter_map(Value::as_str);
        for (at, said) in texts.enumerate() {
            let wrong = dns_label::label(said);
            if !wrong.is_empty() {
                let field = format!("{field}.{name}[{at}]");
                errors.push(FieldError::invalid(field, said, wrong.join(",")));
            }
        }
    };
    list("shortNames");
    let (kind, list_kind) = (text(names, &["kind"]), text(names, &["listKind"]));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(
            format!("{field}.listKind"),
            list_kind,
            detail,
        ));
    }
    let list = names.get("categories").and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    for (at, said) in texts.enumerate() {
        let wrong = dns_label::label(said);
        if !wrong.is_empty() {
            let field = format!("{field}.categories[{at}]");
            errors.push(FieldError::invalid(field, said, wrong.join(",")));
        }
    }
}

/// Checks the conversion between versions.
pub(super) fn conversion(definition: &Value, errors: &mut Vec<FieldError>) {
    let Some(conversion) = at(definition, &["spec", "conversion"]).filter(|of| of.is_object())
    else {
        return;
    };
    let strategy = text(conversion, &["strategy"]);
    let client = at(conversion, &["webhook", "clientConfig"]).filter(|of| !of.is_null());
    let reviews = at(conversion, &["webhook", "conversionReviewVersions"])
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty());
    match strategy {
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "None" | "Webhook" => {}
        other => {
            let field = "spec.conversion.strategy";
            errors.push(FieldError::not_supported(
                field,
                other,
                &["None", "Webhook"],
            ));
        }
    }
    if strategy == "Webhook" {
        if client.is_none() {
            let detail = "required when strategy is set to Webhook";
            errors.push(FieldError::required(
                "spec.conversion.webhookClientConfig",
                detail,
            ));
        }
        if let Some(client) = client {
            client_config(client, errors);
        }
        review_versions(reviews.map_or(&[], Vec::as_slice), errors);
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        errors.push(FieldError::forbidden(
            "spec.conversion.webhookClientConfig",
            detail,
        ));
    }
    if reviews.is_some() {
        errors.push(FieldError::forbidden(
            "spec.conversion.conversionReviewVersions",
            detail,
        ));
    }
}

/// Checks the address of a conversion webhook.
fn client_config(client: &Value, errors: &mut Vec<FieldError>) {
    let path = "spec.conversion.webhookClientConfig";
    let has = |name: &str| client.get(name).is_some_and(|value| !value.is_null());
    if has("url") == has("service") {
        let detail = "exactly one of url or service is required";
        errors.push(FieldError::required(path, detail));
        return;
    }
    if has("url") {
        let url = text(client, &["url"]);
        let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
        if scheme != "https" {
            let detail =
                "'https' is the only allowed URL scheme; desired format: https://host[/path]";
            errors.push(FieldError::invalid(format!("{path}.url"), scheme, detail));
        }
        return;
    }
    for (name, detail) in [
        ("name", "service name is required"),
        ("namespace", "service namespace is required"),
    ] {
        if text(client, &["service", name]).is_empty() {
            let field = format!("{path}.service.{name}");
            errors.push(FieldError::required(field, detail));
        }
    }
    let port = at(client, &["service", "port"]).and_then(Value::as_i64);
    if let Some(port) = port.filter(|port| !(1..=65535).contains(port)) {
        let field = format!("{path}.service.port");
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(field, port, detail));
    }
    let target = text(client, &["service", "path"]);
    if !target.is_empty() && !target.starts_with('/') {
        let field = format!("{path}.service.path");
        errors.push(FieldError::invalid(field, target, "must start with a '/'"));
    }
}

/// Checks the versions of reviews that a conversion webhook knows.
fn review_versions(versions: &[Value], errors: &mut Vec<FieldError>) {
    let field = "spec.conversion.conversionReviewVersions";
    if versions.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (at, version) in versions.iter().enumerate() {
        let version = version.as_str().unwrap_or_default();
        let field = format!("{field}[{at}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid(field, version, "duplicate version"));
            continue;
        }
        let wrong = dns_label::label(version);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(field, version, wrong.join(",")));
        }
    }
    let is_known = |version: &Value| matches!(version.as_str(), Some("v1" | "v1beta1"));
    if !versions.iter().any(is_known) {
        let detail = "must include at least one of v1, v1beta1";
        let shown = ShownValue::raw(Value::from(versions).to_string());
        errors.push(FieldError::invalid(field, shown, detail));
    }
}

/// Checks that versions in which objects may be stored remain.
pub(super) fn stored_versions(definition: &Value, errors: &mut Vec<FieldError>) {
    let field = "status.storedVersions";
    let list = at(definition, &["status", "storedVersions"]).and_then(Value::as_array);
    let stored: Vec<&str> = list
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let shown =
        || ShownValue::raw(list.map_or("null".to_owned(), |l| Value::from(l.clone()).to_string()));
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        errors.push(FieldError::invalid(field, ShownValue::raw("null"), detail));
        return;
    }
    for version in all_versions(definition) {
        let name = text(version, &["name"]);
        if version.get("storage") == Some(&Value::Bool(true)) && !stored.contains(&name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(field, shown(), detail));
        }
    }
    for (at, name) in stored.iter().enumerate() {
        if all_versions(definition).any(|version| text(version, &["name"]) == *name) {
            continue;
        }
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in \
             spec.versions until a storage migration ensures no data remains persisted in {name} and \
             removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("{field}[{at}]"), *name, detail));
    }
}

/// Checks that a definition in a community group has an approval.
pub(super) fn approval(definition: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let group = text(definition, &["spec", "group"]);
    let is_protected = PROTECTED
        .iter()
        .any(|suffix| group == *suffix || group.ends_with(&format!(".{suffix}")));
    if !is_protected || old.is_some() {
        return;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let said = at(definition, &["metadata", "annotations", APPROVED]).and_then(Value::as_str);
    match said {
        None | Some("") => {
            let detail = format!(
                "protected groups must have approval annotation {APPROVED:?}, see \
                 https://github.com/kubernetes/enhancements/pull/1111"
            );
            errors.push(FieldError::required(field, detail));
        }
        Some(said) if said.starts_with("unapproved") => {}
        Some(said) if said.starts_with("http://") || said.starts_with("https://") => {}
        Some(said) => {
            let detail = format!(
                "protected groups must have approval annotation {APPROVED:?} with either a URL or a \
                 reason starting with \"unapproved\", see \
                 https://github.com/kubernetes/enhancements/pull/1111"
            );
            errors.push(FieldError::invalid(field, said, detail));
        }
    }
}
