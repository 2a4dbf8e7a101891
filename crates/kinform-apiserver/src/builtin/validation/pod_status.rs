//! Checks of the status that a kubelet writes to a pod.
//!
//! ```text
//! status + the stored pod ──▶ conditions, node, class, containers that ended, claims, addresses: [FieldError]
//! ```
//!
//! Upstream: `kubernetes/kubernetes:pkg/apis/core/validation/validation.go`
//! (`ValidatePodStatusUpdate`).

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};

use kinform_api::{FieldError, ShownValue, names};
use serde_json::Value;

use super::words;
use crate::object::metadata::MOST_ERRORS;
use crate::object::{at, metadata, text};

const NO_INTEGER: &str = "must be a non-negative integer";
const ONE_OF_EACH: &str = "may specify no more than one IP for each IP family";

/// Returns the errors of a write of a pod's status.
pub(in crate::builtin) fn errors(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    conditions(new, &mut errors);
    nominated_node(new, old, &mut errors);
    if let Some(generation) = negative(at(new, &["status", "observedGeneration"])) {
        let field = "status.observedGeneration";
        errors.push(FieldError::invalid(field, generation, NO_INTEGER));
    }
    let class = ["status", "qosClass"];
    if text(new, &class) != text(old, &class) {
        errors.push(metadata::immutable("status.qosClass", at(new, &class)));
    }
    for list in ["containerStatuses", "initContainerStatuses"] {
        ended_containers(list, (new, old), &mut errors);
    }
    claims(new, &mut errors);
    addresses("podIPs", new, &mut errors);
    let first = at(new, &["status", "hostIPs"]).and_then(|list| list.get(0));
    let first = first.map_or("", |item| text(item, &["ip"]));
    addresses("hostIPs", new, &mut errors);
    if !first.is_empty() && first != text(new, &["status", "hostIP"]) {
        let detail = "must be equal to `hostIP`";
        errors.push(FieldError::invalid("status.hostIPs[0].ip", first, detail));
    }
    errors.truncate(MOST_ERRORS);
    errors
}

/// The items of a list in the status.
fn listed<'a>(pod: &'a Value, name: &str) -> &'a [Value] {
    let list = at(pod, &["status", name]).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn negative(number: Option<&Value>) -> Option<i64> {
    number.and_then(Value::as_i64).filter(|number| *number < 0)
}

fn conditions(new: &Value, errors: &mut Vec<FieldError>) {
    for (place, condition) in listed(new, "conditions").iter().enumerate() {
        let path = format!("status.conditions[{place}]");
        let of = text(condition, &["type"]);
        for detail in names::label_key_errors(of) {
            errors.push(FieldError::invalid(format!("{path}.Type"), of, detail));
        }
        if let Some(generation) = negative(condition.get("observedGeneration")) {
            let field = format!("{path}.observedGeneration");
            errors.push(FieldError::invalid(field, generation, NO_INTEGER));
        }
    }
}

