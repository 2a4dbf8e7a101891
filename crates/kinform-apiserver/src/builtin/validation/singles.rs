//! Checks of single members, each with a message of its own.
//!
//! ```text
//! :no_backsteps path -> no `..` in it          :role_change roleRef -> it stays
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/*/validation`.

use std::collections::{HashMap, HashSet};

use kinform_api::{FieldError, ShownValue, names};
use serde_json::Value;

use super::rule::Check;
use super::{Errors, Site, checks, words};
use crate::object::metadata::shown;
use crate::object::{at, text};

pub(super) fn named(name: &str) -> Option<Check> {
    Some(match name {
        ":absolute" => absolute,
        ":at_most_two" => at_most_two,
        ":client_config" => client_config,
        ":controller" => controller,
        ":driver_change" => driver_change,
        ":event_type" => event_type,
        ":external_name" => external_name,
        ":flow_bounds" => flow_bounds,
        ":local_tls" => local_tls,
        ":no_backsteps" => no_backsteps,
        ":node_term" => node_term,
        ":not_negative" => not_negative,
        ":object" => object,
        ":one" => one,
        ":parent_reference" => parent_reference,
        ":priority" => priority,
        ":provisioner" => provisioner,
        ":quota_names" => quota_names,
        ":review_versions" => review_versions,
        ":role_change" => role_change,
        ":rules_or_backend" => rules_or_backend,
        ":scope_operator" => scope_operator,
        ":short" => short,
        ":slice_ports" => slice_ports,
        ":some_addresses" => some_addresses,
        ":some_peer" => some_peer,
        ":some_values" => some_values,
        ":token_requests" => token_requests,
        ":unique_items" => unique_items,
        ":webhook_name" => webhook_name,
        _ => return None,
    })
}

fn invalid(site: &Site<'_>, errors: &mut Errors<'_>, detail: &str) {
    errors.push(FieldError::invalid(site.path(), shown(site.value), detail));
}

fn has(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|member| !member.is_null())
}

fn absolute(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !site.text().starts_with('/') {
        errors.push(FieldError::invalid(
            site.path(),
            site.text(),
            "must be an absolute path",
        ));
    }
}

fn at_most_two(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.items().len() > 2 {
        invalid(site, errors, site.detail());
    }
}

fn object(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value.is_some_and(|value| !value.is_object()) {
        errors.push(FieldError::required(site.path(), site.detail()));
    }
}

fn short(site: &Site<'_>, errors: &mut Errors<'_>) {
    let most = site.words().first().and_then(|word| word.parse().ok());
    if let Some(most) = most.filter(|most| site.text().len() > *most) {
        errors.push(FieldError::too_long(site.path(), most));
    }
}

fn no_backsteps(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.text().split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(
            site.path(),
            site.text(),
            "must not contain '..'",
        ));
    }
}

fn one(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.number() != 1 {
        errors.push(FieldError::invalid(site.path(), site.number(), "must be 1"));
    }
}

fn not_negative(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.number() < 0 {
        errors.push(FieldError::invalid(
            site.path(),
            site.number(),
            site.detail(),
        ));
    }
}

fn some_values(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.items().is_empty() {
        invalid(site, errors, site.detail());
    }
}

fn unique_items(site: &Site<'_>, errors: &mut Errors<'_>) {
    let key = site.words().first().copied().unwrap_or("name");
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, item) in site.items().iter().enumerate() {
        let value = text(item, &[key]);
        if !seen.insert(value) {
            errors.push(FieldError::duplicate(
                format!("{}[{place}]", site.path()),
                value,
            ));
        }
    }
}

fn node_term(site: &Site<'_>, errors: &mut Errors<'_>) {
    let requirements = site
        .value
        .and_then(|term| at(term, &["matchExpressions"]))
        .and_then(Value::as_array);
    for (place, requirement) in requirements.into_iter().flatten().enumerate() {
        let path = format!("{}.matchExpressions[{place}]", site.path());
        let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
        checks::requirement_errors(&path, requirement, &operators, errors);
    }
}

fn external_name(site: &Site<'_>, errors: &mut Errors<'_>) {
    let name = site.text().strip_suffix('.').unwrap_or(site.text());
    if !name.is_empty() {
        checks::form(site, errors, names::dns_subdomain_errors(name));
    }
}

fn some_addresses(site: &Site<'_>, errors: &mut Errors<'_>) {
    let count = |name: &str| {
        let list = site.value.and_then(|subset| at(subset, &[name]));
        list.and_then(Value::as_array).map_or(0, Vec::len)
    };
    if count("addresses") + count("notReadyAddresses") == 0 {
        let detail = "must specify `addresses` or `notReadyAddresses`";
        errors.push(FieldError::required(site.path(), detail));
    }
}

fn slice_ports(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, port) in site.items().iter().enumerate() {
        let name = text(port, &["name"]);
        if !seen.insert(name) {
            let field = format!("{}[{place}].name", site.path());
            errors.push(FieldError::duplicate(field, name));
        }
    }
}

fn some_peer(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(peer) = site.value else { return };
    let is_block = has(peer, "ipBlock");
    let is_selected = has(peer, "podSelector") || has(peer, "namespaceSelector");
    if is_block && is_selected {
        let detail = "may not specify both ipBlock and another peer";
        errors.push(FieldError::forbidden(site.path(), detail));
    } else if !is_block && !is_selected {
        errors.push(FieldError::required(site.path(), "must specify a peer"));
    }
}

fn rules_or_backend(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(spec) = site.value else { return };
    let rules = at(spec, &["rules"])
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    if rules == 0 && !has(spec, "defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(
            site.path(),
            ShownValue::raw("null"),
            detail,
        ));
    }
}

fn controller(site: &Site<'_>, errors: &mut Errors<'_>) {
    let name = site.text();
    if name.len() > 250 {
        errors.push(FieldError::too_long(site.path(), 250));
    }
    let domain = name.split_once('/').map_or(name, |(domain, _)| domain);
    if name.is_empty() {
        errors.push(FieldError::required(site.path(), ""));
    } else if !name.contains('/') {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(site.path(), name, detail));
    } else {
        for detail in names::dns_subdomain_errors(domain) {
            errors.push(FieldError::invalid(site.path(), domain, detail));
        }
    }
}

fn parent_reference(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(reference) = site.value else {
        errors.push(FieldError::required(site.path(), ""));
        return;
    };
    for name in ["resource", "namespace", "name"] {
        let value = text(reference, &[name]);
        let field = format!("{}.{name}", site.path());
        if value.is_empty() && name != "namespace" {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        for letter in ['/', '%']
            .into_iter()
            .filter(|letter| value.contains(*letter))
        {
            errors.push(FieldError::invalid(
                field.clone(),
                value,
                format!("may not contain '{letter}'"),
            ));
        }
    }
}

fn priority(site: &Site<'_>, errors: &mut Errors<'_>) {
    let name = text(site.scope.value, &["metadata", "name"]);
    if site.number() > 1_000_000_000 && !name.starts_with("system-") {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(FieldError::forbidden(site.path(), detail));
    }
}

fn provisioner(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.text().is_empty() {
        errors.push(FieldError::required(site.path(), ""));
        return;
    }
    checks::form(
        site,
        errors,
        names::label_key_errors(&site.text().to_lowercase()),
    );
}

/// A driver of a node is immutable, except for its capacity.
fn driver_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    let plain = |driver: &Value| {
        let mut driver = driver.clone();
        if let Some(members) = driver.as_object_mut() {
            members.remove("allocatable");
        }
        driver
    };
    let before = site
        .old()
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let mut named: HashMap<&str, &Value> = HashMap::new();
    for old in before {
        named.entry(text(old, &["name"])).or_insert(old);
    }
    for driver in site.items() {
        let same = named.get(text(driver, &["name"]));
        if same.is_some_and(|old| plain(old) != plain(driver)) {
            errors.push(FieldError::invalid(
                site.path(),
                shown(Some(driver)),
                "field is immutable",
            ));
        }
    }
}

fn token_requests(site: &Site<'_>, errors: &mut Errors<'_>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for (place, request) in site.items().iter().enumerate() {
        let audience = text(request, &["audience"]);
        let path = format!("{}[{place}]", site.path());
        if !seen.insert(audience) {
            errors.push(FieldError::duplicate(format!("{path}.audience"), audience));
        }
        let seconds = request.get("expirationSeconds").and_then(Value::as_i64);
        if let Some(seconds) = seconds.filter(|seconds| *seconds < 600) {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(FieldError::invalid(
                format!("{path}.expirationSeconds"),
                seconds,
                detail,
            ));
        }
    }
}

fn role_change(site: &Site<'_>, errors: &mut Errors<'_>) {
    if site.value != site.old() {
        let said = |name| Value::from(text(site.value.unwrap_or(&Value::Null), &[name]));
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            said("apiGroup"),
            said("kind"),
            said("name")
        );
        let detail = "field is immutable";
        errors.push(FieldError::invalid(
            site.path(),
            ShownValue::raw(shown),
            detail,
        ));
    }
}

fn event_type(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !matches!(site.text(), "Normal" | "Warning") {
        let detail = format!("has invalid value: {}", site.text());
        errors.push(FieldError::invalid(site.path(), "", detail));
    }
}

fn quota_names(site: &Site<'_>, errors: &mut Errors<'_>) {
    for name in site
        .value
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| name)
    {
        let field = format!("{}[{name}]", site.path());
        let wrong = names::label_key_errors(name);
        let is_well = wrong.is_empty();
        for detail in wrong {
            errors.push(FieldError::invalid(field.clone(), name.as_str(), detail));
        }
        const KNOWN: [&str; 17] = [
            "cpu",
            "memory",
            "ephemeral-storage",
            "requests.cpu",
            "requests.memory",
            "requests.storage",
            "requests.ephemeral-storage",
            "limits.cpu",
            "limits.memory",
            "limits.ephemeral-storage",
            "pods",
            "resourcequotas",
            "services",
            "replicationcontrollers",
            "secrets",
            "persistentvolumeclaims",
            "configmaps",
        ];
        let is_known = KNOWN.contains(&name.as_str())
            || matches!(
                name.as_str(),
                "services.nodeports" | "services.loadbalancers"
            )
            || name.contains("hugepages-");
        if is_well && !name.contains('/') && !is_known {
            for detail in [
                "must be a standard resource type or fully qualified",
                "must be a standard resource for quota",
            ] {
                errors.push(FieldError::invalid(field.clone(), name.as_str(), detail));
            }
        }
    }
}

fn scope_operator(site: &Site<'_>, errors: &mut Errors<'_>) {
    let (operator, values) = (site.text(), at(site.scope.value, &["values"]));
    let count = values.and_then(Value::as_array).map_or(0, Vec::len);
    match operator {
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail =
                "must be no value when `operator` is 'Exists' or 'DoesNotExist' for scope selector";
            let field = format!("{}.values", site.scope.path());
            errors.push(FieldError::invalid(field, shown(values), detail));
        }
        "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid(
            site.path(),
            other,
            "not a valid selector operator",
        )),
    }
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

fn client_config(site: &Site<'_>, errors: &mut Errors<'_>) {
    let Some(config) = site.value else { return };
    let path = site.path();
    match (has(config, "url"), has(config, "service")) {
        (true, true) | (false, false) => {
            errors.push(FieldError::required(
                path,
                "exactly one of url or service is required",
            ));
        }
        (true, false) => {
            let url = text(config, &["url"]);
            let scheme = url.split_once('/').map_or(url, |(scheme, _)| scheme);
            let scheme = scheme.trim_end_matches(':');
            if scheme != "https" {
                let detail =
                    "'https' is the only allowed URL scheme; desired format: https://host[/path]";
                errors.push(FieldError::invalid(format!("{path}.url"), scheme, detail));
            }
        }
        (false, true) => {
            let service = &config["service"];
            for (name, detail) in [
                ("name", "service name is required"),
                ("namespace", "service namespace is required"),
            ] {
                if text(service, &[name]).is_empty() {
                    errors.push(FieldError::required(
                        format!("{path}.service.{name}"),
                        detail,
                    ));
                }
            }
            let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
            if let Some(wrong) = words::port_number(port) {
                let detail = format!("port is not valid: {wrong}");
                errors.push(FieldError::invalid(
                    format!("{path}.service.port"),
                    port,
                    detail,
                ));
            }
            let url = text(service, &["path"]);
            if !url.is_empty() && !url.starts_with('/') {
                errors.push(FieldError::invalid(
                    format!("{path}.service.path"),
                    url,
                    "must start with a '/'",
                ));
            }
        }
    }
}

fn local_tls(site: &Site<'_>, errors: &mut Errors<'_>) {
    let spec = &site.scope.value["spec"];
    let skips = site.value == Some(&Value::Bool(true));
    if skips && !has(spec, "service") {
        invalid(
            site,
            errors,
            "local APIServices may not have insecureSkipTLSVerify",
        );
    }
    if skips && !text(spec, &["caBundle"]).is_empty() {
        invalid(site, errors, "may not be true if caBundle is present");
    }
}

fn flow_bounds(site: &Site<'_>, errors: &mut Errors<'_>) {
    if !(1..=10_000).contains(&site.number()) {
        let detail = "must be a value between 1 and 10000";
        errors.push(FieldError::invalid(site.path(), site.number(), detail));
    }
}
