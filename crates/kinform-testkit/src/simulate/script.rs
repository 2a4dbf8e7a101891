//! The user's changes: what happens to the cluster while the operator runs.
//!
//! ```text
//! create, patch, delete, any code with a client ─▶ Step { name, work } ─▶ performed, again until it works
//! ```

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use kube_client::Client;
use serde_json::Value;

/// The time between two tries of a step, such as a creation under the name of an object that is
/// still being deleted.
const AGAIN: Duration = Duration::from_secs(1);
/// BOUND: the tries of a step, in ten virtual minutes.
const TRIES: usize = 600;

/// The code of a step.
pub(crate) type Work = Arc<dyn Fn(Client) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A change.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) work: Work,
    pub(crate) effect: Effect,
}

/// The effect of a change on the objects of the script.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// An object, at this path.
    Create(String, Value),
    /// A merge patch.
    Patch(String, Value),
    /// A merge patch of the status.
    Status(String),
    Delete(String),
    /// It is not known.
    Unknown,
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Step").field(&self.name).finish()
    }
}

impl Step {
    /// Performs it; again after a second if it fails, for ten minutes.
    pub(crate) async fn perform(&self, client: &Client) -> Result<(), String> {
        let mut tries = 1;
        loop {
            match (self.work)(client.clone()).await {
                Ok(()) => return Ok(()),
                Err(why) if tries >= TRIES => return Err(why),
                Err(_) => tries += 1,
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}
