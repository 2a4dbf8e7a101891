//! Caches converge under faults: rounds of trouble, each a function of its seed.
//!
//! A failing round prints its seed and its plan; `KINFORM_SEED=<seed>` replays it alone.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::env::Env;
use kinform::{
    FifoPolicy, Informer, InformerFactory, InformerStats, Notification, ReflectorOptions,
};
use kinform_core::backoff::BackoffPolicy;
use kinform_testkit::checks::event_checker::EventChecker;
use kinform_testkit::checks::rounds::{FaultPlan, Pace, Reach, Round};
use kinform_testkit::checks::stage::{Embedded, StageError};

/// A cache under paused time has this long to converge: longer than silence, backoff, the deadline of
/// a list and the limit of a streaming one together.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs the rounds of these seeds, or the one that the environment asks for. All of them together must
/// have been hard: half a relist and a reopened watch a round, on average.
#[expect(
    clippy::print_stderr,
    reason = "what the rounds were made of is part of a test's report"
)]
fn rounds(seeds: Range<u64>, round: impl Fn(u64) -> Result<InformerStats, String>) {
    let asked = std::env::var("KINFORM_SEED").ok();
    let asked: Option<u64> = asked.map(|seed| seed.parse().expect("KINFORM_SEED is a number"));
    let mut failures = String::new();
    let mut failed = 0;
    let (mut relists, mut reopens, mut told) = (0, 0, 0);
    for seed in seeds.clone() {
        if asked.is_some_and(|asked| asked != seed) {
            continue;
        }
        match round(seed) {
            Ok(stats) => {
                relists += stats.relists;
                reopens += stats.reopens;
                told += stats.notifications;
            }
            Err(why) => {
                failed += 1;
                // The first few tell enough.
                if failed < 4 {
                    writeln!(failures, "\n{why}\nreplay with KINFORM_SEED={seed}").unwrap();
                }
            }
        }
    }
    eprintln!("rounds {seeds:?}: {relists} relists, {reopens} reopens, {told} notifications");
    assert!(
        failed == 0,
        "{failed} of the rounds {seeds:?} failed:{failures}"
    );
    let hard = (relists * 2).min(reopens) >= seeds.end - seeds.start;
    assert!(
        hard || asked.is_some(),
        "too easy: {relists} relists, {reopens} reopens"
    );
}

/// A stream as a witness: a task of the test reads it.
fn listen(informer: &Informer<ConfigMap>, witness: &EventChecker) -> tokio::task::JoinHandle<()> {
    let (mut changes, witness) = (informer.changes().unwrap(), witness.clone());
    tokio::spawn(async move {
        while let Some(notification) = changes.next().await {
            witness.hear(&notification);
        }
    })
}

async fn in_process(seed: u64, policy: FifoPolicy) -> Result<InformerStats, StageError> {
    let plan = FaultPlan::new(seed, Reach::Everything);
    let stage = Embedded::in_process(seed);
    let client = stage.client()?;
    let mut round = Round::begin(stage, seed, Pace::Paused).await?;
    let factory = InformerFactory::builder(client)
        .fifo(policy)
        .env(Env::seeded(seed))
        .build();
    let informer = factory.informer::<ConfigMap>();
    let quick = EventChecker::new("the quick handler");
    let slow = EventChecker::new("the slow handler");
    let late = EventChecker::new("the late handler");
    let removed = EventChecker::new("the removed handler");
    let stream = EventChecker::new("the stream");
    let _quick = informer.add_handler(quick.handlers())?;
    let _slow =
        informer.add_handler(slow.slow_handlers(Duration::from_millis(200 + seed % 700)))?;
    let registration = informer.add_handler(removed.handlers())?;
    let listening = listen(&informer, &stream);
    factory.start()?;

    let (first, second) = plan.acts.split_at(plan.acts.len() / 2);
    round.perform(first).await?;
    let _late = informer.add_handler(late.handlers())?;
    registration.remove().await;
    removed.stop();
    round.perform(second).await?;
    let all = [&quick, &slow, &late, &stream];
    round.settle(&all, LIMIT).await?;
    for witness in all {
        witness.synced(Duration::ZERO).await?;
    }
    removed.check()?;
    let truth = round.writer.truth().await?;
    let cache = EventChecker::new("the cache");
    for object in &informer.list() {
        cache.hear(&Notification::Added(object.to_obj().into()));
    }
    cache.converged(&truth, Duration::ZERO).await?;
    let stats = informer.stats();
    if stats.quarantined_now != 0 {
        return Err(format!("quarantined: {stats:?}").into());
    }
    factory.shutdown().await;
    listening.await?;
    Ok(stats)
}

fn paused(seed: u64, policy: FifoPolicy) -> Result<InformerStats, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let result = runtime.block_on(in_process(seed, policy));
    result.map_err(|why| format!("{}\n{why}", FaultPlan::new(seed, Reach::Everything)))
}

#[test]
fn a_hundred_rounds_in_process_converge_in_order() {
    rounds(0..100, |seed| paused(seed, FifoPolicy::InOrder));
}

#[test]
fn a_hundred_rounds_in_process_converge_coalescing() {
    rounds(100..200, |seed| paused(seed, FifoPolicy::Coalescing));
}

/// Limits under which a round over sockets lasts seconds, not minutes.
fn impatient() -> ReflectorOptions {
    let second = Duration::from_secs(1);
    ReflectorOptions::new()
        .with_silence_limit(second)
        .with_progress_limit(second)
        .with_list_deadline(second * 2)
        .with_initial_events_limit(second * 2)
        .with_backoff(BackoffPolicy {
            first: second / 50,
            cap: second / 5,
            ..BackoffPolicy::default()
        })
}

async fn over_sockets(seed: u64) -> Result<InformerStats, StageError> {
    let plan = FaultPlan::new(seed, Reach::Sockets);
    let stage = Embedded::over_sockets(Duration::from_millis(200)).await?;
    let client = stage.client()?;
    let pace = Pace::Live(Duration::from_secs(3));
    let mut round = Round::begin(stage, seed, pace).await?;
    let factory = InformerFactory::builder(client)
        .reflector(impatient())
        .build();
    let informer = factory.informer::<ConfigMap>();
    let (quick, late) = (
        EventChecker::new("the handler"),
        EventChecker::new("the late handler"),
    );
    let _quick = informer.add_handler(quick.handlers())?;
    factory.start()?;
    let (first, second) = plan.acts.split_at(plan.acts.len() / 2);
    round.perform(first).await?;
    let _late = informer.add_handler(late.handlers())?;
    round.perform(second).await?;
    round
        .settle(&[&quick, &late], Duration::from_secs(30))
        .await?;
    let stats = informer.stats();
    factory.shutdown().await;
    Ok(stats)
}

#[test]
fn twenty_rounds_over_sockets_converge() {
    rounds(1000..1020, |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let result = runtime.block_on(over_sockets(seed));
        result.map_err(|why| format!("{}\n{why}", FaultPlan::new(seed, Reach::Sockets)))
    });
}
