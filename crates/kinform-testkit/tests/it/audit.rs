//! A cache that is compared with its server all the time, in rounds of trouble: it never differs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::env::Env;
use kinform::{FifoPolicy, InformerFactory, ReflectorOptions, ReportEvent};
use kinform_testkit::Loss;
use kinform_testkit::checks::event_checker::EventChecker;
use kinform_testkit::checks::rounds::{FaultPlan, Pace, Reach, Round, Trouble};
use kinform_testkit::checks::stage::{Embedded, StageError};

/// The number of audits in which cache and server agreed, and the divergences of the others.
type Compared = Arc<Mutex<(usize, Vec<String>)>>;

async fn round(seed: u64, policy: FifoPolicy, compared: Compared) -> Result<(), StageError> {
    let mut plan = FaultPlan::new(seed, Reach::Everything);
    // A server that begins anew uses versions again: there the cache does differ, until it notices.
    plan.acts
        .retain(|act| !matches!(act.trouble, Trouble::Restart(Loss::Everything)));
    let stage = Embedded::in_process(seed);
    let client = stage.client()?;
    let mut round = Round::begin(stage, seed, Pace::Paused).await?;
    let factory = InformerFactory::builder(client)
        .fifo(policy)
        .env(Env::seeded(seed))
        .reflector(ReflectorOptions::new().with_audit_period(Duration::from_secs(10)))
        .build();
    let informer = factory.informer::<ConfigMap>();
    let witness = EventChecker::new("the handler");
    let _registration = informer.add_handler(witness.handlers())?;
    let mut reports = informer.reports();
    tokio::spawn(async move {
        while let Some(report) = reports.next().await {
            if let ReportEvent::Compared {
                version,
                divergence,
            } = report.event
            {
                let mut compared = compared.lock().unwrap();
                match divergence {
                    None => compared.0 += 1,
                    Some(found) => compared.1.push(format!("{seed}: {version}: {found:?}")),
                }
            }
        }
    });
    factory.start()?;
    round.perform(&plan.acts).await?;
    round.settle(&[&witness], Duration::from_secs(900)).await?;
    factory.shutdown().await;
    Ok(())
}

#[test]
fn a_cache_is_what_the_server_has_whenever_they_are_compared() {
    let compared = Compared::default();
    for seed in 0..10 {
        let policies = [FifoPolicy::InOrder, FifoPolicy::Coalescing];
        let policy = policies[(seed % 2) as usize];
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let result = runtime.block_on(round(seed, policy, Arc::clone(&compared)));
        result.unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    let (equal, different) = &*compared.lock().unwrap();
    assert!(different.is_empty(), "{different:#?}");
    assert!(*equal > 40, "compared only {equal} times");
}
