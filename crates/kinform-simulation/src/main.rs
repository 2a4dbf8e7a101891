//! The program behind `cargo xtask simulate`.
//!
//! ```text
//! arguments ─▶ campaign | one script | hours ─▶ summary │ finding, command, short script; exit code 0, 1 or 2
//! ```

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kinform_simulation::arguments::{Arguments, HELP};
use kinform_simulation::campaign::{self, Summary};
use kinform_simulation::finding::Invariant;
use kinform_simulation::generate;
use kinform_simulation::hours::{self, Hour};
use kinform_simulation::run::{Keep, Outcome, play};
use kinform_simulation::script::Script;
use kinform_simulation::shrink::{Failing, shrink};

// Many small allocations on one thread: the system's allocator took a sixth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// BOUND: the time that a failing script is made shorter.
const SHRINK: Duration = Duration::from_secs(55);
/// Runs in which each fault must have met each state.
const ENOUGH: u64 = 10_000;
/// BOUND: the lines of a trace that are printed.
const LINES: usize = 40;

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its report goes to its caller"
)]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match Arguments::parse(&words) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let result = match arguments {
        Arguments::Seeds {
            first,
            seeds,
            threads,
            is_brief,
        } => many((first, seeds), threads, is_brief),
        Arguments::Seed(seed) => one(generate::script(seed)),
        Arguments::Hours { seed, hours, rate } => long(seed, hours, rate),
        Arguments::Replay(file) => match read(&file) {
            Ok(script) => replay(&script),
            Err(why) => {
                eprintln!("{why}");
                return ExitCode::from(2);
            }
        },
    };
    match result {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(report) => {
            println!("{report}");
            ExitCode::FAILURE
        }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn many(
    (first, seeds): (u64, u64),
    threads: Option<usize>,
    is_brief: bool,
) -> Result<String, String> {
    let threads = threads.unwrap_or_else(processors);
    let summary = campaign::run(first, seeds, threads);
    if let Some(seed) = summary.unended {
        let seconds = campaign::LIMIT.as_secs();
        return Err(format!(
            "seed {seed} did not end: its thread panicked, or ran for {seconds} s of real time"
        ));
    }
    if is_brief {
        return match summary.failing {
            None => Ok(format!("not found in {} seeds", summary.runs)),
            Some(failing) => Err(in_brief(failing)),
        };
    }
    let words = words(&summary, threads);
    if let Some(failing) = summary.failing {
        return Err(format!("{words}\n{}", told(failing)));
    }
    let missing = summary.reach.missing();
    if summary.runs >= ENOUGH && !missing.is_empty() {
        return Err(format!(
            "{words}\nnever reached: {}\n{}",
            missing.join(", "),
            summary.reach
        ));
    }
    Ok(words)
}

/// A failing seed in one line: the promise, the seed, the short script, and whether it fails again.
fn in_brief(failing: Failing) -> String {
    let (seed, before) = (failing.script.seed, failing.script.steps.len());
    let invariant = failing.finding.invariant;
    if invariant == Invariant::I28 {
        return format!("found at seed {seed} by I28: two runs of its script differ");
    }
    let begun = Instant::now();
    let short = shrink(failing, SHRINK, processors());
    let took = begun.elapsed().as_secs_f64();
    let again = Script::parse(&short.script.text()).map(|script| play(&script, Keep::Hash).finding);
    let is_repeated = again == Ok(Some(short.finding));
    let repeated = if is_repeated {
        ""
    } else {
        ", which differs when it is replayed"
    };
    format!(
        "found at seed {seed} by {invariant:?}, shrunk to {} of {before} steps in {took:.0} s{repeated}",
        short.script.steps.len()
    )
}

fn words(summary: &Summary, threads: usize) -> String {
    let Summary {
        runs,
        twice,
        writes,
        reconciles,
        resumed,
        events,
        lasted,
        took,
        ..
    } = summary;
    let (pairs, all) = summary.reach.counts();
    let minutes = took.as_secs_f64() / 60.0;
    let rate = *runs as f64 / minutes / threads as f64;
    format!(
        "{runs} seeds, {twice} of them twice, in {:.1} s: {rate:.0} a minute a thread; {writes} writes, \
         {reconciles} reconciles, {resumed} caches from disk, {events} events, {:.1} virtual hours; {pairs} of {all} pairs of fault and state",
        took.as_secs_f64(),
        lasted.as_secs_f64() / 3600.0
    )
}

fn one(script: Script) -> Result<String, String> {
    let outcome = play(&script, Keep::Lines);
    match outcome.finding.clone() {
        None => Ok(ended(&outcome)),
        Some(finding) => Err(told(Failing { script, finding })),
    }
}

/// A long run: a line for each hour.
fn long(seed: u64, hours: u64, rate: u64) -> Result<String, String> {
    let begun = Instant::now();
    let outcome = hours::play(seed, hours, rate, &mut |hour| tell(&hour));
    let took = begun.elapsed().as_secs_f64();
    if let Some(finding) = &outcome.finding {
        let seen = last_lines(seed, &outcome);
        let again = format!("cargo xtask simulate --hours {hours} --rate {rate} --seed {seed}");
        return Err(format!("{seen}\n{finding}\n\n{again}"));
    }
    Ok(format!("{}; {took:.0} s", ended(&outcome)))
}

#[expect(clippy::print_stdout, reason = "a line when it is known")]
fn tell(hour: &Hour) {
    let Hour {
        number,
        lasted,
        writes,
        reconciles,
        tasks,
    } = hour;
    let (seconds, mb) = (lasted.as_secs(), resident_bytes() / 1e6);
    println!(
        "hour {number}: everything agrees after {seconds} s; {writes} writes, {reconciles} reconciles, \
         {tasks} tasks, {mb:.1} MB"
    );
}

/// The memory of this process; 0 where there is no `/proc`.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.unwrap_or_default() * 1024.0
}

