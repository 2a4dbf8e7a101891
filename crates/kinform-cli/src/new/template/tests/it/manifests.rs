//! The manifests, compared with the code.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;

use ::gizmo_operator::api;

#[test]
fn the_manifest_of_the_definition_is_that_of_the_type() {
    let manifest = include_str!("../../deploy/crd.yaml");
    let manifest: CustomResourceDefinition = serde_saphyr::from_str(manifest).unwrap();
    let remedy = "cargo run -- crd > deploy/crd.yaml";
    assert!(manifest == api::Gizmo::crd(), "the type has changed: {remedy}");
}

#[test]
fn the_example_fits_the_type() {
    let example = include_str!("../../deploy/example.yaml");
    let example: api::Gizmo = serde_saphyr::from_str(example).unwrap();
    assert_eq!(example.spec.text, "hello");
}
