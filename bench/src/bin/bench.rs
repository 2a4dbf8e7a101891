//! Runs the scenarios of all subjects and writes the results: `cargo xtask bench`.
//!
//! ```text
//! scenarios × runs × subjects ─▶ replay server here, subject in a process ─▶ bench/results/*
//! ```
//!
//! Scenarios run one after the other. The sizes of one scenario, and its subjects, take turns, so
//! that other load on the machine affects all compared figures alike.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use clap::Parser;
use kinform_bench::backing::Backing;
use kinform_bench::corpus::Corpus;
use kinform_bench::machine::{commit, machine};
use kinform_bench::measured;
use kinform_bench::meter::available_bytes;
use kinform_bench::replay;
use kinform_bench::report;
use kinform_bench::row::{Reading, Results, Row, median};
use kinform_bench::scenario::{Needs, Scenario, Work};
use kinform_bench::subject::Failed;
use kinform_bench::targets;
use kinform_bench::writer::Writer;
use tokio::process::Command;

/// Compares kinform with its peers on the same bytes.
#[derive(Debug, Parser)]
struct Arguments {
    /// Small sizes; three runs of figures with a target, one of the rest: some five minutes.
    #[arg(long)]
    quick: bool,
    /// Runs of each scenario; the median counts.
    #[arg(long)]
    runs: Option<usize>,
    /// Only scenarios whose name begins so; may be given several times.
    #[arg(long)]
    only: Vec<String>,
    /// Only these subjects.
    #[arg(long)]
    subject: Vec<String>,
    /// This many objects instead of the scenario's own number.
    #[arg(long)]
    size: Option<usize>,
    /// The seed that the corpus is made from.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// The repository's `bench/`.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// The `kinform` program, whose `measure` should agree; by default the one next to this
    /// program.
    #[arg(long)]
    kinform: Option<PathBuf>,
}

/// Programs that do scenarios; the second one counts allocations.
struct Subject {
    name: &'static str,
    programs: Vec<PathBuf>,
    speaks: Speaks,
}

impl Subject {
    fn is_peer(&self) -> bool {
        !self.name.starts_with("kinform")
    }
}

/// The interface between the bench and a program: its arguments and its output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaks {
    /// As subjects do.
    Scenarios,
    /// As `kinform measure` does.
    Measure,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let arguments = Arguments::parse();
    let mut failures = Vec::new();
    let subjects = subjects(&arguments, &mut failures).await?;
    let name = arguments.results_name();
    let began = Instant::now();
    let mut results = Results {
        commit: commit().await,
        machine: machine(),
        rows: Vec::new(),
    };
    let mut backing = Backing::start()?;
    for sizes in arguments
        .scenarios()
        .chunk_by(|one, next| one.work == next.work)
    {
        let mut scenarios = Vec::new();
        for scenario in sizes {
            let corpus = corpus(*scenario, arguments.seed).await?;
            scenarios.push(Runs::new(*scenario, corpus));
        }
        let runs = |subject: &Subject| arguments.runs_of(sizes[0].work, subject);
        let turns = subjects.iter().map(runs).max().unwrap_or(0);
        for turn in 0..turns {
            let due = subjects.iter().filter(|subject| turn < runs(subject));
            let due: Vec<&Subject> = due.collect();
            for scenario in &mut scenarios {
                let began = Instant::now();
                failures.extend(scenario.add(&due, turn, &mut backing).await);
                let (title, took) = (scenario.scenario.title(), began.elapsed().as_secs_f64());
                eprintln!(
                    "bench: {title}: run {} of {turns} took {took:.1} s",
                    turn + 1
                );
            }
        }
        results
            .rows
            .extend(scenarios.into_iter().flat_map(|runs| runs.rows));
        // A run takes long, so partial results are saved.
        results.machine = machine();
        write(&arguments.directory.join("results"), name, &results)?;
    }
    println!("{}", report::whole(&results));
    eprintln!("bench: {} s in all", began.elapsed().as_secs());
    if failures.is_empty() {
        return Ok(());
    }
    Err(failures.join("; ").into())
}

impl Arguments {
    fn scenarios(&self) -> Vec<Scenario> {
        let mut scenarios = if self.quick {
            Scenario::quick()
        } else {
            Scenario::full()
        };
        if !self.only.is_empty() {
            let is_wanted = |name: &str| self.only.iter().any(|start| name.starts_with(start));
            scenarios.retain(|scenario| is_wanted(scenario.work.name()));
        }
        if let Some(size) = self.size {
            scenarios
                .iter_mut()
                .for_each(|scenario| scenario.size = size);
            scenarios.dedup();
        }
        scenarios
    }