fn replay(script: &Script) -> Result<String, String> {
    let outcome = play(script, Keep::Lines);
    match &outcome.finding {
        None => Ok(ended(&outcome)),
        Some(finding) => Err(format!("{}\n{finding}", last_lines(script.seed, &outcome))),
    }
}

fn ended(outcome: &Outcome) -> String {
    let Outcome {
        writes,
        reconciles,
        events,
        lasted,
        hash,
        ..
    } = outcome;
    format!(
        "every promise holds: {writes} writes, {reconciles} reconciles, {events} events in {:.0} virtual seconds, trace {hash:016x}",
        lasted.as_secs_f64()
    )
}

/// The end of a trace; all of it is in a file.
fn last_lines(seed: u64, outcome: &Outcome) -> String {
    let lines = &outcome.lines;
    let file = format!("simulate-{seed}.trace");
    let from = lines.len().saturating_sub(LINES);
    let mut text = String::new();
    if from > 0 {
        let place = match std::fs::write(&file, lines.join("\n")) {
            Ok(()) => format!("{from} lines before, in {file}"),
            Err(error) => format!("{from} lines before; {file}: {error}"),
        };
        let _ = writeln!(text, "({place})");
    }
    text + &lines[from..].join("\n")
}

/// A failing seed: its command, and a short script.
fn told(failing: Failing) -> String {
    let (seed, before) = (failing.script.seed, failing.script.steps.len());
    if failing.finding.invariant == Invariant::I28 {
        return format!("{}\n{}", failing.finding, parting(&failing.script));
    }
    let short = shrink(failing, SHRINK, processors());
    let outcome = play(&short.script, Keep::Lines);
    let steps: Vec<String> = short.script.steps.iter().map(ToString::to_string).collect();
    let file = format!("simulate-{seed}.json");
    let written = match std::fs::write(&file, short.script.text()) {
        Ok(()) => format!("cargo xtask simulate --replay {file}"),
        Err(error) => format!("{file}: {error}\n{}", short.script.text()),
    };
    format!(
        "{}\n\n{}\n\nseed {seed}: cargo xtask simulate --seed {seed}\n{} of its {before} steps are enough ({:?}):\n{}\n{written}",
        last_lines(seed, &outcome),
        short.finding,
        steps.len(),
        short.script.settings,
        steps.join("\n"),
    )
}

/// The place at which two runs of a script part.
fn parting(script: &Script) -> String {
    let runs = [
        play(script, Keep::Lines).lines,
        play(script, Keep::Lines).lines,
    ];
    let [first, second] = &runs;
    let at = first
        .iter()
        .zip(second)
        .position(|(one, other)| one != other);
    let Some(at) = at else {
        return "two further runs are the same".to_owned();
    };
    let from = at.saturating_sub(12);
    let part = |lines: &[String]| lines[from..lines.len().min(at + 3)].join("\n");
    format!(
        "seed {}, line {at}:\n{}\nand\n{}",
        script.seed,
        part(first),
        part(second)
    )
}

fn read(file: &Path) -> Result<Script, String> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
    Script::parse(&text).map_err(|why| format!("{name}: {why}"))
}
