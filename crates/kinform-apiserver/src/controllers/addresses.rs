//! The addresses of services as objects: an IPAddress for each, as long as the service has it.
//!
//! ```text
//! service written ─▶ IPAddress NAME = its address, parentRef = the service       service gone ─▶ gone
//! ```
//!
//! Upstream: `kubernetes:pkg/registry/core/service/ipallocator/cidrallocator.go`.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::put::{API_SERVER, put};
use crate::object::{at, text};
use crate::resource::{Found, ResourceInfo};
use crate::state::State;
use crate::storage::{Expect, Stored};

/// The group and version of the objects.
const GROUP: (&str, &str) = ("networking.k8s.io", "v1");
const PLURAL: &str = "ipaddresses";

/// Makes or removes the addresses of a service that was written.
pub(super) fn follow(state: &State, resource: &ResourceInfo, service: &Stored) {
    if !resource.is_core("services") {
        return;
    }
    let Found::Resource(addresses) = state.registry.find(GROUP.0, GROUP.1, PLURAL) else {
        return;
    };
    // Of that name: a service that was deleted may have a successor.
    let now = state.store.get(resource.shelf, service.key());
    let now = now.map(|now| now.value());
    let held: Vec<IpAddr> = now.iter().flat_map(of).collect();
    if let Some(now) = &now {
        for address in &held {
            make(state, &addresses, address, now);
        }
    }
    let parent = parent(&service.value());
    for stored in state.store.view(addresses.shelf).snapshot.iter() {
        let is_held = || {
            stored
                .name()
                .parse()
                .is_ok_and(|address| held.contains(&address))
        };
        if stored.value()["spec"]["parentRef"] == parent && !is_held() {
            let expect = Expect::Revision(stored.revision());
            drop(state.store.remove(addresses.shelf, stored.key(), expect));
        }
    }
}

/// Makes the addresses of all services, when a server starts.
pub(crate) fn adopt(state: &State) {
    let Found::Resource(services) = state.registry.find("", "v1", "services") else {
        return;
    };
    for service in state.store.view(services.shelf).snapshot.iter() {
        follow(state, &services, service);
    }
}

/// The addresses of a service.
fn of(service: &Value) -> impl Iterator<Item = IpAddr> {
    let all = at(service, &["spec", "clusterIPs"]).and_then(Value::as_array);
    all.into_iter()
        .flatten()
        .filter_map(|address| address.as_str()?.parse().ok())
}

fn parent(service: &Value) -> Value {
    json!({
        "resource": "services",
        "namespace": text(service, &["metadata", "namespace"]),
        "name": text(service, &["metadata", "name"]),
    })
}

fn make(state: &State, addresses: &ResourceInfo, address: &IpAddr, service: &Value) {
    let name = address.to_string();
    let parent = parent(service);
    let writer = (addresses, API_SERVER);
    if let Some(stored) = state.store.get(addresses.shelf, &name) {
        let mut next = stored.value();
        if next["spec"]["parentRef"] != parent {
            // A service had it that gave it up meanwhile.
            next["spec"]["parentRef"] = parent;
            put(state, writer, next, Some(&stored));
        }
        return;
    }
    let family = match address {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    };
    let object = json!({
        "metadata": {
            "name": name,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family,
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": parent},
    });
    // Another request may have been faster: then it is there.
    put(state, writer, object, None);
}

#[cfg(test)]
mod tests {
    use http::Method;
    use serde_json::{Value, json};

    use crate::Server;

    #[tokio::test]
    async fn an_address_is_an_object_while_a_service_has_it() {
        let server = Server::builder().plain().in_process();
        let service = server.service();
        let services = "/api/v1/namespaces/default/services";
        let object = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 1}]}});
        let first = "/apis/networking.k8s.io/v1/ipaddresses/10.96.0.1";
        let first = service.ask(Method::GET, first, Value::Null).await.1;
        assert_eq!(first["spec"]["parentRef"]["name"], "kubernetes", "{first}");
        let made = service.ask(Method::POST, services, object).await.1;
        let address = made["spec"]["clusterIP"].as_str().unwrap();
        let path = format!("/apis/networking.k8s.io/v1/ipaddresses/{address}");
        let found = service.ask(Method::GET, &path, Value::Null).await.1;
        let parent = json!({"resource": "services", "namespace": "default", "name": "s"});
        assert_eq!(found["spec"]["parentRef"], parent, "{found}");
        let of = format!("{services}/s");
        let moved = json!({"metadata": {"name": "s"},
            "spec": {"type": "ExternalName", "externalName": "example.com"}});
        service.ask(Method::PUT, &of, moved).await;
        let left = service.ask(Method::GET, &path, Value::Null).await.1;
        assert_eq!(left["code"], 404, "{left}");
        let back = json!({"metadata": {"name": "s"},
            "spec": {"type": "ClusterIP", "clusterIP": address, "ports": [{"port": 1}]}});
        service.ask(Method::PUT, &of, back).await;
        let found = service.ask(Method::GET, &path, Value::Null).await.1;
        assert_eq!(found["spec"]["parentRef"], parent, "{found}");
        service.ask(Method::DELETE, &of, Value::Null).await;
        let gone = service.ask(Method::GET, &path, Value::Null).await.1;
        assert_eq!(gone["code"], 404, "{gone}");
    }
}
