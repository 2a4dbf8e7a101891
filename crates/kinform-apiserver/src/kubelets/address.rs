//! The address of a node's kubelet.
//!
//! ```text
//! Node.status { addresses, daemonEndpoints } ──▶ Kubelet { hosts by preference, port }
//! ```
//!
//! Of each type of address, the first one counts. A name that does not resolve gives way to the next
//! type: the names of simulated nodes are in no DNS. An upstream server gives up there.
//!
//! Upstream: `kubernetes/kubernetes:pkg/util/node/node.go` (`GetPreferredNodeAddress`).

use serde_json::Value;

use crate::object::{at, text};

/// The types of addresses, the preferred one first: the default of upstream's
/// `--kubelet-preferred-address-types`.
const TYPES: [&str; 5] = [
    "Hostname",
    "InternalDNS",
    "InternalIP",
    "ExternalDNS",
    "ExternalIP",
];

/// The way to a node's kubelet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kubelet {
    /// Names and addresses, the preferred one first.
    pub(super) hosts: Vec<String>,
    pub(super) port: u16,
}

impl Kubelet {
    /// Returns the kubelet of a node, or `None` if the node states no port of one.
    ///
    /// # Errors
    /// The node has no address of a known type, in upstream's words.
    pub(crate) fn of(node: &Value) -> Result<Option<Self>, String> {
        let port = ["status", "daemonEndpoints", "kubeletEndpoint", "Port"];
        let port = at(node, &port).and_then(Value::as_u64);
        let Some(port) = port.and_then(|port| u16::try_from(port).ok()) else {
            return Ok(None);
        };
        if port == 0 {
            return Ok(None);
        }
        let known = at(node, &["status", "addresses"]).and_then(Value::as_array);
        let known: Vec<[&str; 2]> = known
            .into_iter()
            .flatten()
            .map(|of| [text(of, &["type"]), text(of, &["address"])])
            .collect();
        let first = |of: &str| known.iter().find(|[kind, _]| *kind == of);
        let hosts = TYPES.iter().filter_map(|kind| first(kind));
        let hosts: Vec<String> = hosts.map(|[_, host]| (*host).to_owned()).collect();
        if hosts.is_empty() {
            let known = known
                .iter()
                .map(|[kind, host]| format!("{{{kind} {host}}}"));
            let known = known.collect::<Vec<_>>().join(" ");
            return Err(format!(
                "no preferred addresses found; known addresses: [{known}]"
            ));
        }
        Ok(Some(Self { hosts, port }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_address_of_each_type_counts_in_upstreams_order() {
        let check = |addresses: Value, port: Value, want: Result<Option<&[&str]>, &str>| {
            let node = json!({"status": {"addresses": addresses,
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
            let got = Kubelet::of(&node);
            let got = got.map(|kubelet| kubelet.map(|kubelet| kubelet.hosts));
            let want = want.map(|hosts| hosts.map(|of| of.iter().map(|of| (*of).into()).collect()));
            assert_eq!(got, want.map_err(str::to_owned), "{node}");
        };
        let ip = |address: &str| json!({"type": "InternalIP", "address": address});
        let name = json!({"type": "Hostname", "address": "one"});
        let other = json!({"type": "Other", "address": "x"});
        check(
            json!([ip("10.0.0.1"), ip("10.0.0.2"), name]),
            json!(10250),
            Ok(Some(&["one", "10.0.0.1"])),
        );
        for port in [json!(null), json!(0), json!(70_000), json!("10250")] {
            check(json!([ip("10.0.0.1")]), port, Ok(None));
        }
        let none = "no preferred addresses found; known addresses: []";
        check(json!(null), json!(1), Err(none));
        let unknown = "no preferred addresses found; known addresses: [{Other x}]";
        check(json!([other]), json!(1), Err(unknown));
    }
}