fn nominated_node(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let path = ["status", "nominatedNodeName"];
    let node = text(new, &path);
    if node.is_empty() {
        return;
    }
    let field = "status.nominatedNodeName";
    for detail in names::dns_subdomain_errors(node) {
        errors.push(FieldError::invalid(field, node, detail));
    }
    if !text(new, &["spec", "nodeName"]).is_empty() && node != text(old, &path) {
        let detail = "may not be set on pods that are already bound to a node";
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// A container that has ended, and is not to be restarted, stays so.
fn ended_containers(list: &str, (new, old): (&Value, &Value), errors: &mut Vec<FieldError>) {
    let policy = text(new, &["spec", "restartPolicy"]);
    if policy == "Always" {
        return;
    }
    let init = at(new, &["spec", "initContainers"]).and_then(Value::as_array);
    let init = init.into_iter().flatten();
    let restarted: HashSet<&str> = init
        .filter(|of| list == "initContainerStatuses" && text(of, &["restartPolicy"]) == "Always")
        .map(|of| text(of, &["name"]))
        .collect();
    let end = |status: &'_ Value| {
        let ended = at(status, &["state", "terminated"]).filter(|state| !state.is_null());
        ended.map(|state| state["exitCode"].as_i64().unwrap_or(0))
    };
    let alive = listed(new, list)
        .iter()
        .filter(|status| end(status).is_none());
    let alive: HashSet<&str> = alive.map(|status| text(status, &["name"])).collect();
    for (place, status) in listed(old, list).iter().enumerate() {
        let name = text(status, &["name"]);
        let Some(code) = end(status).filter(|_| !restarted.contains(name)) else {
            continue;
        };
        let may_restart = code != 0 && policy == "OnFailure";
        if !may_restart && alive.contains(name) {
            let field = format!("status.{list}[{place}].state");
            let detail = "may not be transitioned to non-terminated state";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
}

fn claims(new: &Value, errors: &mut Vec<FieldError>) {
    let statuses = listed(new, "resourceClaimStatuses");
    let claims = at(new, &["spec", "resourceClaims"]).and_then(Value::as_array);
    let claims = claims.into_iter().flatten();
    let claims: HashSet<&str> = claims.map(|claim| text(claim, &["name"])).collect();
    for (place, status) in statuses.iter().enumerate() {
        let name = text(status, &["name"]);
        if !claims.contains(name) {
            let field = format!("status.resourceClaimStatuses[{place}].name");
            let detail = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(field, name, detail));
        }
    }
}

/// Addresses of a pod or of its node: valid ones, at most one of each family.
fn addresses(name: &str, new: &Value, errors: &mut Vec<FieldError>) {
    let path = format!("status.{name}");
    let items = listed(new, name);
    let mut found: Vec<Option<IpAddr>> = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let address = text(item, &["ip"]);
        if let Some(detail) = address_error(address) {
            let field = format!("{path}[{place}]");
            errors.push(FieldError::invalid(field, address, detail));
        }
        found.push(address.parse().ok());
    }
    if items.len() < 2 {
        return;
    }
    let broken = found.iter().position(Option::is_none);
    if let Some(place) = broken {
        let address = text(&items[place], &["ip"]);
        let detail =
            format!("failed to check for dual stack with error:invalid IP[{place}]: {address}");
        errors.push(FieldError::internal(path.clone(), detail));
    }
    let families: HashSet<bool> = found.iter().flatten().map(IpAddr::is_ipv4).collect();
    if items.len() > 2 || broken.is_some() || families.len() < 2 {
        let shown = items.iter().map(|item| {
            let address = Value::from(text(item, &["ip"]));
            format!("{{\"IP\":{address}}}")
        });
        let shown = ShownValue::raw(format!("[{}]", shown.collect::<Vec<_>>().join(",")));
        errors.push(FieldError::invalid(path, shown, ONE_OF_EACH));
    }
}

/// Upstream: `IsValidIP`.
fn address_error(text: &str) -> Option<&'static str> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) if is_mapped(address) => {
            Some("must not be an IPv4-mapped IPv6 address")
        }
        Ok(_) => None,
        Err(_) if is_padded(text) => Some("must not have leading 0s"),
        Err(_) => Some(words::NO_ADDRESS),
    }
}

fn is_mapped(address: Ipv6Addr) -> bool {
    address.to_ipv4_mapped().is_some()
}

