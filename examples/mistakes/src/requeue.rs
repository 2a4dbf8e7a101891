//! A requeue without end: each reconcile asks for the next, whether there is work or not.
//!
//! ```text
//! reconcile ─▶ requeue in 50 ms ─▶ reconcile ─▶ ..
//! ```
//!
//! The correction waits for the next change.

use std::sync::Arc;
use std::time::Duration;

use kinform::controller::{Action, Ctx};
use kinform_testkit::Simulation;

use crate::{App, Failure, State, Which, operator, usual, wanted};

async fn reconcile(app: Arc<App>, cx: Ctx<State>, next: Action) -> Result<Action, Failure> {
    cx.apply(&wanted(&app)).await?;
    Ok(next)
}

pub(crate) fn describe(sim: &mut Simulation, which: Which) {
    let next = match which {
        Which::Mistaken => Action::requeue(Duration::from_millis(50)),
        Which::Corrected => Action::await_change(),
    };
    sim.operator(move |client| operator(client, move |app, cx| reconcile(app, cx, next)));
    usual(sim);
}
