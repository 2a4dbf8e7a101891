//! A process that does one part, and the lines that it reports.
//!
//! ```text
//! Process::start(words) ─▶ operators WORDS.. ─stdout─▶ wait_for("reconciled") -> its number
//! ```

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::subject::Failed;
use crate::subject::latency::now_micros;

/// BOUND: the longest wait for a line.
const PATIENCE: Duration = Duration::from_secs(900);

/// A running process; it is killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Reports an event from inside such a process.
pub fn tell(word: &str, number: impl std::fmt::Display) {
    println!("{word} {number}");
}

impl Process {
    /// Starts this program with these words.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(kubeconfig: Option<&Path>, words: &[&str]) -> Result<Self, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words).stdout(Stdio::piped());
        command.kill_on_drop(true);
        if let Some(kubeconfig) = kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or("the process has no stdout")?;
        let lines = BufReader::new(stdout).lines();
        Ok(Self { child, lines })
    }

    /// The next line, as word and number; `None` at the end.
    ///
    /// # Errors
    /// It takes too long, or is no such line.
    pub async fn next(&mut self) -> Result<Option<(String, f64)>, Failed> {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.map_err(|_| "a process reports nothing for 15 minutes")??;
        let Some(line) = line else { return Ok(None) };
        let (word, number) = line
            .split_once(' ')
            .ok_or_else(|| format!("a process reports {line:?}"))?;
        Ok(Some((word.to_owned(), number.parse()?)))
    }

    /// Waits for a line that begins with this word; returns its number.
    ///
    /// # Errors
    /// The process ends before.
    pub async fn wait_for(&mut self, word: &str) -> Result<f64, Failed> {
        while let Some((found, number)) = self.next().await? {
            if found == word {
                return Ok(number);
            }
        }
        Err(format!("a process ended before it reported {word:?}").into())
    }

    /// Sends a signal; returns the time just before.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, signal: Signal) -> Result<f64, Failed> {
        let id = self.child.id().ok_or("the process has ended")?;
        let at = now_micros() as f64;
        kill(Pid::from_raw(i32::try_from(id)?), signal)?;
        Ok(at)
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// The system does not tell.
    pub async fn ended(mut self) -> Result<(), Failed> {
        let _ = tokio::time::timeout(PATIENCE, self.child.wait()).await??;
        Ok(())
    }
}
