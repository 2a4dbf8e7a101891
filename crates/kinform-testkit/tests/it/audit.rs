//! A cache that is compared with its server all the time, in rounds of trouble: it never differs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::env::Env;
use kinform::{
    Divergence, FifoPolicy, InformerFactory, ReflectorOptions, ReportEvent, Reports, Target,
    Transform,
};
use kinform_testkit::checks::event_checker::EventChecker;
use kinform_testkit::checks::rounds::{FaultPlan, Pace, Reach, Round, Trouble};
use kinform_testkit::checks::stage::{Embedded, StageError};
use kinform_testkit::{Link, Loss, Tamper, TestServer};
use kube_client::Api;
use kube_client::api::PostParams;
use kube_core::ObjectMeta;

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

#[tokio::test(start_paused = true)]
async fn k27_an_object_in_quarantine_is_found_once_the_server_has_another_state_of_it() {
    let api = TestServer::start().in_process().await.unwrap();
    let link = Link::new(api.server().service(), 1);
    // Never at the same time as a bookmark, which could be lost in place of the event.
    let options = ReflectorOptions::new().with_audit_period(Duration::from_secs(47));
    let factory = InformerFactory::builder(link.client())
        .reflector(options)
        .build();
    let transform = Transform::typed(|map: ConfigMap| {
        assert!(map.immutable.is_none(), "this panic is part of the test");
        map
    });
    let select = factory.select(Target::<ConfigMap>::new());
    let maps = select.transform(transform).build();
    let mut reports = maps.reports();
    factory.start().unwrap();
    maps.synced().await.unwrap();
    let map = |immutable| ConfigMap {
        metadata: ObjectMeta {
            name: Some("one".to_owned()),
            ..ObjectMeta::default()
        },
        immutable,
        ..ConfigMap::default()
    };
    let created = api.create(&map(Some(false))).await.unwrap();
    for _ in 0..3 {
        let found = compared(&mut reports).await;
        assert_eq!(found, None, "it is known that it cannot be read");
    }
    assert_eq!((maps.stats().quarantined_now, maps.stats().relists), (1, 0));
    link.tamper(Tamper::Drop);
    let namespace = created.metadata.namespace.unwrap_or_default();
    let writer = Api::<ConfigMap>::namespaced(api.client(), &namespace);
    let whole = PostParams::default();
    writer.replace("one", &whole, &map(None)).await.unwrap();
    let mut missing = 0;
    // The first bookmark after it tells the version at which they differ.
    for _ in 0..4 {
        let found = compared(&mut reports).await;
        missing += found.map_or(0, |found| found.missing);
    }
    assert_eq!(missing, 1, "the event that it can be read again was lost");
    assert_eq!(maps.list().iter().count(), 1);
    assert_eq!((maps.stats().quarantined_now, maps.stats().relists), (0, 1));
}

/// The result of the next comparison.
async fn compared(reports: &mut Reports) -> Option<Divergence> {
    loop {
        let report = reports.next().await.expect("the informer is there");
        if let ReportEvent::Compared { divergence, .. } = report.event {
            return divergence;
        }
    }
}
