//! The table against what a real server answered.
#![expect(
    clippy::unwrap_used,
    reason = "a test stops where something is missing"
)]

mod golden;

use kinform_schema::{Container, FieldType, builtin, kinds, named_type, resource, resources};

#[test]
fn the_table_has_every_kind_and_type_of_the_release() {
    assert_eq!(kinds().count(), 390);
    assert!(builtin("", "v1", "Pod").is_some_and(|pod| pod.is_kind()));
    assert!(builtin("apps", "v1", "DeploymentList").is_some());
    assert!(builtin("extensions", "v1beta1", "Ingress").is_some());
    assert!(builtin("", "v1", "Foo").is_none());
    let meta = named_type("k8s.io/apimachinery/pkg/apis/meta/v1", "ObjectMeta").unwrap();
    assert!(!meta.is_kind());
    assert_eq!(meta.field("managedFields").unwrap().number(), 17);
}

#[test]
fn fields_say_how_they_stand_in_json_and_in_protobuf() {
    let pod = builtin("", "v1", "Pod").unwrap();
    let spec = pod.field("spec").unwrap().message().unwrap();
    assert_eq!(spec.name(), "PodSpec");
    let containers = spec.field("containers").unwrap();
    assert_eq!(containers.container(), Container::List);
    assert_eq!(containers.number(), 2);
    assert_eq!(spec.field_by_number(2).unwrap().name(), "containers");
    assert!(spec.field_by_number(9999).is_none());
    let container = containers.message().unwrap();
    assert!(matches!(
        container.field("command").unwrap().field_type(),
        FieldType::String
    ));
    let meta = pod.field("metadata").unwrap().message().unwrap();
    assert!(matches!(
        meta.field("creationTimestamp").unwrap().field_type(),
        FieldType::Time
    ));
    let limits = container
        .field("resources")
        .unwrap()
        .message()
        .unwrap()
        .field("limits")
        .unwrap();
    assert_eq!(limits.container(), Container::Map);
    assert!(matches!(limits.field_type(), FieldType::Quantity));
    // An inline struct's fields stand in their parent.
    let volume = spec.field("volumes").unwrap().message().unwrap();
    assert_eq!(
        volume.field("configMap").unwrap().message().unwrap().name(),
        "ConfigMapVolumeSource"
    );
    assert!(volume.field("").is_none());
}

#[test]
fn merge_keys_and_patch_strategies_are_those_of_the_tags() {
    let pod = builtin("", "v1", "Pod").unwrap();
    let spec = pod.field("spec").unwrap().message().unwrap();
    for (field, key) in [
        ("containers", "name"),
        ("volumes", "name"),
        ("imagePullSecrets", "name"),
        ("topologySpreadConstraints", "topologyKey"),
    ] {
        let field = spec.field(field).unwrap();
        assert_eq!(field.merge_key(), Some(key));
        assert!(field.patch_strategy().merge);
    }
    assert!(spec.field("volumes").unwrap().patch_strategy().retain_keys);
    assert_eq!(spec.field("tolerations").unwrap().merge_key(), None);
    let deployment = builtin("apps", "v1", "Deployment").unwrap();
    let strategy = deployment
        .field("spec")
        .unwrap()
        .message()
        .unwrap()
        .field("strategy")
        .unwrap();
    assert!(strategy.patch_strategy().retain_keys);
    let keyed = |of: &kinform_schema::Type| {
        of.fields()
            .iter()
            .filter(|field| field.merge_key().is_some())
            .count()
    };
    let service = builtin("", "v1", "Service").unwrap();
    assert_eq!(keyed(service.field("spec").unwrap().message().unwrap()), 1);
}

#[test]
fn resources_stand_in_the_order_of_discovery() {
    let first = &resources()[0];
    assert_eq!((first.group_version.group, first.plural), ("", "bindings"));
    let pods = resource("", "v1", "pods").unwrap();
    assert_eq!(pods.kind, "Pod");
    assert!(pods.is_namespaced && pods.has_verb("watch"));
    assert_eq!(pods.short_names, ["po"]);
    assert_eq!(pods.categories, ["all"]);
    assert!(pods.subresource("status").is_some() && pods.subresource("scale").is_none());
    let scale = resource("apps", "v1", "deployments")
        .unwrap()
        .subresource("scale")
        .unwrap();
    assert_eq!(scale.kind, "Scale");
    assert_eq!(scale.group_version.unwrap().group, "autoscaling");
    assert!(!resource("", "v1", "nodes").unwrap().is_namespaced);
    assert!(resource("samplecontroller.k8s.io", "v1alpha1", "foos").is_none());
    // Every served kind has a type.
    for resource in resources() {
        let of = resource.group_version;
        assert!(
            builtin(of.group, of.version, resource.kind).is_some(),
            "{resource:?}"
        );
    }
}