    /// The number of runs of a subject. A figure with a target, or one that is compared, is a
    /// median. A peer's figure without a target has fewer runs, as peers take nearly all the time.
    /// A scenario whose sizes are compared has more turns: runs of a tenth of a second differ by
    /// half.
    fn runs_of(&self, work: Work, subject: &Subject) -> usize {
        let counts = match (work, subject.is_peer()) {
            (_, true) => targets::are_beside(work, subject.name),
            (_, false) => targets::are_of(work) || measured::words(work, "").is_some(),
        };
        let grows = subject.name == "kinform" && targets::are_of_growth(work);
        self.runs.unwrap_or(match (self.quick, counts) {
            (false, true) if grows => 15,
            (false, true) => 5,
            (false, false) | (true, true) => 3,
            (true, false) => 1,
        })
    }

    /// The name of the results. A partial run is for investigation and replaces no results.
    fn results_name(&self) -> &'static str {
        let is_whole = self.only.is_empty() && self.subject.is_empty() && self.size.is_none();
        match (is_whole, self.quick) {
            (false, _) => "part",
            (true, true) => "quick",
            (true, false) => "full",
        }
    }
}

async fn corpus(scenario: Scenario, seed: u64) -> Result<Option<Corpus>, Failed> {
    let Some(Needs { shape, recipes, .. }) = scenario.work.needs() else {
        return Ok(None);
    };
    let corpora = std::env::temp_dir().join("kinform-bench");
    let corpus = Corpus::ensure(&corpora, shape, scenario.size, seed, recipes).await?;
    Ok(Some(corpus))
}

/// All subjects that can be run here; the missing ones are named. A program that should exist and
/// does not build is a failure, and the other subjects still run.
async fn subjects(
    arguments: &Arguments,
    failures: &mut Vec<String>,
) -> Result<Vec<Subject>, Failed> {
    let this = std::env::current_exe()?;
    let beside = |name: &str| this.with_file_name(name);
    let rust = |name, program: &str| Subject {
        name,
        programs: vec![beside(program), beside(&format!("{program}_counted"))],
        speaks: Speaks::Scenarios,
    };
    let mut subjects = vec![rust("kinform", "subject_kinform")];
    // Runs right after kinform's subject, as the two are compared.
    let kinform = arguments.kinform.clone();
    let kinform = kinform.unwrap_or_else(|| beside("kinform"));
    if kinform.exists() {
        subjects.push(Subject {
            name: measured::SUBJECT,
            programs: vec![kinform],
            speaks: Speaks::Measure,
        });
    } else {
        eprintln!(
            "bench: SKIPPED kinform measure: there is no {}; whether it agrees is not told",
            kinform.display()
        );
    }
    subjects.push(rust("kube-rs", "subject_kube_rs"));
    let program = beside("subject_client_go");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(arguments.directory.join("peers/client-go"))
        .status()
        .await;
    match built {
        Ok(status) if status.success() => subjects.push(Subject {
            name: "client-go",
            programs: vec![program],
            speaks: Speaks::Scenarios,
        }),
        Ok(status) => {
            let failure = format!("client-go's subject does not build ({status})");
            eprintln!("bench: FAILED: {failure}; its columns will be empty");
            failures.push(failure);
        }
        Err(error) => {
            eprintln!("bench: SKIPPED client-go: no Go here ({error}); its columns will be empty")
        }
    }
    let wanted = &arguments.subject;
    subjects.retain(|subject| wanted.is_empty() || wanted.iter().any(|name| name == subject.name));
    Ok(subjects)
}

/// The runs of one scenario, and their readings.
struct Runs {
    scenario: Scenario,
    corpus: Option<Corpus>,
    /// By subject and metric, in the order in which they were first reported.
    rows: Vec<Row>,
    /// Subjects that failed and are not run again.
    out: Vec<&'static str>,
}

