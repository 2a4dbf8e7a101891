//! A certificate that replicas agree on by a Secret, and its authority in their webhooks.
//!
//! ```text
//! Secret: none ─create─▶ material ─due─▶ update at the version read ─▶ all replicas read the same
//! webhook configurations, CRDs ◀─apply at the version read─ authorities that they lack
//! ```
//!
//! Any replica makes the next step, without a leader. The API server lets one win; the others read
//! its result. A configuration that does not exist is passed over until it does.
//!
//! Upstream counterpart: `open-policy-agent/cert-controller:pkg/rotator`, which needs a leader.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kinform::Timestamp;
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::{Value, json};

use super::Error;
use super::bundle::{Authority, merged};
use super::material::Material;

/// BOUND: attempts against other replicas; one of them succeeds each time.
const ATTEMPTS: usize = 20;

/// A certificate that the program manages by itself.
///
/// It is for the DNS names of a Service. The program needs the rights `get`, `create` and `update`
/// on the Secret, and `get` and `patch` on the configurations.
#[derive(Clone, Debug)]
#[must_use]
pub struct Managed {
    namespace: String,
    secret: String,
    service: String,
    targets: Vec<Target>,
}

#[derive(Clone, Debug)]
struct Target {
    resource: ApiResource,
    name: String,
}

impl Managed {
    /// A certificate for a Service, kept in a Secret of the same namespace.
    pub fn new(
        namespace: impl Into<String>,
        service: impl Into<String>,
        secret: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            service: service.into(),
            secret: secret.into(),
            targets: Vec::new(),
        }
    }

    /// Puts the authority into all webhooks of a ValidatingWebhookConfiguration.
    pub fn validating(self, name: impl Into<String>) -> Self {
        self.target(
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            name,
        )
    }

    /// Puts the authority into all webhooks of a MutatingWebhookConfiguration.
    pub fn mutating(self, name: impl Into<String>) -> Self {
        self.target(
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration",
            name,
        )
    }

    /// Puts the authority into the conversion webhook of a CustomResourceDefinition.
    pub fn conversion(self, name: impl Into<String>) -> Self {
        self.target("apiextensions.k8s.io", "CustomResourceDefinition", name)
    }

    fn target(mut self, group: &str, kind: &str, name: impl Into<String>) -> Self {
        let kind = GroupVersionKind::gvk(group, "v1", kind);
        self.targets.push(Target {
            resource: ApiResource::from_gvk(&kind),
            name: name.into(),
        });
        self
    }

    /// The names by which API servers call the Service.
    fn names(&self) -> Vec<String> {
        let name = format!("{}.{}.svc", self.service, self.namespace);
        vec![name.clone(), format!("{name}.cluster.local")]
    }

    /// The subject of the authorities.
    fn owner(&self) -> String {
        format!("{}/{}", self.namespace, self.secret)
    }

    fn failed(&self, verb: &str, cause: kube_client::Error) -> Error {
        Error::new(format!(
            "cannot {verb} the Secret {}: {}",
            self.owner(),
            line(cause)
        ))
    }

    /// Returns the material that all replicas use, after the step that is due.
    pub(super) async fn agree(&self, client: &Client, now: Timestamp) -> Result<Material, Error> {
        let api = Api::<Secret>::namespaced(client.clone(), &self.namespace);
        let (owner, names) = (self.owner(), self.names());
        for _ in 0..ATTEMPTS {
            let found = api.get_opt(&self.secret).await;
            let Some(mut secret) = found.map_err(|error| self.failed("read", error))? else {
                let next = Material::make(&owner, &names, now)?;
                match api
                    .create(&PostParams::default(), &self.new_secret(&next))
                    .await
                {
                    Err(error) if is_race(&error) => continue,
                    Err(error) => return Err(self.failed("create", error)),
                    Ok(_) => return Ok(next),
                }
            };
            let data = secret.data.clone().unwrap_or_default();
            let next = match Material::from_data(&data) {
                Ok(present) => match present.step(&owner, &names, now)? {
                    None => return Ok(present),
                    Some(next) => next,
                },
                Err(why) => {
                    tracing::warn!(why, "the Secret {owner} cannot be used and is made anew");
                    Material::make(&owner, &names, now)?
                }
            };
            let data = secret.data.get_or_insert_default();
            data.extend(next.to_data());
            // It carries uid and version: another replica's update makes this one a conflict.
            match api
                .replace(&self.secret, &PostParams::default(), &secret)
                .await
            {
                Err(error) if is_race(&error) => {}
                Err(error) => return Err(self.failed("update", error)),
                Ok(_) => return Ok(next),
            }
        }
        Err(Error::new(format!(
            "the Secret {owner} changes all the time"
        )))
    }

    fn new_secret(&self, material: &Material) -> Secret {
        let mut secret = Secret {
            data: Some(material.to_data()),
            type_: Some("kubernetes.io/tls".to_owned()),
            ..Secret::default()
        };
        secret.metadata.name = Some(self.secret.clone());
        secret.metadata.namespace = Some(self.namespace.clone());
        secret
    }

    /// Puts the authorities into all targets.
    pub(super) async fn inject(
        &self,
        client: &Client,
        material: &Material,
        now: Timestamp,
    ) -> Result<(), Error> {
        for target in &self.targets {
            self.inject_into(target, client, &material.authorities, now)
                .await?;
        }
        Ok(())
    }

    async fn inject_into(
        &self,
        target: &Target,
        client: &Client,
        authorities: &[Authority],
        now: Timestamp,
    ) -> Result<(), Error> {
        let api = Api::<DynamicObject>::all_with(client.clone(), &target.resource);
        let failed = |verb: &str, cause| {
            let of = format!("{} {}", target.resource.kind, target.name);
            Error::new(format!("cannot {verb} the {of}: {}", line(cause)))
        };
        for _ in 0..ATTEMPTS {
            let found = api.get_opt(&target.name).await;
            let Some(found) = found.map_err(|error| failed("read", error))? else {
                tracing::debug!(
                    name = target.name,
                    "a webhook configuration does not exist yet"
                );
                return Ok(());
            };
            let Some(patch) = target.patch(&found, authorities, &self.owner(), now) else {
                return Ok(());
            };
            let params = PatchParams::apply("kinform-webhook-authority").force();
            match api
                .patch(&target.name, &params, &Patch::Apply(&patch))
                .await
            {
                Err(error) if is_race(&error) => {}
                Err(error) => return Err(failed("patch", error)),
                Ok(_) => return Ok(()),
            }
        }
        let line = format!(
            "the {} {} changes all the time",
            target.resource.kind, target.name
        );
        Err(Error::new(line))
    }
}

