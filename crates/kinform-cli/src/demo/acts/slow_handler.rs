//! Act 3: a handler that is too slow for the changes it hears.
//!
//! ```text
//! pods' changes ──▶ demo-pods (at once)
//!               └─▶ act-slow-handler (50 ms each) ─▶ its lag grows, and only its own
//! ```

use std::time::Duration;

use kinform::{Handlers, Notification, Registration};
use kube_core::DynamicObject;

use super::Scene;
use crate::exit::Failure;

/// The name of the handler.
const NAME: &str = "act-slow-handler";
/// The time that it takes for a change.
const PAUSE: Duration = Duration::from_millis(50);
/// BOUND: batches of lag that count as the effect, so that a short burst does not.
const LAG: u64 = 20;

/// The handler, while the act is on.
#[derive(Debug, Default)]
pub(super) struct SlowHandler(Option<Registration>);

impl SlowHandler {
    /// Adds the handler. It passes over the objects that are stored already.
    pub(super) fn play(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        let pods = scene.pipeline.informer("pods");
        let handler = Handlers::new().named(NAME).on_event_async(
            |heard: Notification<DynamicObject>| async move {
                let is_change = match heard {
                    Notification::Added(added) => !added.is_initial(),
                    Notification::Synced => false,
                    _ => true,
                };
                if is_change {
                    tokio::time::sleep(PAUSE).await;
                }
            },
        );
        let added = pods.add_handler(handler);
        self.0 = Some(added.map_err(|error| Failure::new(error.to_string()))?);
        Ok(format!(
            "{NAME} hears pods and takes {} ms for each change",
            PAUSE.as_millis()
        ))
    }

    /// The effect: it lags, and the other handlers of pods do not.
    pub(super) fn lagged(&self, scene: Scene<'_>) -> Option<String> {
        let handlers = scene.pipeline.informer("pods").handlers();
        let slow = handlers.iter().find(|handler| handler.name == NAME)?;
        let demo = handlers
            .iter()
            .find(|handler| handler.name == "demo-pods")?;
        (slow.lag >= LAG && demo.lag < slow.lag / 2).then(|| {
            format!(
                "{NAME} is {} batches behind, demo-pods is {} behind",
                slow.lag, demo.lag
            )
        })
    }

    /// Removes the handler.
    pub(super) async fn end(&mut self) -> String {
        if let Some(registration) = self.0.take() {
            registration.remove().await;
        }
        format!("{NAME} was removed")
    }
}