impl Runs {
    fn new(scenario: Scenario, corpus: Option<Corpus>) -> Self {
        Self {
            scenario,
            corpus,
            rows: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Runs each of these programs once. A failure is reported and takes the subject out.
    async fn add(&mut self, due: &[&Subject], turn: usize, backing: &mut Backing) -> Vec<String> {
        let scenario = self.scenario;
        let mut failures = Vec::new();
        for subject in due {
            if self.is_without(subject, turn) {
                continue;
            }
            // Counted figures are the same each time and are read once; resident memory is not.
            let is_all = turn == 0 || scenario.work == Work::SmallOperator;
            let programs = if is_all { subject.programs.len() } else { 1 };
            for (at, program) in subject.programs[..programs].iter().enumerate() {
                let readings = async {
                    // The second program reports no time.
                    if at == 0 {
                        backing.prepare(scenario).await?;
                    }
                    run_once(program, subject.speaks, scenario, self.corpus.as_ref()).await
                };
                let readings = readings.await.unwrap_or_else(|error: Failed| {
                    eprintln!("bench: FAILED: {error}");
                    failures.push(error.to_string());
                    self.out.push(subject.name);
                    Vec::new()
                });
                for reading in readings {
                    self.take(subject.name, reading);
                }
            }
        }
        failures
    }

    /// Returns whether a subject sits out this turn. A peer's large cache is filled once, and only
    /// where there is room for it, as that takes a minute or more.
    fn is_without(&self, subject: &Subject, turn: usize) -> bool {
        let Scenario { work, size } = self.scenario;
        let cannot = subject.speaks == Speaks::Measure && measured::words(work, "").is_none();
        if cannot || self.out.contains(&subject.name) {
            return true;
        }
        let is_large = subject.is_peer() && self.corpus.is_some() && size > MANY_FOR_PEERS;
        let is_too_large = is_large && available_bytes() < OF_A_PEERS_OBJECT * size as u64;
        if is_too_large && turn == 0 {
            let (name, title) = (subject.name, self.scenario.title());
            eprintln!("bench: SKIPPED {name} {title}: too little memory is left on this machine");
        }
        is_large && turn > 0 || is_too_large
    }

    fn take(&mut self, subject: &str, reading: Reading) {
        let mut rows = self.rows.iter_mut();
        match rows.find(|row| row.subject == subject && row.metric == reading.metric) {
            Some(row) => {
                row.runs.push(reading.value);
                row.value = median(&row.runs);
            }
            None => self.rows.push(Row {
                scenario: self.scenario.title(),
                subject: subject.to_owned(),
                metric: reading.metric,
                unit: reading.unit,
                value: reading.value,
                runs: vec![reading.value],
            }),
        }
    }
}

/// Objects in a cache above which a peer has one run only.
const MANY_FOR_PEERS: usize = 100_000;

/// BOUND: the memory that must be left for each object of a peer's large cache, besides the blocks
/// that `touch_memory` keeps. A list that is decoded whole takes most.
const OF_A_PEERS_OBJECT: u64 = 48 << 10;

/// BOUND: a run takes a minute or two.
const LIMIT: Duration = Duration::from_secs(600);

/// One run of one subject, on a replay server of its own.
async fn run_once(
    program: &Path,
    speaks: Speaks,
    scenario: Scenario,
    corpus: Option<&Corpus>,
) -> Result<Vec<Reading>, Failed> {
    let Scenario { work, size } = scenario;
    let mut command = Command::new(program);
    let replay = match (corpus, work.needs()) {
        (Some(corpus), Some(needs)) => Some(replay::serve(corpus, needs).await?),
        _ => None,
    };
    let url = replay
        .as_ref()
        .map(|replay| format!("http://{}", replay.address));
    match speaks {
        Speaks::Measure => {
            let words = measured::words(work, url.as_deref().unwrap_or_default());
            // Ignores the cluster that the user's environment points at.
            command
                .args(words.unwrap_or_default())
                .env("KUBECONFIG", "");
        }
        Speaks::Scenarios => {
            command.args([work.name(), &size.to_string()]).args(&url);
        }
    }
    let writer = match work {
        Work::WriteToReconcile => Some(Writer::start(size).await?),
        _ => None,
    };
    if let Some(writer) = &writer {
        command.args([&writer.url, &writer.token]);
    }
    let output = command.stderr(Stdio::inherit()).kill_on_drop(true).output();
    let output = tokio::time::timeout(LIMIT, output).await;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let output = output.map_err(|_| format!("{name} {}: took too long", scenario.title()))??;
    if !output.status.success() {
        return Err(format!("{name} {}: {}", scenario.title(), output.status).into());
    }
    if speaks == Speaks::Measure {
        let readings = measured::readings(&output.stdout, size);
        return readings.map_err(|error| format!("{name} measure: {error}").into());
    }
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    let readings = lines.map(serde_json::from_slice).collect::<Result<_, _>>();
    readings.map_err(|error| format!("{name}: {error}").into())
}

fn write(directory: &Path, name: &str, results: &Results) -> Result<(), Failed> {
    std::fs::create_dir_all(directory)?;
    let json = serde_json::to_string_pretty(results)?;
    std::fs::write(directory.join(format!("{name}.json")), json + "\n")?;
    std::fs::write(directory.join(format!("{name}.md")), report::whole(results))?;
    for metric in report::PLOTTED {
        let plot = report::plot(results, metric);
        std::fs::write(directory.join(format!("{name}-{metric}.svg")), plot)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_target_speaks_of_is_run_more_often() {
        let runs = |words: &[&str], work, name| {
            let subject = Subject {
                name,
                programs: Vec::new(),
                speaks: Speaks::Scenarios,
            };
            let words = ["bench"].iter().chain(words);
            Arguments::parse_from(words).runs_of(work, &subject)
        };
        for (work, name, full, quick) in [
            (Work::SyncJson, "kinform", 15, 3),
            (Work::SyncJson, measured::SUBJECT, 5, 3),
            (Work::SyncJson, "client-go", 3, 1),
            (Work::SyncJsonTyped, "client-go", 5, 3),
            (Work::SyncMix, "kinform", 3, 1),
            (Work::StalledHandler, "kinform", 5, 3),
            (Work::StalledHandler, "kube-rs", 3, 1),
        ] {
            let found = (runs(&[], work, name), runs(&["--quick"], work, name));
            assert_eq!(found, (full, quick), "{work:?} {name}");
            assert_eq!(runs(&["--runs=7"], work, name), 7);
        }
    }
}
