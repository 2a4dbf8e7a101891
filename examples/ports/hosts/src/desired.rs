//! The objects that a host configuration asks for, without their owner.
//!
//! ```text
//! HostConfig, credentials? ─▶ ConfigMap, ServiceAccount, Role, RoleBinding, Deployment │ DaemonSet, Service
//! ```
//!
//! Pure functions: equal configurations make equal objects.
//!
//! Upstream counterpart: `wasmcloud-operator:src/controller.rs` (`configmap`, `configure_auth`,
//! `configure_hosts`, `configure_service`).

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, EnvVar, PodSpec, PodTemplateSpec,
    SecretVolumeSource, Service, ServiceAccount, ServicePort, ServiceSpec, Volume, VolumeMount,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt as _;

use crate::{CONTROLLER, CREDENTIALS, HostConfig};

/// The label of objects that the controller keeps.
const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", CONTROLLER);

/// The selector of objects that the controller keeps.
#[must_use]
pub fn managed() -> String {
    format!("{}={}", MANAGED_BY.0, MANAGED_BY.1)
}

/// The configuration of the message bus beside each host.
#[must_use]
pub fn config_map(config: &HostConfig, has_credentials: bool) -> ConfigMap {
    let credentials = match has_credentials {
        true => "\n      credentials: \"/nats/nats.creds\"",
        false => "",
    };
    let address = &config.spec.nats_address;
    let text = format!(
        "jetstream {{ domain: leaf }}\nleafnodes {{\n  remotes: [\n    {{\n      url: \
         \"{address}:7422\"{credentials}\n    }}\n  ]\n}}\n"
    );
    ConfigMap {
        metadata: metadata(config),
        data: Some([("nats.conf".to_owned(), text)].into()),
        ..ConfigMap::default()
    }
}

/// The account of the hosts.
#[must_use]
pub fn service_account(config: &HostConfig) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata(config),
        ..ServiceAccount::default()
    }
}

/// The rights of the hosts.
#[must_use]
pub fn role(config: &HostConfig) -> Role {
    let verbs = ["get", "list", "create", "update", "patch", "delete"];
    let rule = PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["services".to_owned()]),
        verbs: verbs.map(str::to_owned).into(),
        ..PolicyRule::default()
    };
    Role {
        metadata: metadata(config),
        rules: Some(vec![rule]),
    }
}

/// The rights given to the account.
#[must_use]
pub fn role_binding(config: &HostConfig) -> RoleBinding {
    RoleBinding {
        metadata: metadata(config),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "Role".to_owned(),
            name: config.name_any(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: config.name_any(),
            namespace: config.namespace(),
            ..Subject::default()
        }]),
    }
}

/// The hosts, of which there are some.
#[must_use]
pub fn deployment(config: &HostConfig, has_credentials: bool) -> Deployment {
    let spec = DeploymentSpec {
        replicas: Some(config.spec.host_replicas),
        selector: selector(config),
        template: template(config, has_credentials),
        ..DeploymentSpec::default()
    };
    Deployment {
        metadata: metadata(config),
        spec,
        status: None,
    }
}

/// The hosts, of which each node has one.
#[must_use]
pub fn daemon_set(config: &HostConfig, has_credentials: bool) -> DaemonSet {
    let spec = DaemonSetSpec {
        selector: selector(config),
        template: template(config, has_credentials),
        ..DaemonSetSpec::default()
    };
    DaemonSet {
        metadata: metadata(config),
        spec,
        status: None,
    }
}

/// The way to the message bus of the hosts.
#[must_use]
pub fn service(config: &HostConfig) -> Service {
    let mut metadata = metadata(config);
    let labels = metadata.labels.get_or_insert_default();
    labels.insert("ports.kinform.dev/route-to".to_owned(), "true".to_owned());
    let spec = ServiceSpec {
        selector: Some(instance(config)),
        ports: Some(vec![ServicePort {
            port: 4222,
            ..ServicePort::default()
        }]),
        ..ServiceSpec::default()
    };
    Service {
        metadata,
        spec: Some(spec),
        status: None,
    }
}

fn metadata(config: &HostConfig) -> ObjectMeta {
    let mut labels = instance(config);
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    ObjectMeta {
        name: Some(config.name_any()),
        namespace: config.namespace(),
        labels: Some(labels),
        ..ObjectMeta::default()
    }
}

/// The labels by which the pods of a configuration are found.
fn instance(config: &HostConfig) -> BTreeMap<String, String> {
    let labels = [
        ("app.kubernetes.io/name", "host".to_owned()),
        ("app.kubernetes.io/instance", config.name_any()),
    ];
    labels.map(|(name, value)| (name.to_owned(), value)).into()
}

fn selector(config: &HostConfig) -> LabelSelector {
    LabelSelector {
        match_labels: Some(instance(config)),
        ..LabelSelector::default()
    }
}

fn template(config: &HostConfig, has_credentials: bool) -> PodTemplateSpec {
    let mut labels = metadata(config).labels.unwrap_or_default();
    let host_labels = config.spec.host_labels.iter();
    labels
        .extend(host_labels.map(|(k, v)| (format!("host-label.ports.kinform.dev/{k}"), v.clone())));
    let mut volumes = vec![Volume {
        name: "bus-config".to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: config.name_any(),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }];
    let mut mounts = vec![mount("bus-config", "/nats/nats.conf", "nats.conf")];
    if has_credentials {
        volumes.push(Volume {
            name: "credentials".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: config.spec.secret_name.clone(),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        });
        mounts.push(mount("credentials", "/nats/nats.creds", CREDENTIALS));
    }
    let bus = Container {
        name: "bus".to_owned(),
        image: Some("nats:2.10-alpine".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    };
    let spec = PodSpec {
        service_account_name: Some(config.name_any()),
        containers: vec![bus, host(config)],
        volumes: Some(volumes),
        ..PodSpec::default()
    };
    let metadata = ObjectMeta {
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    PodTemplateSpec {
        metadata: Some(metadata),
        spec: Some(spec),
    }
}

fn host(config: &HostConfig) -> Container {
    let spec = &config.spec;
    let mut variables = vec![
        ("LOG_LEVEL", spec.log_level.clone()),
        ("LATTICE", spec.lattice.clone()),
        ("BUS_HOST", "127.0.0.1".to_owned()),
        ("BUS_PORT", "4222".to_owned()),
        ("LABEL_KUBERNETES", "true".to_owned()),
    ];
    if spec.allow_latest {
        variables.push(("ALLOW_LATEST", "true".to_owned()));
    }
    if !spec.allowed_insecure.is_empty() {
        variables.push(("ALLOWED_INSECURE", spec.allowed_insecure.join(",")));
    }
    let variable = |(name, value): (&str, String)| EnvVar {
        name: format!("HOST_{name}"),
        value: Some(value),
        value_from: None,
    };
    let observed = spec.observability_endpoint.iter();
    let flags = observed.flat_map(|at| ["--observability".to_owned(), at.clone()]);
    let of_version = || format!("host:{}", spec.version);
    Container {
        name: "host".to_owned(),
        image: Some(spec.image.clone().unwrap_or_else(of_version)),
        args: Some(flags.collect()),
        env: Some(variables.into_iter().map(variable).collect()),
        ..Container::default()
    }
}

fn mount(volume: &str, path: &str, file: &str) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        sub_path: Some(file.to_owned()),
        read_only: Some(true),
        ..VolumeMount::default()
    }
}
