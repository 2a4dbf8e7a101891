//! A `kinform serve` of the bench: its start, its client, what it has used.
//!
//! ```text
//! Served::start(flags) ─▶ kubeconfig file appears ─▶ Cluster     cpu_seconds, peak_bytes ◀─ /proc/PID
//! ```

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::operators::cluster::Cluster;
use crate::subject::Failed;

/// BOUND: the longest start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; it is killed when it is dropped.
pub struct Served {
    child: Child,
    /// Its kubeconfig and a client.
    pub cluster: Cluster,
    /// The time at which its process was started.
    pub started: Instant,
}

impl Served {
    /// Starts a server with these flags and waits for its kubeconfig, which it writes once it answers
    /// and its controllers run.
    ///
    /// # Errors
    /// There is no such program, or it does not start.
    pub async fn start<S: AsRef<OsStr>>(
        program: &Path,
        directory: &Path,
        flags: &[S],
    ) -> Result<Self, Failed> {
        let kubeconfig = directory.join("served-kubeconfig");
        let _ = std::fs::remove_file(&kubeconfig);
        let mut command = Command::new(program);
        command.arg("serve").args(flags);
        command.arg("--write-kubeconfig").arg(&kubeconfig);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.kill_on_drop(true);
        let started = Instant::now();
        let mut child = command.spawn()?;
        while !kubeconfig.exists() {
            if let Some(status) = child.try_wait()? {
                return Err(format!("kinform serve ended: {status}").into());
            }
            if started.elapsed() > PATIENCE {
                return Err("kinform serve does not write its kubeconfig".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let cluster = Cluster::of(&kubeconfig).await?;
        Ok(Self {
            child,
            cluster,
            started,
        })
    }

    /// User and system time of the server so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn cpu_seconds(&self) -> Result<f64, Failed> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id()?))?;
        // The name in parentheses may have spaces.
        let (_, numbers) = stat.rsplit_once(") ").ok_or("no such stat")?;
        let mut fields = numbers.split(' ').skip(11);
        let mut ticks = || -> Result<f64, Failed> { Ok(fields.next().unwrap_or("").parse()?) };
        let (user, system) = (ticks()?, ticks()?);
        // Linux counts in hundredths of a second for every program.
        Ok((user + system) / 100.0)
    }

    /// The most memory that was resident so far.
    ///
    /// # Errors
    /// It has ended.
    pub fn peak_bytes(&self) -> Result<u64, Failed> {
        let path = format!("/proc/{}/status", self.id()?);
        Ok(crate::meter::bytes_in(&path, "VmHWM:"))
    }

    fn id(&self) -> Result<u32, Failed> {
        self.child.id().ok_or_else(|| "the server has ended".into())
    }

    /// Ends the server.
    ///
    /// # Errors
    /// The system does not tell.
    pub async fn stop(mut self) -> Result<(), Failed> {
        Ok(self.child.kill().await?)
    }
}