/// Returns whether a text is an address but for zeros before its numbers.
fn is_padded(text: &str) -> bool {
    let bare = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        digits => digits.to_owned(),
    };
    let parts: Vec<String> = text.split('.').map(bare).collect();
    parts.len() == 4 && words::is_address(&parts.join("."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(spec: Value, (old, new): (Value, Value), expected: &[&str]) {
        let (old, new) = (
            json!({"spec": spec, "status": old}),
            json!({"spec": spec, "status": new}),
        );
        let found: Vec<String> = errors(&new, &old).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{new}");
    }

    #[test]
    fn addresses_are_valid_and_at_most_one_of_each_family() {
        let status = |name: &str, addresses: &[&str]| {
            let list: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            let mut status = json!({name: list});
            status["hostIP"] = json!(addresses[0]);
            (Value::Null, status)
        };
        let dual = "may specify no more than one IP for each IP family";
        let none = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        for name in ["podIPs", "hostIPs"] {
            check(json!({}), status(name, &["10.0.0.3", "fd00::1"]), &[]);
            check(
                json!({}),
                status(name, &["bogus"]),
                &[&format!(
                    "status.{name}[0]: Invalid value: \"bogus\": {none}"
                )],
            );
            check(
                json!({}),
                status(name, &["10.0.0.3", "10.0.0.4"]),
                &[&format!(
                    "status.{name}: Invalid value: [{{\"IP\":\"10.0.0.3\"}},{{\"IP\":\"10.0.0.4\"}}]: {dual}"
                )],
            );
            check(
                json!({}),
                status(name, &["b", ""]),
                &[
                    &format!("status.{name}[0]: Invalid value: \"b\": {none}"),
                    &format!("status.{name}[1]: Invalid value: \"\": {none}"),
                    &format!(
                        "status.{name}: Internal error: failed to check for dual stack with \
                         error:invalid IP[0]: b"
                    ),
                    &format!(
                        "status.{name}: Invalid value: [{{\"IP\":\"b\"}},{{\"IP\":\"\"}}]: {dual}"
                    ),
                ],
            );
            check(
                json!({}),
                status(name, &["010.0.0.1"]),
                &[&format!(
                    "status.{name}[0]: Invalid value: \"010.0.0.1\": must not have leading 0s"
                )],
            );
            check(
                json!({}),
                status(name, &["::ffff:1.2.3.4"]),
                &[&format!(
                    "status.{name}[0]: Invalid value: \"::ffff:1.2.3.4\": must not be an \
                     IPv4-mapped IPv6 address"
                )],
            );
        }
        check(
            json!({}),
            (
                Value::Null,
                json!({"hostIPs": [{"ip": "1.2.3.4"}], "hostIP": "1.2.3.5"}),
            ),
            &["status.hostIPs[0].ip: Invalid value: \"1.2.3.4\": must be equal to `hostIP`"],
        );
    }

    #[test]
    fn a_container_that_ended_starts_again_only_if_its_policy_says_so() {
        let ended = |list: &str, code: i64| json!({list: [{"name": "c", "state": {"terminated": {"exitCode": code}}}]});
        let alive = |list: &str| json!({list: [{"name": "c", "state": {"running": {}}}]});
        for list in ["containerStatuses", "initContainerStatuses"] {
            let error = format!(
                "status.{list}[0].state: Forbidden: may not be transitioned to non-terminated state"
            );
            let error = [error.as_str()];
            for (policy, code, expected) in [
                ("Always", 0, &[][..]),
                ("OnFailure", 1, &[]),
                ("OnFailure", 0, &error),
                ("Never", 1, &error),
            ] {
                let spec = json!({"restartPolicy": policy});
                check(spec, (ended(list, code), alive(list)), expected);
            }
            let spec = json!({"restartPolicy": "Never",
                "initContainers": [{"name": "c", "restartPolicy": "Always"}]});
            let expected = if list == "containerStatuses" {
                &error[..]
            } else {
                &[]
            };
            check(spec, (ended(list, 0), alive(list)), expected);
            check(json!({}), (ended(list, 0), json!({})), &[]);
        }
    }

    #[test]
    fn other_members_are_checked_as_by_upstream() {
        let changed = |new: Value| (json!({"qosClass": "Burstable"}), new);
        let same = |mut new: Value| {
            new["qosClass"] = json!("Burstable");
            changed(new)
        };
        check(
            json!({}),
            changed(json!({"qosClass": "Guaranteed"})),
            &["status.qosClass: Invalid value: \"Guaranteed\": field is immutable"],
        );
        check(
            json!({"nodeName": "n"}),
            same(json!({"nominatedNodeName": "m"})),
            &[
                "status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to \
               a node",
            ],
        );
        check(
            json!({}),
            same(
                json!({"observedGeneration": -1, "resourceClaimStatuses": [{"name": "q"}],
                "conditions": [{"type": "Ready", "observedGeneration": -2}]}),
            ),
            &[
                "status.conditions[0].observedGeneration: Invalid value: -2: must be a non-negative \
                 integer",
                "status.observedGeneration: Invalid value: -1: must be a non-negative integer",
                "status.resourceClaimStatuses[0].name: Invalid value: \"q\": must match the name of \
                 an entry in `spec.resourceClaims`",
            ],
        );
    }
}
