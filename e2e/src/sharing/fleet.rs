//! The replicas as processes.
//!
//! ```text
//! Fleet::start ─▶ replica r1, r2 .. ─signals─▶ killed, paused, stopped; their logs stay until the end
//! ```

use std::path::PathBuf;
use std::time::Duration;

use kinform_testkit::checks::stage::StageError;

use super::{SHARDS, Work, gone_of};
use crate::process::{Process, get};

/// The metric of bytes that informers have read.
const READ: &str = "kinform_wire_bytes_total";
/// In a line that means a broken invariant of ours, whatever else holds.
const PANIC: &str = "panicked at";

/// BOUND: lines of one log in a failure.
const LINES: usize = 15;
/// Shorter leases are quick.
const QUICK: Duration = Duration::from_secs(15);

/// A replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) process: Process,
    /// Only then may it end without a code.
    is_killed: bool,
}

impl Replica {
    /// Waits for its end, which must be a right one.
    async fn ended(&mut self) -> Result<(), StageError> {
        let status = self.process.ended().await?;
        match status.code() {
            Some(0) => Ok(()),
            None if self.is_killed => Ok(()),
            _ => {
                let (name, log) = (&self.name, self.process.log());
                Err(format!("{name} ended with {status}:\n{log}").into())
            }
        }
    }
}

/// The replicas that run, and those that ended.
#[derive(Debug)]
pub(crate) struct Fleet {
    work: Work,
    binary: String,
    kubeconfig: PathBuf,
    lease: Duration,
    count: usize,
    pub(crate) running: Vec<Replica>,
    ended: Vec<Replica>,
}

impl Fleet {
    pub(crate) fn new(work: Work, binary: &str, kubeconfig: PathBuf, lease: Duration) -> Self {
        Self {
            work,
            binary: binary.to_owned(),
            kubeconfig,
            lease,
            count: 0,
            running: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Starts one more replica.
    pub(crate) fn start(&mut self) -> Result<(), StageError> {
        self.count += 1;
        let name = format!("r{}", self.count);
        // 15 s, 10 s and 2 s, or less; requests and margin of quick leases are a larger part of them.
        let deadline = match self.lease < QUICK {
            true => self.lease / 2,
            false => self.lease * 2 / 3,
        };
        let mut flags: Vec<String> = vec![
            format!("--shards={SHARDS}"),
            "--leader-elect-resource-namespace=default".to_owned(),
            format!("--leader-elect-lease-duration={}ms", self.lease.as_millis()),
            format!("--leader-elect-renew-deadline={}ms", deadline.as_millis()),
            format!(
                "--leader-elect-retry-period={}ms",
                (self.lease * 2 / 15).as_millis()
            ),
            "--kube-api-qps=0".to_owned(),
            "--metrics-bind-address=127.0.0.1:0".to_owned(),
            "--metrics-secure=false".to_owned(),
        ];
        match self.work {
            Work::Sharer => flags.push(format!("--name={name}")),
            Work::Careless => flags.extend([format!("--name={name}"), "--careless".to_owned()]),
            Work::Sample => flags.push("--enable-webhooks=false".to_owned()),
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let process = Process::operator(&self.binary, &self.kubeconfig, &flags, &[])?;
        self.running.push(Replica {
            name,
            process,
            is_killed: false,
        });
        Ok(())
    }

    /// The bytes that all informers of the objects have read.
    pub(crate) async fn read(&mut self) -> Result<f64, StageError> {
        let mut sum = 0.0;
        for replica in &mut self.running {
            let address = replica.process.address("metrics").await?;
            let (_, text) = get(address, "/metrics").await?;
            let lines = text.lines().filter(|line| line.starts_with(READ));
            let lines = lines.filter(|line| line.contains(self.work.resource()));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
            sum += values.sum::<f64>();
        }
        Ok(sum)
    }

    /// Kills a replica.
    pub(crate) async fn kill(&mut self, at: usize) -> Result<(), StageError> {
        let mut replica = self.running.swap_remove(at);
        replica.process.signal("KILL")?;
        replica.is_killed = true;
        let ended = replica.ended().await;
        self.ended.push(replica);
        ended
    }

    /// Tells a replica to stop; it runs on until [`ended`](Self::ended).
    pub(crate) fn remove(&mut self, at: usize) -> Result<(), StageError> {
        let replica = self.running.swap_remove(at);
        replica.process.signal("TERM")?;
        self.ended.push(replica);
        Ok(())
    }

    /// Waits until those that were told to stop have ended, in order.
    pub(crate) async fn ended(&mut self) -> Result<(), StageError> {
        for replica in &mut self.ended {
            replica.ended().await?;
        }
        Ok(())
    }

    /// Stops all, one after the other.
    pub(crate) async fn stop(&mut self) -> Result<(), StageError> {
        while !self.running.is_empty() {
            self.remove(0)?;
        }
        self.ended().await
    }

    /// Each call of a replica's function for objects that are gone: the key, and when.
    pub(crate) fn gone(&self) -> Result<Vec<(String, u128)>, StageError> {
        let mut gone = Vec::new();
        for replica in self.ended.iter().chain(&self.running) {
            let log = replica.process.read_log()?;
            let calls = log.lines().filter_map(gone_of);
            gone.extend(calls.map(|(at, key)| (key.to_owned(), at)));
        }
        Ok(gone)
    }

    /// The lines of a panic in a log.
    pub(crate) fn panics(&self) -> Result<Vec<String>, StageError> {
        let mut lines = Vec::new();
        for replica in self.ended.iter().chain(&self.running) {
            let log = replica.process.read_log()?;
            let panics = log.lines().filter(|line| line.contains(PANIC));
            lines.extend(panics.map(|line| format!("{}: {line}", replica.name)));
        }
        Ok(lines)
    }

    /// The last lines of all logs that name a key, for a failure.
    pub(crate) fn lines(&self, key: &str) -> String {
        let all = self.ended.iter().chain(&self.running);
        let told = all.map(|replica| {
            let log = replica.process.log();
            let lines: Vec<_> = log.lines().filter(|line| line.contains(key)).collect();
            let last = lines.len().saturating_sub(LINES);
            format!("-- {}\n{}\n", replica.name, lines[last..].join("\n"))
        });
        told.collect()
    }

    /// The ends of all logs, for a failure.
    pub(crate) fn logs(&self) -> String {
        let all = self.ended.iter().chain(&self.running);
        let logs = all.map(|replica| {
            let log = replica.process.log();
            let lines: Vec<_> = log.lines().rev().take(LINES).collect();
            let lines: Vec<_> = lines.into_iter().rev().collect();
            format!("-- {}\n{}\n", replica.name, lines.join("\n"))
        });
        logs.collect()
    }
}
