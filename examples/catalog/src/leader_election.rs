//! Leader election: two replicas, one leader, with metrics and probes.
//!
//! ```text
//! replica "first"  ─ lease ─▶ leads ─▶ stops: drains, releases the lease
//! replica "second" ─ stands by with warm caches ──────────────────▶ leads
//! ```
//!
//! Prints which replica reconciles, and the addresses of probes and metrics. In a program of your own,
//! `kinform_operator::main` and `Operator::run` add flags, log and signals; replicas are processes.
//!
//! Upstream counterpart: `client-go:examples/leader-election`, `controller-runtime:pkg/manager`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, Controller, Ctx};
use kinform_operator::leader::LeaseOptions;
use kinform_operator::{LeaseSettings, MetricsAccess, Operator, Settings, When};
use tokio::sync::watch;

use crate::start::{Failure, Out, Start};

/// The name of the replica that leads, as far as this process knows.
type Leader = watch::Sender<&'static str>;

async fn reconcile(
    _: Arc<ConfigMap>,
    cx: Ctx<(&'static str, Out)>,
) -> Result<Action, kinform::Error> {
    let (replica, out) = &*cx.context();
    // A write through `cx` would fail if the term were over.
    out.line(format!("{replica}: {}", cx.key()));
    Ok(Action::await_change())
}

/// A replica: what stands around its controller, and the controller.
fn replica(name: &'static str, start: &Start, leader: &Leader) -> Result<Operator, Failure> {
    let mut lease = LeaseSettings::default();
    lease.namespace = Some("default".to_owned()); // in a pod: the pod's
    lease.options = LeaseOptions::quick();
    let mut settings = Settings::default();
    settings.leader_election = Some(lease);
    settings.probe_address = Some("127.0.0.1:0".to_owned());
    settings.metrics_address = Some("127.0.0.1:0".to_owned());
    settings.metrics_access = MetricsAccess::Open; // in a cluster: HTTPS, with a review of the caller
    let operator = Operator::builder("kinform-example").settings(settings);
    let operator = operator.with_config(start.config.clone())?;

    let maps = operator.informer::<ConfigMap>();
    let controller = Controller::of(&maps).context((name, start.out.clone()));
    operator.add(controller.reconciling(reconcile))?;
    let leader = leader.clone();
    operator.task("announcement", When::Leading, move |term_ends| {
        let leader = leader.clone();
        async move {
            leader.send_replace(name);
            term_ends.cancelled().await;
            Ok::<_, Failure>(())
        }
    })?;
    Ok(operator)
}

/// Lets the second replica take over from the first, and runs until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let (leader, mut leads) = watch::channel("");
    let first = replica("first", &start, &leader)?;
    let second = replica("second", &start, &leader)?;
    let stop_first = start.stop.child_token();
    let following = async {
        leads.wait_for(|leader| *leader == "first").await?;
        start.out.line("first leads");
        let standing_by = second.run_until(start.stop.clone());
        let watching = async {
            let at = second.addresses().await;
            for (path, address) in [("readyz", at.probes), ("metrics", at.metrics)] {
                let address = address.ok_or("there is no port")?;
                start.out.line(format!("second: http://{address}/{path}"));
            }
            stop_first.cancel();
            leads.wait_for(|leader| *leader == "second").await?;
            start.out.line("second leads");
            Ok::<_, Failure>(())
        };
        futures::try_join!(async { Ok(standing_by.await?) }, watching)?;
        Ok(())
    };
    let leading = async { Ok::<_, Failure>(first.run_until(stop_first.clone()).await?) };
    futures::try_join!(leading, following)?;
    Ok(())
}
