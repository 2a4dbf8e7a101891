//! The controller with crashes, stale caches and lost replies: the objects must end as without.
//!
//! A failure prints the faults that it took, and the line that replays them.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use crate::{config_map_key, example, key, operator};
use ::gizmo_operator::api;

#[test]
fn faults_change_neither_the_objects_nor_the_number_of_writes_that_matter() {
    kinform_testkit::simulate(|sim| {
        sim.crd::<api::Gizmo>()
            .operator(operator)
            .create(example("a", "one"))
            .create(example("b", "two"))
            .patch::<api::Gizmo>(&key("a"), json!({"spec": {"text": "three"}}))
            .delete::<ConfigMap>(&config_map_key("b"))
            .delete::<api::Gizmo>(&key("a"))
            .seeds(50);
    });
}
