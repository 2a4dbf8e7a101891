//! Caches converge under faults, on a real server: twenty rounds over TLS through a bad network,
//! with one restart during an outage.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::{ClientOptions, client_for};
use kinform::{InformerFactory, ReflectorOptions};
use kinform_e2e::{Oracle, missing};
use kinform_testkit::Loss;
use kinform_testkit::checks::event_checker::EventChecker;
use kinform_testkit::checks::rounds::{Act, Expires, FaultPlan, Pace, Reach, Round, Trouble};
use kinform_testkit::checks::stage::StageError;

/// The round in which the server restarts, counted from 0.
const RESTART: u64 = 9;

fn restart() -> Act {
    Act {
        trouble: Trouble::Restart(Loss::History),
        writes: 60,
        recreated: 5,
        expires: Expires::No,
        lasts: Duration::ZERO,
        writes_after: 10,
    }
}

/// Limits under which a round lasts seconds, not minutes.
fn impatient() -> ReflectorOptions {
    let second = Duration::from_secs(1);
    ReflectorOptions::new()
        .with_silence_limit(second * 2)
        .with_progress_limit(second * 2)
        .with_list_deadline(second * 5)
        .with_initial_events_limit(second * 5)
}

async fn round(oracle: Oracle, plan: &FaultPlan) -> Result<(Oracle, String), StageError> {
    let began = Instant::now();
    let client = client_for(oracle.config()?, &ClientOptions::default())?;
    let mut round = Round::begin(oracle, plan.seed, Pace::Live(Duration::from_secs(5))).await?;
    let factory = InformerFactory::builder(client)
        .reflector(impatient())
        .build();
    let informer = factory.informer::<ConfigMap>();
    let (early, late) = (
        EventChecker::new("the handler"),
        EventChecker::new("the late handler"),
    );
    let _early = informer.add_handler(early.handlers())?;
    factory.start()?;
    let (first, second) = plan.acts.split_at(plan.acts.len() / 2);
    round.perform(first).await?;
    let _late = informer.add_handler(late.handlers())?;
    round.perform(second).await?;
    round
        .settle(&[&early, &late], Duration::from_secs(60))
        .await?;
    let stats = informer.stats();
    factory.shutdown().await;
    let (seed, writes, delivered) = (plan.seed, round.writer.writes(), early.delivered());
    let report = format!(
        "seed {seed}: {writes} writes, {delivered} notifications, {} relists, {} reopens, {:.1} s",
        stats.relists,
        stats.reopens,
        began.elapsed().as_secs_f64()
    );
    Ok((round.stage, report))
}

#[test]
fn twenty_rounds_on_a_real_server_converge() {
    let missing = missing().join(", ");
    if !missing.is_empty() {
        eprintln!("SKIPPED: to build and start a real API server, {missing} is needed");
        println!("RESULT | kinform: twenty rounds of faults | real | skipped: no {missing} |");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut oracle = Oracle::start().await.unwrap();
        for number in 0..20 {
            let mut plan = FaultPlan::new(2000 + number, Reach::Network);
            if number == RESTART {
                plan.acts.push(restart());
            }
            let (back, report) = match round(oracle, &plan).await {
                Ok(done) => done,
                Err(why) => panic!("{plan}\n{why}"),
            };
            oracle = back;
            eprintln!("{report}");
        }
        println!("RESULT | kinform: twenty rounds of faults | real | ok |");
    });
}
