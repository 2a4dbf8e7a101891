//! Checks of other kinds that need more than a word of the vocabulary.
//!
//! ```text
//! :secret_data -> a secret of this type has its keys
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/{core,rbac,storage,..}/validation`.

use std::collections::HashSet;

use base64::Engine as _;
use kinform_api::{FieldError, ShownValue, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site};
use crate::object::metadata::shown;
use crate::object::names::path_segment_errors;
use crate::object::quantity::Quantity;
use crate::object::{at, text};

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":access_modes" => access_modes,
        ":api_service" => api_service,
        ":attachment_source" => attachment_source,
        ":both_data" => both_data,
        ":claim_storage" => claim_storage,
        ":event_namespace" => event_namespace,
        ":finalizers" => finalizers,
        ":policy_rule" => policy_rule,
        ":role_reference" => role_reference,
        ":secret_data" => secret_data,
        ":slice_nodes" => slice_nodes,
        ":subject" => subject,
        ":taints" => taints,
        ":volume_capacity" => volume_capacity,
        _ => return None,
    })
}

fn both_data(site: &Site<'_>, errors: &mut Errors<'_>) {
    let binary = at(site.scope.value, &["binaryData"]).and_then(Value::as_object);
    let keys = site
        .value
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, _)| key);
    for key in keys.filter(|key| binary.is_some_and(|binary| binary.contains_key(*key))) {
        let field = format!("{}[{key}]", site.path());
        let detail = "duplicate of key present in binaryData";
        errors.push(FieldError::invalid(field, key.as_str(), detail));
    }
}

fn secret_data(site: &Site<'_>, errors: &mut Errors<'_>) {
    let data = at(site.scope.value, &["data"]);
    let has = |key: &str| data.is_some_and(|data| data.get(key).is_some());
    let missing = |key: &str| FieldError::required(format!("data[{key}]"), "");
    match site.text() {
        "kubernetes.io/tls" => {
            errors.extend(
                ["tls.crt", "tls.key"]
                    .into_iter()
                    .filter(|key| !has(key))
                    .map(missing),
            );
        }
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            errors.extend(["username", "password"].into_iter().map(missing));
        }
        "kubernetes.io/ssh-auth" => {
            let key = data
                .map(|data| text(data, &["ssh-privatekey"]))
                .unwrap_or_default();
            if key.is_empty() {
                errors.push(missing("ssh-privatekey"));
            }
        }
        "kubernetes.io/service-account-token" => {
            let name = "kubernetes.io/service-account.name";
            if text(site.scope.value, &["metadata", "annotations", name]).is_empty() {
                errors.push(FieldError::required(
                    format!("metadata.annotations[{name}]"),
                    "",
                ));
            }
        }
        "kubernetes.io/dockercfg" => docker_config(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => docker_config(data, ".dockerconfigjson", errors),
        _ => {}
    }
}

fn docker_config(data: Option<&Value>, key: &str, errors: &mut Errors<'_>) {
    let field = format!("data[{key}]");
    let Some(text) = data.and_then(|data| data.get(key)).and_then(Value::as_str) else {
        errors.push(FieldError::required(field, ""));
        return;
    };
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap_or_default();
    if let Err(detail) = json_object(&bytes) {
        errors.push(FieldError::invalid(
            field,
            "<secret contents redacted>",
            detail,
        ));
    }
}

/// Checks that these bytes are a JSON object. The error is Go's message, which quotes at most one
/// character of the input.
fn json_object(bytes: &[u8]) -> Result<(), String> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    match values.next() {
        Some(Ok(Value::Object(_) | Value::Null)) if values.next().is_none() => Ok(()),
        Some(Ok(value)) if values.next().is_none() => {
            let kind = match value {
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Bool(_) => "bool",
                _ => "number",
            };
            Err(format!(
                "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            ))
        }
        Some(Ok(_)) => {
            let text = String::from_utf8_lossy(&bytes[values.byte_offset().min(bytes.len())..])
                .into_owned();
            let letter = text.trim_start().chars().next().unwrap_or(' ');
            Err(format!(
                "invalid character '{letter}' after top-level value"
            ))
        }
        Some(Err(error)) if !error.is_eof() => {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let letter = text.trim_start().chars().next().unwrap_or(' ');
            Err(format!(
                "invalid character '{letter}' looking for beginning of value"
            ))
        }
        _ => Err("unexpected end of JSON input".to_owned()),
    }
}

/// An event stands in the namespace of its object; for cluster-scoped objects, few namespaces are
/// allowed.
fn event_namespace(site: &Site<'_>, errors: &mut Errors<'_>) {
    let said = site.text();
    let object = site.scope.value;
    let namespace = text(object, &["metadata", "namespace"]);
    let about = object
        .get("involvedObject")
        .or_else(|| object.get("regarding"));
    let is_known = about.is_some_and(|about| !text(about, &["apiVersion"]).is_empty());
    let differs = if said.is_empty() {
        !matches!(namespace, "" | "default" | "kube-system")
    } else {
        is_known && said != namespace
    };
    if differs {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid(
            "involvedObject.namespace",
            said,
            detail,
        ));
    }
}

fn taints(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    for (place, taint) in site.items().iter().enumerate() {
        let path = format!("{}[{place}]", site.path());
        let (key, value, effect) = (
            text(taint, &["key"]),
            text(taint, &["value"]),
            text(taint, &["effect"]),
        );
        for detail in names::label_key_errors(key) {
            errors.push(FieldError::invalid(format!("{path}.key"), key, detail));
        }
        let wrong = names::label_value_errors(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.value"),
                value,
                wrong.join(";"),
            ));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{path}.effect"), ""));
        } else if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
            errors.push(FieldError::not_supported(
                format!("{path}.effect"),
                effect,
                &supported,
            ));
        }
        if !seen.insert((key, effect)) {
            errors.push(FieldError::duplicate(path, shown(Some(taint))));
        }
    }
}

fn access_modes(site: &Site<'_>, errors: &mut Errors<'_>) {
    const MODES: [&str; 4] = [
        "ReadOnlyMany",
        "ReadWriteMany",
        "ReadWriteOnce",
        "ReadWriteOncePod",
    ];
    let modes = || {
        site.items()
            .iter()
            .map(|mode| mode.as_str().unwrap_or_default())
    };
    for mode in modes().filter(|mode| !MODES.contains(mode)) {
        errors.push(FieldError::not_supported(site.path(), mode, &MODES));
    }
    let (alone, other) = (
        modes().any(|mode| mode == MODES[3]),
        modes().any(|mode| MODES[..3].contains(&mode)),
    );
    if alone && other {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(site.path(), detail));
    }
}

fn claim_storage(site: &Site<'_>, errors: &mut Errors<'_>) {
    let field = format!("{}[storage]", site.path());
    match site
        .value
        .map(|resources| text(resources, &["requests", "storage"]))
        .unwrap_or_default()
    {
        "" => errors.push(FieldError::required(field, "")),
        amount => {
            let quantity = amount.parse::<Quantity>().ok();
            if quantity.is_some_and(|quantity| quantity.is_negative() || quantity.is_zero()) {
                errors.push(FieldError::invalid(
                    field,
                    amount,
                    "must be greater than zero",
                ));
            }
        }
    }
}

fn volume_capacity(site: &Site<'_>, errors: &mut Errors<'_>) {
    let capacity = site
        .value
        .and_then(Value::as_object)
        .filter(|capacity| !capacity.is_empty());
    if capacity.is_none() {
        errors.push(FieldError::required(site.path(), ""));
    }
    let has_storage = capacity.is_some_and(|capacity| capacity.contains_key("storage"));
    if !has_storage || capacity.is_some_and(|capacity| capacity.len() > 1) {
        errors.push(FieldError::not_supported(
            site.path(),
            shown(site.value),
            &["storage"],
        ));
    }
    for (name, amount) in capacity.into_iter().flatten() {
        let quantity = amount
            .as_str()
            .and_then(|text| text.parse::<Quantity>().ok());
        if quantity.is_some_and(|quantity| quantity.is_negative() || quantity.is_zero()) {
            let field = format!("{}[{name}]", site.path());
            errors.push(FieldError::invalid(
                field,
                shown(Some(amount)),
                "must be greater than zero",
            ));
        }
    }
}

fn policy_rule(site: &Site<'_>, errors: &mut Errors<'_>) {
    let rule = site.value.unwrap_or(&Value::Null);
    let path = site.path();
    let is_empty = |name: &str| {
        let list = at(rule, &[name]).and_then(Value::as_array);
        list.is_none_or(Vec::is_empty)
    };
    let urls = format!("{path}.nonResourceURLs");
    let shown_urls = || shown(rule.get("nonResourceURLs"));
    if is_empty("nonResourceURLs") {
        for (name, detail) in [
            (
                "apiGroups",
                "resource rules must supply at least one api group",
            ),
            (
                "resources",
                "resource rules must supply at least one resource",
            ),
        ] {
            if is_empty(name) {
                errors.push(FieldError::required(format!("{path}.{name}"), detail));
            }
        }
    } else if site.scope.of.name() == "Role" {
        let detail = "namespaced rules cannot apply to non-resource URLs";
        errors.push(FieldError::invalid(urls, shown_urls(), detail));
    } else if !is_empty("apiGroups") || !is_empty("resources") || !is_empty("resourceNames") {
        let detail = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(urls, shown_urls(), detail));
    }
    if is_empty("verbs") {
        errors.push(FieldError::required(format!("{path}.verbs"), ""));
    }
}

fn role_reference(site: &Site<'_>, errors: &mut Errors<'_>) {
    let reference = site.value.unwrap_or(&Value::Null);
    let path = site.path();
    let group = text(reference, &["apiGroup"]);
    if group != "rbac.authorization.k8s.io" {
        let supported = ["rbac.authorization.k8s.io"];
        errors.push(FieldError::not_supported(
            format!("{path}.apiGroup"),
            group,
            &supported,
        ));
    }
    let kinds = if site.scope.of.name() == "RoleBinding" {
        &["Role", "ClusterRole"][..]
    } else {
        &["ClusterRole"]
    };
    let kind = text(reference, &["kind"]);
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported(
            format!("{path}.kind"),
            kind,
            kinds,
        ));
    }
    match text(reference, &["name"]) {
        "" => errors.push(FieldError::required(format!("{path}.name"), "")),
        name => {
            for detail in path_segment_errors(name) {
                errors.push(FieldError::invalid(format!("{path}.name"), name, detail));
            }
        }
    }
}

fn subject(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(subject) = site.value else { return };
    let path = site.path();
    let said = |name| text(subject, &[name]);
    let group = said("apiGroup");
    match said("kind") {
        "ServiceAccount" => {
            if !said("name").is_empty() {
                for detail in names::dns_subdomain_errors(said("name")) {
                    errors.push(FieldError::invalid(
                        format!("{path}.name"),
                        said("name"),
                        detail,
                    ));
                }
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(
                    format!("{path}.apiGroup"),
                    group,
                    &[""],
                ));
            }
            if site.scope.of.name() == "ClusterRoleBinding" && said("namespace").is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != "rbac.authorization.k8s.io" {
                let supported = ["rbac.authorization.k8s.io"];
                errors.push(FieldError::not_supported(
                    format!("{path}.apiGroup"),
                    group,
                    &supported,
                ));
            }
        }
        kind => {
            let supported = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(
                format!("{path}.kind"),
                kind,
                &supported,
            ));
        }
    }
    if said("name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
}

fn attachment_source(site: &Site<'_>, errors: &mut Errors<'_>) {
    let source = site.value.unwrap_or(&Value::Null);
    let has = |name: &str| source.get(name).is_some_and(|value| !value.is_null());
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (has("inlineVolumeSpec"), has("persistentVolumeName")) {
        (false, false) => errors.push(FieldError::required(site.path(), detail)),
        (true, true) => errors.push(FieldError::forbidden(site.path(), detail)),
        (false, true) if !text(source, &["persistentVolumeName"]).is_empty() => {
            let name = text(source, &["persistentVolumeName"]);
            for detail in names::dns_subdomain_errors(name) {
                let field = format!("{}.persistentVolumeName", site.path());
                errors.push(FieldError::invalid(field, name, detail));
            }
        }
        (false, true) => {
            let field = format!("{}.persistentVolumeName", site.path());
            errors.push(FieldError::required(
                field,
                "must specify non empty persistentVolumeName",
            ));
        }
        _ => {}
    }
}

fn api_service(site: &Site<'_>, errors: &mut Errors<'_>) {
    let spec = &site.scope.value["spec"];
    let name = site.text();
    let wanted = format!("{}.{}", text(spec, &["version"]), text(spec, &["group"]));
    if name != wanted {
        let detail = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        errors.push(FieldError::invalid(site.path(), name, detail));
    }
}

fn slice_nodes(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(spec) = site.value else { return };
    let names = [
        "nodeName",
        "nodeSelector",
        "allNodes",
        "perDeviceNodeSelection",
    ];
    let is_set = |name: &&str| match spec.get(*name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    };
    let detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match names.iter().filter(|name| is_set(name)).count() {
        0 => errors.push(FieldError::required(site.path(), detail)),
        1 => {}
        _ => errors.push(FieldError::invalid(
            site.path(),
            ShownValue::raw("{}"),
            detail,
        )),
    }
}

/// Finalizers of a namespace's spec are qualified names.
fn finalizers(site: &Site<'_>, errors: &mut Errors<'_>) {
    for (place, finalizer) in site.items().iter().enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        for detail in names::label_key_errors(name) {
            let field = format!("{}[{place}]", site.path());
            errors.push(FieldError::invalid(field, name, detail));
        }
    }
}
