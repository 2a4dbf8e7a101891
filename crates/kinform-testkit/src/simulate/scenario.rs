//! All that a simulation was told: the server, the operator, the script, what must hold.
//!
//! ```text
//! Simulation (the user's words) ─▶ Scenario ─▶ each Run of it
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use kinform_apiserver::{Builder, Server, Stopped};
use kube_client::Client;
use serde_json::Value;

use super::alarms::Progress;
use super::picture::Lens;
use super::plan::Starts;
use super::process::Program;
use super::script::Step;
use super::world::World;

/// BOUND: the changes that a run's server remembers; more are read before.
const HISTORY: usize = 20_000;

pub(crate) type Check = Box<dyn Fn(&World<'_>) -> Result<(), String>>;

/// All that a simulation was told.
pub(crate) struct Scenario {
    pub(crate) definitions: Vec<Value>,
    pub(crate) changes: Vec<Box<dyn Fn(Builder) -> Builder>>,
    /// Objects that are there before the script: their names, and their creation.
    pub(crate) before: Vec<Step>,
    pub(crate) program: Program,
    pub(crate) replicas: usize,
    pub(crate) steps: Vec<Step>,
    pub(crate) invariants: Vec<(String, Check)>,
    pub(crate) in_the_end: Vec<(String, Check)>,
    pub(crate) lens: Lens,
    pub(crate) starts: Starts,
    /// The operator may keep something of earlier states of the script's objects.
    pub(crate) keeps_history: bool,
    /// The steps that change objects of the operator: those before them are complete.
    pub(crate) foreign: BTreeSet<usize>,
    pub(crate) progress: Arc<Progress>,
    #[cfg(feature = "controllers")]
    pub(crate) controllers: Option<kinform_controlplane::Selection>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario")
            .field("steps", &self.steps)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

impl Scenario {
    /// Makes the server, empty or from the state that another left; its clock starts at `now`.
    pub(crate) fn server(&self, state: Option<Stopped>, now: Timestamp) -> Server {
        let mut builder = Server::builder().plain().history(HISTORY).start_time(now);
        #[cfg(feature = "controllers")]
        if let Some(selection) = &self.controllers {
            builder = crate::server::furnish(builder, selection);
        }
        for change in &self.changes {
            builder = change(builder);
        }
        if let Some(state) = state {
            builder = builder.state(state);
        }
        builder.in_process()
    }

    /// Installs definitions, and the objects that are there before the script.
    pub(crate) async fn prepare(&self, client: &Client) -> Result<(), String> {
        for definition in &self.definitions {
            let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
            let request = http::Request::post(path)
                .header("content-type", "application/json")
                .body(definition.to_string().into_bytes());
            let request = request.map_err(|error| error.to_string())?;
            let made: Result<Value, _> = client.request(request).await;
            made.map_err(|error| format!("a definition was refused: {error}"))?;
        }
        for step in &self.before {
            step.perform(client)
                .await
                .map_err(|why| format!("{}: {why}", step.name))?;
        }
        Ok(())
    }
}
