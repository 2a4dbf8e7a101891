//! The commit and the machine that results are of.
//!
//! ```text
//! git, /proc ─▶ commit(), machine() ─▶ the head of the results
//! ```

use tokio::process::Command;

/// The commit of the working directory, `-dirty` if more was changed.
pub async fn commit() -> String {
    let output = Command::new("git")
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ])
        .output()
        .await;
    output.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// Processor, memory and load average.
#[must_use]
pub fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
            .unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = read("/proc/loadavg");
    format!(
        "{}, {cores} cores, {}, load average {} after it",
        field(&read("/proc/cpuinfo"), "model name"),
        field(&read("/proc/meminfo"), "MemTotal"),
        load.split(' ').next().unwrap_or_default()
    )
}
