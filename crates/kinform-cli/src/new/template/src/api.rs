//! `Gizmo`, the custom resource. `cargo run -- crd` prints its definition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use kube::CustomResource;
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};

/// The desired state.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "gizmo.example",
    version = "v1alpha1",
    kind = "Gizmo",
    plural = "gizmos",
    namespaced, // only: namespaced
    status = "GizmoStatus",
    derive = "PartialEq",
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct GizmoSpec {
    /// Text for the ConfigMap.
    #[schemars(length(min = 1, max = 1000))]
    pub text: String,
}

/// The observed state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GizmoStatus {
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// One condition of each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions")]
    pub conditions: Vec<v1::Condition>,
}

/// The schema of a list with one entry for each type, so that several writers can own entries.
fn conditions(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": { "type": "string", "maxLength": 316 },
                "status": { "type": "string", "enum": ["True", "False", "Unknown"] },
                "observedGeneration": { "type": "integer", "format": "int64", "minimum": 0 },
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "reason": { "type": "string", "minLength": 1, "maxLength": 1024 },
                "message": { "type": "string", "maxLength": 32768 }
            }
        }
    })
}