impl Target {
    /// The apply configuration that completes the bundles; `None` if they are complete.
    fn patch(
        &self,
        found: &DynamicObject,
        authorities: &[Authority],
        owner: &str,
        now: Timestamp,
    ) -> Option<Value> {
        let complete = |config: &Value| {
            let present = serde_json::from_value(config["caBundle"].clone());
            let ByteString(present) = present.unwrap_or_default();
            let bundle = merged(&present, authorities, owner, now);
            let is_new = bundle.is_some();
            (
                is_new,
                json!({ "caBundle": ByteString(bundle.unwrap_or(present)) }),
            )
        };
        let mut is_new = false;
        let mut patch = if self.resource.kind == "CustomResourceDefinition" {
            let config = &found.data["spec"]["conversion"]["webhook"]["clientConfig"];
            if !config.is_object() {
                return None;
            }
            let (changed, config) = complete(config);
            is_new = changed;
            json!({ "spec": { "conversion": { "webhook": { "clientConfig": config } } } })
        } else {
            // All of them each time: an apply gives up what it leaves out.
            let webhooks = found.data["webhooks"].as_array()?;
            let completed: Vec<_> = webhooks
                .iter()
                .map(|webhook| {
                    let (changed, config) = complete(&webhook["clientConfig"]);
                    is_new |= changed;
                    json!({ "name": webhook["name"], "clientConfig": config })
                })
                .collect();
            json!({ "webhooks": completed })
        };
        patch["apiVersion"] = self.resource.api_version.as_str().into();
        patch["kind"] = self.resource.kind.as_str().into();
        patch["metadata"] = json!({
            "name": self.name,
            "uid": found.metadata.uid,
            "resourceVersion": found.metadata.resource_version,
        });
        is_new.then_some(patch)
    }
}

/// The message of an error alone: the others hold a whole `Status`.
fn line(error: kube_client::Error) -> String {
    match error {
        kube_client::Error::Api(status) => status.message,
        other => other.to_string(),
    }
}

/// Returns whether another replica was faster.
fn is_race(error: &kube_client::Error) -> bool {
    matches!(error, kube_client::Error::Api(status) if status.code == 409)
}
