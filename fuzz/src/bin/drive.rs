//! Runs a target over inputs of its own making: fuzzing for compilers that count no coverage.
//!
//! ```text
//! drive TARGET [--for 10m] [--seed N] ──▶ corpus/TARGET ──▶ mutator ──▶ target ──▶ a line a minute
//!                                            ▲ new shapes ───────────────┘ └─ a panic: artifacts/TARGET/..
//! drive TARGET --input FILE ──▶ one run
//! ```
//!
//! An input with a new shape is kept to make others of. A failing one is made smaller, written out,
//! and ends the run with exit code 1. The running input is always in `artifacts/TARGET/running`, in
//! case the whole process ends.

use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use kinform_fuzz::mutator::Mutator;
use kinform_fuzz::shape::Shape;
use kinform_fuzz::{Target, heap, target};

/// BOUND: the bytes that a run may have on the heap.
const MOST_HEAP: usize = 2 << 30;
/// A target that is linear takes less for a byte, on any machine, all its readings together.
const SLOWEST_BYTE: Duration = Duration::from_micros(10);

struct Arguments {
    target: Target,
    duration: Duration,
    seed: u64,
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\nusage: drive TARGET [--for 10m] [--seed N] [--input FILE]");
            return ExitCode::from(2);
        }
    };
    heap::limit(MOST_HEAP);
    let outcome = match &arguments.input {
        Some(file) => fs::read(file).map(|input| one(&arguments.target, &input)),
        None => drive(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("drive: {error}");
            ExitCode::from(2)
        }
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let name = words.next().ok_or("which target?")?;
    let target = target(&name).ok_or_else(|| format!("no target is called {name:?}"))?;
    let mut arguments = Arguments {
        target,
        duration: Duration::from_secs(600),
        seed: 1,
        input: None,
    };
    while let Some(flag) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{flag} needs a value"))?;
        let wrong = || format!("{flag}: not {value:?}");
        match flag.as_str() {
            "--for" => arguments.duration = duration(&value).ok_or_else(wrong)?,
            "--seed" => arguments.seed = value.parse().map_err(|_| wrong())?,
            "--input" => arguments.input = Some(value.into()),
            _ => return Err(format!("no flag is called {flag:?}")),
        }
    }
    Ok(arguments)
}

/// `90s`, `10m`, `2h`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    Some(Duration::from_secs(number.parse::<u32>().ok()?.into()) * seconds)
}

/// Runs one input; returns whether it passes.
fn one(target: &Target, input: &[u8]) -> bool {
    let began = Instant::now();
    let shape = catch_unwind(|| (target.run)(input));
    let (name, length, took) = (target.name, input.len(), began.elapsed());
    match shape {
        // For choosing inputs of different shapes for a corpus.
        Ok(Shape(shape)) => println!("{name}: {length} bytes in {took:?}, shape {shape:x}"),
        Err(_) => println!("{name}: {length} bytes in {took:?}"),
    }
    shape.is_ok()
}

fn drive(arguments: &Arguments) -> std::io::Result<bool> {
    let target = &arguments.target;
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let artifacts = home.join("artifacts").join(target.name);
    fs::create_dir_all(&artifacts)?;
    let running = File::create(artifacts.join("running"))?;
    let corpus = corpus(&home.join("corpus").join(target.name))?;
    println!(
        "{}: {} inputs, seed {}, for {:?}",
        target.name,
        corpus.len(),
        arguments.seed,
        arguments.duration
    );
    let mut shapes = HashSet::new();
    let mut mutator = Mutator::new(arguments.seed, corpus.clone(), target.words);
    let (began, mut told) = (Instant::now(), Duration::ZERO);
    let (mut runs, mut bytes) = (0_u64, 0_u64);
    let mut given = corpus.into_iter();
    while began.elapsed() < arguments.duration {
        let input = given.next().unwrap_or_else(|| mutator.make());
        running.set_len(input.len() as u64)?;
        running.write_all_at(&input, 0)?;
        match run(target, &input) {
            Ok(shape) => {
                if shapes.insert(shape) {
                    mutator.keep(&input);
                }
            }
            Err(why) => {
                let smaller = smallest(target, &input);
                let path = artifacts.join(format!("seed-{}-run-{runs}", arguments.seed));
                fs::write(&path, &smaller)?;
                println!(
                    "{}: {why}; {} bytes are in {}",
                    target.name,
                    smaller.len(),
                    path.display()
                );
                return Ok(false);
            }
        }
        (runs, bytes) = (runs + 1, bytes + input.len() as u64);
        if began.elapsed() > told + Duration::from_secs(60) {
            told = began.elapsed();
            println!(
                "{}: {} s, {runs} runs, {} shapes",
                target.name,
                told.as_secs(),
                shapes.len()
            );
        }
    }
    println!(
        "{}: clean: {runs} runs, {} shapes, {} MB in {} s",
        target.name,
        shapes.len(),
        bytes >> 20,
        began.elapsed().as_secs()
    );
    Ok(true)
}

/// The inputs of a folder, in the order of their names.
fn corpus(folder: &Path) -> std::io::Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    paths.iter().map(fs::read).collect()
}

/// The time that this thread has run, where the system reports it; else the time by the clock.
fn running_time() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = told.and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or_else(
        || START.get_or_init(Instant::now).elapsed(),
        Duration::from_nanos,
    )
}

/// The shape of the reading, or the promise that it broke.
fn run(target: &Target, input: &[u8]) -> Result<u64, String> {
    let allowed = target.patience + SLOWEST_BYTE * input.len() as u32;
    let mut took = Duration::MAX;
    // Caches that others emptied make one run slow, not three.
    for _ in 0..3 {
        let began = running_time();
        let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        let shape = outcome.map_err(|_| "panicked".to_owned())?.0;
        took = took.min(running_time().saturating_sub(began));
        if took <= allowed {
            return Ok(shape);
        }
    }
    Err(format!("took {took:?}, more than {allowed:?}"))
}

/// A shorter input that fails, too, in the time that there is.
fn smallest(target: &Target, input: &[u8]) -> Vec<u8> {
    std::panic::set_hook(Box::new(|_| {}));
    let began = Instant::now();
    let mut best = input.to_vec();
    let mut step = best.len().div_ceil(2);
    while step > 0 && began.elapsed() < Duration::from_secs(60) {
        let mut at = 0;
        while at < best.len() && began.elapsed() < Duration::from_secs(60) {
            let mut less = best.clone();
            less.drain(at..(at + step).min(best.len()));
            match run(target, &less) {
                Err(_) => best = less,
                Ok(_) => at += step,
            }
        }
        step /= 2;
    }
    let _ = std::panic::take_hook();
    best
}
