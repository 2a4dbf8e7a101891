//! Compares kinform with the real client-go: the same scripted histories, the same notifications.
//!
//! ```text
//!            ┌▶ Server ◀─▶ client-go           ─▶ Performance ┐
//! seed → Script ▶ Server ◀─▶ kinform, in order ─▶ Performance ├▶ compare ▶ rules seen | differences
//!            └▶ Server ◀─▶ kinform, coalescing ─▶ Performance ┘
//! ```
//!
//! A history is a script made from a seed: changes, cuts, refusals, expiries, late handlers. Each
//! subject meets it on a server of its own, which makes the same decisions. Their notifications are
//! compared key by key. A rule has to explain each difference, and each rule has to be seen.
//! Histories run side by side: client-go's delays are real time.
//!
//! | file | content |
//! |---|---|
//! | `script` | makes a script from a seed |
//! | `history`, `server`, `answer` | the server: truth, connections, replies |
//! | `subject`, `client_go` | the compared subjects |
//! | `heard`, `stage` | notifications, and playing a script until they are heard |
//! | `compare` | the rules |

mod answer;
mod client_go;
mod compare;
mod heard;
mod history;
mod script;
mod server;
mod stage;
mod subject;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use kinform::FifoPolicy;
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use client_go::ClientGo;
use compare::{Rule, Verdict, compare};
use script::Script;
use stage::{Performance, perform, server};
use subject::{Failed, Subject};

/// Returns whether client-go can be built here.
pub fn is_possible() -> bool {
    ClientGo::is_possible()
}

/// The histories to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The first seed; a run takes `histories` seeds from it on.
    pub first: u64,
    pub histories: u64,
    /// Histories side by side. BOUND: a dozen file descriptors each.
    pub width: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            first: 1,
            histories: 50,
            width: 64,
        }
    }
}

/// The result of all histories.
#[derive(Debug, Default)]
pub struct Outcome {
    histories: u64,
    /// By rule, the seeds that show it.
    rules: BTreeMap<Rule, Vec<u64>>,
    /// By seed, the differences that no rule explains.
    failures: Vec<(u64, String)>,
    /// Notifications compared, there and here; each of theirs with those of both policies.
    heard: (usize, usize),
    segments: usize,
    listed: usize,
    seconds: u64,
    /// The longest history, in seconds, and its seed.
    longest: (u64, u64),
}

impl Outcome {
    /// Returns whether every difference is explained and, in a run of many, every rule was seen.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty() && (self.histories < Plan::default().histories || !self.has_idle())
    }

    fn has_idle(&self) -> bool {
        self.rules.len() < Rule::ALL.len()
    }
}

/// Runs them.
///
/// # Errors
/// client-go cannot be built or run.
pub async fn run(plan: Plan) -> Result<Outcome, Failed> {
    let began = Instant::now();
    let program = Arc::new(ClientGo::start().await?);
    let width = Arc::new(Semaphore::new(plan.width));
    let local = LocalSet::new();
    let seeds = plan.first..plan.first + plan.histories;
    let runs = seeds.map(|seed| {
        let (program, width) = (Arc::clone(&program), Arc::clone(&width));
        local.spawn_local(async move {
            let _turn = width.acquire().await;
            let began = Instant::now();
            let run = one(seed, program).await;
            (seed, run, began.elapsed())
        })
    });
    let runs: Vec<_> = runs.collect();
    let mut outcome = Outcome::default();
    local
        .run_until(async {
            for run in runs {
                match run.await {
                    Ok((seed, result, took)) => {
                        outcome.longest = outcome.longest.max((took.as_secs(), seed));
                        outcome.add(seed, result);
                    }
                    Err(panic) => outcome.failures.push((0, panic.to_string())),
                }
            }
        })
        .await;
    outcome.seconds = began.elapsed().as_secs();
    Ok(outcome)
}

struct Run {
    script: Script,
    theirs: Performance,
    verdicts: Vec<(FifoPolicy, Performance, Verdict)>,
}

async fn one(seed: u64, program: Arc<ClientGo>) -> Result<Run, String> {
    let script = Script::from_seed(seed);
    let told = |who: &str, why: Failed| format!("{who}: {why}\n{script}");
    let go = async {
        let server = server(&script).await?;
        perform(&script, server, Subject::client_go(program, seed)).await
    };
    let ours = async |policy| {
        let server = server(&script).await?;
        let subject = Subject::kinform(&server.url(), policy)?;
        perform(&script, server, subject).await
    };
    let (in_order, coalescing) = (FifoPolicy::InOrder, FifoPolicy::Coalescing);
    let (go, first, second) = tokio::join!(go, ours(in_order), ours(coalescing));
    let theirs = go.map_err(|why| told("client-go", why))?;
    let mut verdicts = Vec::new();
    for (policy, ours) in [(in_order, first), (coalescing, second)] {
        let ours = ours.map_err(|why| told(&format!("kinform {policy:?}"), why))?;
        let verdict = compare(&theirs, &ours, policy);
        verdicts.push((policy, ours, verdict));
    }
    Ok(Run {
        script,
        theirs,
        verdicts,
    })
}

impl Outcome {
    fn add(&mut self, seed: u64, result: Result<Run, String>) {
        self.histories += 1;
        let run = match result {
            Ok(run) => run,
            Err(why) => return self.failures.push((seed, why)),
        };
        self.segments += run.theirs.segments.len();
        self.listed += run.theirs.segments.iter().filter(|s| s.listed).count();
        for (policy, ours, verdict) in &run.verdicts {
            self.heard.0 += verdict.heard.0;
            self.heard.1 += verdict.heard.1;
            for rule in &verdict.rules {
                let seeds = self.rules.entry(*rule).or_default();
                if seeds.last() != Some(&seed) {
                    seeds.push(seed);
                }
            }
            let is_told = matches!(self.failures.last(), Some((told, _)) if *told == seed);
            if let Some(first) = verdict.differences.first().filter(|_| !is_told) {
                let count = verdict.differences.len();
                self.failures.push((
                    seed,
                    format!(
                        "{policy:?}: {count} differences, the first:\n  {first}{}  asked by client-go:\n    {}\n  asked by kinform:\n    {}",
                        run.script,
                        run.theirs.asked.join("\n    "),
                        ours.asked.join("\n    ")
                    ),
                ));
            }
        }
    }
}

/// BOUND: the failures and seeds that are printed.
const SHOWN: usize = 5;

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (seed, why) in self.failures.iter().take(SHOWN) {
            writeln!(f, "seed {seed}: {why}\n")?;
        }
        let failed: Vec<_> = self.failures.iter().map(|(seed, _)| seed).collect();
        if !failed.is_empty() {
            writeln!(f, "seeds with differences: {failed:?}")?;
        }
        writeln!(
            f,
            "{} histories, {} unexplained differences; {} segments, {} of them with a list; \
             {} notifications there compared with {} here; \
             {} s, the longest {} s (seed {})",
            self.histories,
            self.failures.len(),
            self.segments,
            self.listed,
            self.heard.0,
            self.heard.1,
            self.seconds,
            self.longest.0,
            self.longest.1
        )?;
        for rule in Rule::ALL {
            let seeds = self.rules.get(&rule).map_or(&[][..], Vec::as_slice);
            let some: Vec<_> = seeds.iter().take(SHOWN).map(u64::to_string).collect();
            let some = some.join(", ");
            writeln!(f, "rule {rule}: {} histories (seeds {some})", seeds.len())?;
        }
        Ok(())
    }
}
