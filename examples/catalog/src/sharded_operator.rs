//! A sharded operator: replicas that divide the keys of a controller.
//!
//! ```text
//! "left" starts ─▶ all shards ─▶ "right" joins ─▶ half of them each ─▶ "left" stops ─▶ all to "right"
//! ```
//!
//! Prints which replica works on which key. No key is ever in two replicas at a time. Each keeps only
//! its share in memory. In a program of your own, replicas are processes with `--shards 64`.
//!
//! Upstream counterpart: none; `docs/sharding.md` describes the protocol.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, Controller, Ctx, Shards, Target};
use kinform_operator::leader::LeaseOptions;
use kinform_operator::{Operator, Settings, ShardSettings};
use tokio::sync::watch;

use crate::start::{Failure, Out, Start};

/// The number of shards: some more than there will ever be replicas.
const SHARDS: u32 = 8;

struct State {
    replica: &'static str,
    /// The replica that worked last, for the story of this example.
    working: watch::Sender<&'static str>,
    out: Out,
}

async fn reconcile(_: Arc<ConfigMap>, cx: Ctx<State>) -> Result<Action, kinform::Error> {
    cx.out.line(format!("{}: {}", cx.replica, cx.key()));
    cx.working.send_replace(cx.replica);
    Ok(Action::await_change())
}

/// A replica; all have the same settings.
fn replica(
    name: &'static str,
    start: &Start,
    working: &watch::Sender<&'static str>,
) -> Result<Operator, Failure> {
    let shards = Shards::by_uid(SHARDS).ok_or("1 to 16,384 shards")?;
    let mut sharding = ShardSettings::new(shards);
    sharding.namespace = Some("default".to_owned()); // in a pod: the pod's
    sharding.options = LeaseOptions::quick();
    let mut settings = Settings::default();
    settings.sharding = Some(sharding);
    settings.probe_address = None;
    settings.namespaces = vec!["default".to_owned()];
    let operator = Operator::builder("kinform-example").settings(settings);
    let operator = operator.with_config(start.config.clone())?;

    let share = operator.share().ok_or("the settings have shards")?;
    let maps = operator.factory().select(Target::<ConfigMap>::new());
    let maps = maps.share(&share).build(); // only the objects of this replica
    let controller = Controller::of(&maps).sharded(&share).context(State {
        replica: name,
        working: working.clone(),
        out: start.out.clone(),
    });
    operator.add(controller.reconciling(reconcile))?;
    Ok(operator)
}

/// Lets one replica join and the other leave, and runs until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let (working, mut works) = watch::channel("");
    let left = replica("left", &start, &working)?;
    let right = replica("right", &start, &working)?;
    let stop_left = start.stop.child_token();
    let first = async { Ok::<_, Failure>(left.run_until(stop_left.clone()).await?) };
    let second = async {
        works.wait_for(|replica| *replica == "left").await?;
        start.out.line("right joins");
        let joined = async {
            works.wait_for(|replica| *replica == "right").await?;
            start.out.line("left stops");
            stop_left.cancel();
            Ok::<_, Failure>(())
        };
        let running = async { Ok(right.run_until(start.stop.clone()).await?) };
        futures::try_join!(running, joined)?;
        Ok(())
    };
    futures::try_join!(first, second)?;
    Ok(())
}
