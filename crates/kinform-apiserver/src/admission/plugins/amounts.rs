//! Amounts of resources, as containers and quotas write them.
//!
//! ```text
//! { cpu: 100m, .. } ──▶ Amounts          pod ──▶ the sum over its containers
//! ```
//!
//! Upstream: `kubernetes:pkg/api/v1/resource`, `kubernetes/apiserver:pkg/quota/v1`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::object::quantity::Quantity;

/// Amounts by the names of resources.
pub(crate) type Amounts = BTreeMap<String, Quantity>;

/// Reads amounts by name. A value that is no quantity is left out: validation refuses it.
pub(crate) fn read(of: &Value) -> Amounts {
    let entries = of.as_object().into_iter().flatten();
    let parsed =
        entries.filter_map(|(name, amount)| Some((name.clone(), amount.as_str()?.parse().ok()?)));
    parsed.collect()
}

/// The containers of a pod in `containers` or `initContainers`.
pub(super) fn containers<'a>(pod: &'a Value, place: &str) -> impl Iterator<Item = &'a Value> {
    pod["spec"][place].as_array().into_iter().flatten()
}

/// The requests or limits of a pod: the sum over its containers and its sidecars, or what an init
/// container needs beside the sidecars before it if that is more, and the overhead of its runtime.
pub(super) fn of_pod(pod: &Value, what: &str) -> Amounts {
    let mut sum = Amounts::new();
    for container in containers(pod, "containers") {
        add(&mut sum, &read(&container["resources"][what]));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in containers(pod, "initContainers") {
        let mut needed = read(&container["resources"][what]);
        // A sidecar is an init container that goes on.
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &needed);
            add(&mut sidecars, &needed);
            needed.clone_from(&sidecars);
        } else {
            add(&mut needed, &sidecars);
        }
        for (name, amount) in needed {
            let known = most.entry(name).or_default();
            *known = amount.max(*known);
        }
    }
    for (name, amount) in most {
        let total = sum.entry(name).or_default();
        *total = amount.max(*total);
    }
    let mut overhead = read(&pod["spec"]["overhead"]);
    if what == "limits" {
        // Without a limit there is none to raise.
        overhead.retain(|name, _| sum.contains_key(name));
    }
    add(&mut sum, &overhead);
    sum
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.entry(name.clone()).or_default();
        *total = total.plus(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_the_sum_of_its_containers_or_its_largest_init_container() {
        let one = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        for (containers, init, total) in [
            (["100m", "1"], "50m", "1100m"),
            (["100m", "1"], "3", "3"),
            (["0", "0"], "5m", "10m"),
        ] {
            let pod = json!({"spec": {"containers": containers.map(one),
                "initContainers": [one("10m"), one(init)]}});
            let found = of_pod(&pod, "requests")["cpu"].to_string();
            assert_eq!(found, total, "{containers:?} {init}");
        }
        assert!(of_pod(&json!({}), "limits").is_empty());
    }

    #[test]
    fn sidecars_go_on_and_a_runtime_takes_its_part() {
        let needs = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = needs("200m");
        sidecar["restartPolicy"] = json!("Always");
        let cpu = |init: &[Value]| {
            let pod = json!({"spec": {"containers": [needs("1")], "initContainers": init,
                "overhead": {"cpu": "50m", "memory": "1Mi"}}});
            assert!(of_pod(&pod, "limits").is_empty());
            of_pod(&pod, "requests")["cpu"].to_string()
        };
        assert_eq!(cpu(&[]), "1050m");
        assert_eq!(cpu(&[sidecar.clone(), needs("900m")]), "1250m");
        assert_eq!(cpu(&[sidecar.clone(), needs("2")]), "2250m");
        assert_eq!(cpu(&[needs("2"), sidecar]), "2050m");
    }
}
