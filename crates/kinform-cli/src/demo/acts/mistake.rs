//! Acts 5 and 6: a controller with a mistake runs, until the pipeline names field and managers.
//!
//! ```text
//! Deployment of the act ─▶ controller with a mistake ─▶ loop | fight ─▶ Warning {path, managers}
//!            └─(fight: an autoscaler writes, too)
//! ```
//!
//! A finding is reported once an object, so each time has an object of its own.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use kube_core::{ApiResource, DynamicObject};
use serde_json::json;
use tokio::task::JoinHandle;

use super::Scene;
use crate::demo::mistakes::{Kind, Mistake, NAMESPACE};
use crate::demo::pipeline::Pipeline;
use crate::demo::stage::Stage;
use crate::exit::Failure;

/// The manager that fights with the controller.
const RIVAL: &str = "autoscaler";
/// The time from one write of the rival to the next.
const RIVAL_PAUSE: Duration = Duration::from_millis(150);
/// The replicas that the rival wants.
const RIVAL_REPLICAS: i32 = 5;

/// An act of one of the mistakes.
#[derive(Debug)]
pub(super) struct Mistaken {
    kind: Kind,
    count: u32,
    /// The object, while the act is on.
    object: Option<String>,
    rival: Option<JoinHandle<()>>,
}

impl Mistaken {
    /// The act of the controller that starts itself.
    pub(super) fn hot_loop() -> Self {
        Self::new(Kind::HotLoop)
    }

    /// The act of the controller that fights with another writer.
    pub(super) fn fight() -> Self {
        Self::new(Kind::Fight)
    }

    fn new(kind: Kind) -> Self {
        Self {
            kind,
            count: 0,
            object: None,
            rival: None,
        }
    }

    fn mistake<'p>(&self, pipeline: &'p Pipeline) -> &'p Mistake {
        pipeline.mistakes.of(self.kind)
    }

    /// Makes the object, and starts the controller.
    pub(super) async fn play(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        self.count += 1;
        let name = format!("{}{}", self.kind.prefix(), self.count);
        let deployments = deployments(&scene.stage.client);
        let object =
            DynamicObject::new(&name, &ApiResource::erase::<Deployment>(&())).data(json!({
                "spec": {
                    "replicas": 1,
                    "selector": {"matchLabels": {"app": name}},
                    "template": {
                        "metadata": {"labels": {"app": name}},
                        "spec": {"containers": [{"name": "main", "image": "nginx:1.29"}]},
                    },
                },
            }));
        let created = deployments.create(&PostParams::default(), &object).await;
        created.map_err(Stage::refused)?;
        let mistake = self.mistake(scene.pipeline);
        mistake.start();
        if self.kind == Kind::Fight {
            self.rival = Some(tokio::spawn(insist(deployments, name.clone())));
        }
        let text = match self.kind {
            Kind::HotLoop => format!(
                "{} writes the time into the status of Deployment {name} each time it reconciles it",
                mistake.name()
            ),
            Kind::Fight => format!(
                "{} and {RIVAL} set the replicas of Deployment {name} in turns",
                mistake.name()
            ),
        };
        self.object = Some(name);
        Ok(text)
    }

    /// The effect: the finding, with field and managers.
    pub(super) fn found(&self, scene: Scene<'_>) -> Option<String> {
        let name = self.object.as_deref()?;
        let mistake = self.mistake(scene.pipeline);
        let warnings = mistake.metrics().warnings();
        let found = warnings
            .iter()
            .rev()
            .find(|warning| warning.key.name() == name && warning.reason == self.kind.reason())?;
        Some(format!(
            "found: {} of {} (managers: {})",
            found.path.as_deref().unwrap_or_default(),
            found.key,
            found.managers.join(", ")
        ))
    }

    /// Ends the controller, and removes the object.
    pub(super) async fn end(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        if let Some(rival) = self.rival.take() {
            rival.abort();
            // It was aborted.
            let _ = rival.await;
        }
        let mistake = self.mistake(scene.pipeline);
        mistake.end().await?;
        if let Some(name) = self.object.take() {
            let deployments = deployments(&scene.stage.client);
            let deleted = deployments.delete(&name, &DeleteParams::default()).await;
            deleted.map_err(Stage::refused)?;
        }
        Ok(format!("{} was stopped", mistake.name()))
    }
}

impl Drop for Mistaken {
    fn drop(&mut self) {
        if let Some(rival) = &self.rival {
            rival.abort();
        }
    }
}

/// Sets the replicas again and again, as a controller that knows of no other.
async fn insist(deployments: Api<DynamicObject>, name: String) {
    let params = PatchParams {
        field_manager: Some(RIVAL.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": {"replicas": RIVAL_REPLICAS}}));
    loop {
        tokio::time::sleep(RIVAL_PAUSE).await;
        if let Err(error) = deployments.patch(&name, &params, &patch).await {
            tracing::debug!("{RIVAL}: {error}");
        }
    }
}

fn deployments(client: &Client) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<Deployment>(&());
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}
