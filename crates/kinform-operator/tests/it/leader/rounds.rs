//! Three replicas on networks that misbehave, by a seed.

use std::time::Duration;

use kinform_apiserver::FaultRule;
use kinform_operator::leader::Term;
use kinform_testkit::{Fault, Network, ProxyMode, TestServer};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Replica, replica, server, until};

/// The steps of a round, of 100 ms to 5 s each.
const STEPS: usize = 400;
/// The time from look to look.
const TICK: Duration = Duration::from_millis(20);

/// The terms that run; more than one is the end of the test.
fn leaders(replicas: &[Replica], seed: u64) -> Option<Term> {
    let terms = replicas
        .iter()
        .filter_map(|replica| replica.leadership.term());
    let terms: Vec<_> = terms.collect();
    assert!(terms.len() < 2, "seed {seed}: {terms:?}");
    terms.into_iter().next()
}

fn disturb(api: &TestServer, replicas: &[Replica], random: &mut SmallRng) {
    let one = &replicas[random.random_range(0..replicas.len())];
    let lose = |verb| {
        FaultRule::new(Fault::LoseReply)
            .on_resource("leases")
            .on_verb(verb)
    };
    match random.random_range(0..10) {
        0 => one.link.set(ProxyMode::Stall),
        1 => one.link.set(ProxyMode::Refuse),
        2 => one.link.cut(),
        3 => api.server().faults().inject(lose("update")),
        4 => api.server().faults().inject(lose("create")),
        5 => api.cut_watches(),
        6 => api.expire_history(),
        7 => api.stall_watches(),
        8 => api.resume_watches(),
        _ => replicas
            .iter()
            .for_each(|each| each.link.set(ProxyMode::Pass)),
    }
}

#[tokio::test(start_paused = true)]
async fn at_no_time_lead_two_replicas_on_networks_that_misbehave() {
    let mut terms = 0;
    for seed in 0..4 {
        let mut random = SmallRng::seed_from_u64(seed);
        let api = server().await;
        let replicas = ["a", "b", "c"].map(|identity| replica(&api, identity));
        let mut last = None;
        for _ in 0..STEPS {
            disturb(&api, &replicas, &mut random);
            for _ in 0..random.random_range(5..250) {
                tokio::time::sleep(TICK).await;
                let term = leaders(&replicas, seed).map(|term| (term.uid, term.version));
                if term.is_some() && term != last {
                    (last, terms) = (term, terms + 1);
                }
            }
            // Its work was joined, some time after the loss.
            let one = &replicas[random.random_range(0..replicas.len())];
            if one.leadership.term().is_none() {
                one.leadership.idle();
            }
        }
        api.resume_watches();
        for each in &replicas {
            each.link.set(ProxyMode::Pass);
            if each.leadership.term().is_none() {
                each.leadership.idle();
            }
        }
        until(|| leaders(&replicas, seed).is_some()).await;
    }
    assert!(terms > 40, "{terms} terms: hardly anything happened");
}
