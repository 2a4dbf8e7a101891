//! The cost of `kinform top`: its own, and that of the program which it shows.
//!
//! ```text
//! watched --rate N ─▶ a window without a screen, a window with one, three times ─▶ /proc ─▶ medians
//! ```
//!
//! Processor time and memory are those that Linux counts for a process. Pairs of windows, so that
//! other work on the machine meets both.
//!
//! Upstream counterpart: none.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Program, Screen, pass};

/// Windows without a screen, and as many with one.
const PAIRS: usize = 3;
/// The terminal of the figures: the larger one draws more.
const SIZE: (u16, u16) = (200, 50);
/// The time until the first picture is drawn and the first values are there.
const WARM_UP: Duration = Duration::from_secs(3);
/// Linux counts processor time in these parts of a second, whatever the kernel's own tick is.
const TICKS: f64 = 100.0;

/// A window with a screen.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Parts of a core of the watched program, above those without a screen.
    program: f64,
    /// Parts of a core of `kinform top`.
    top: f64,
    /// Bytes of `kinform top` that were resident at most.
    bytes: f64,
}

/// Measures; returns a line for each pair, and one with the medians.
pub(super) fn measure(
    (kinform, watched): (&Path, &Path),
    rate: u64,
    length: Duration,
) -> Result<String, String> {
    let program = Program::start(watched, &["--rate", &rate.to_string()])?;
    pass(&program.lines, WARM_UP);
    let mut costs = Vec::new();
    let mut report = String::new();
    for pair in 1..=PAIRS {
        let clock = Clock::of(program.child.id())?;
        pass(&program.lines, length);
        let without = clock.part_of_a_core()?;
        let screen = Screen::open(kinform, &program.url, SIZE)?;
        screen.pass(WARM_UP);
        let top = screen.program()?;
        let clocks = [Clock::of(program.child.id())?, Clock::of(top)?];
        screen.pass(length);
        if clocks[1].began.elapsed() < length {
            return Err("terminal: the screen ended during a window".to_owned());
        }
        let [with, own] = clocks.map(|clock| clock.part_of_a_core());
        let cost = Cost {
            program: with? - without,
            top: own?,
            bytes: resident(top)?,
        };
        report.push_str(&format!(
            "pair {pair}: the program {:.2} % of a core without a screen, {:+.2} % with one; {}\n",
            100.0 * without,
            100.0 * cost.program,
            cost.of_top()
        ));
        let seen = screen.capture();
        let seen = seen.lines().find(|line| line.contains("widgets"));
        report.push_str(&format!("  {}\n", seen.unwrap_or_default().trim()));
        costs.push(cost);
    }
    let all = |of: fn(&Cost) -> f64| median(costs.iter().map(of).collect());
    let middle = Cost {
        program: all(|one| one.program),
        top: all(|one| one.top),
        bytes: all(|one| one.bytes),
    };
    report.push_str(&format!(
        "medians of {PAIRS} pairs of {} s at {rate} changes a second: the program {:+.2} %, {}",
        length.as_secs(),
        100.0 * middle.program,
        middle.of_top()
    ));
    Ok(report)
}

impl Cost {
    fn of_top(&self) -> String {
        let (percent, mb) = (100.0 * self.top, self.bytes / 1e6);
        format!("`kinform top` {percent:.2} % of a core, {mb:.1} MB at most")
    }
}

/// The processor time of a process from a moment on.
struct Clock {
    process: u32,
    seconds: f64,
    began: Instant,
}

impl Clock {
    fn of(process: u32) -> Result<Self, String> {
        Ok(Self {
            process,
            seconds: seconds(process)?,
            began: Instant::now(),
        })
    }

    fn part_of_a_core(&self) -> Result<f64, String> {
        let spent = seconds(self.process)? - self.seconds;
        Ok(spent / self.began.elapsed().as_secs_f64())
    }
}

/// The processor time of a process so far.
fn seconds(process: u32) -> Result<f64, String> {
    let stat = read(&format!("/proc/{process}/stat"))?;
    spent(&stat).ok_or_else(|| format!("terminal: /proc/{process}/stat is not understood: {stat}"))
}

/// The processor time in a `/proc/PID/stat`: the fields behind the name, which may have spaces.
fn spent(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

/// The bytes of a process that were resident at most.
fn resident(process: u32) -> Result<f64, String> {
    let status = read(&format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    let kib = kib.ok_or_else(|| format!("terminal: /proc/{process}/status has no VmHWM"))?;
    Ok(kib * 1024.0)
}

/// The program in a terminal whose shell is this process.
pub(super) fn child_of(shell: u32) -> Result<u32, String> {
    let path = format!("/proc/{shell}/task/{shell}/children");
    let children = read(&path)?;
    let mut children = children
        .split_whitespace()
        .filter_map(|child| child.parse().ok());
    // Behind a screen that has ended, the shell sleeps.
    let is_top = |child: &u32| {
        read(&format!("/proc/{child}/comm")).is_ok_and(|name| name.trim() == "kinform")
    };
    let top = children.find(is_top);
    top.ok_or_else(|| {
        "terminal: the screen has ended: there is no process of `kinform top`".to_owned()
    })
}

fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("terminal: {path}: {error}"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_is_behind_a_name_with_spaces() {
        let stat = "7 (kin) form (x) S 1 7 7 0 -1 4194304 5 0 0 0 150 50 0 0 20 0 3 0 1 2 3";
        assert_eq!(spent(stat), Some(2.0));
        assert_eq!(spent("7 (kinform) S 1"), None);
        let own = std::process::id();
        assert!(seconds(own).is_ok_and(|seconds| seconds >= 0.0));
        assert!(resident(own).is_ok_and(|bytes| bytes > 1e5));
    }

    #[test]
    fn a_median_is_the_middle_one() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
