//! The server: `kinform serve` with controllers, as a process that is killed and started again.
//!
//! ```text
//! folder { state, token file } ──▶ `kinform serve` on one port ──▶ kubeconfig: it answers
//! ```
//!
//! It ends with the driver: it runs `cat`, whose stdin the driver holds.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use kinform::source::{ConfigOverrides, load_config};
use kube_client::Config;
use tokio::process::{Child, Command};

use crate::Failure;

/// BOUND: the time that it has until it answers.
const START: Duration = Duration::from_secs(60);
/// The time between two looks whether it answers.
const LOOK: Duration = Duration::from_millis(20);
/// Events that it remembers.
const HISTORY: u32 = 20_000;

/// A server's process and folder.
#[derive(Debug)]
pub(super) struct Server {
    program: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    address: SocketAddr,
    child: Child,
}

impl Server {
    /// Starts it on a free port, with its state in `folder`. All its processes append to one log.
    pub(super) async fn start(
        program: &Path,
        folder: &Path,
        log: PathBuf,
    ) -> Result<(Self, Config), Failure> {
        File::create(&log)?;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (child, config) = spawn(program, folder, &log, any).await?;
        let port = config.cluster_url.port_u16();
        let port = port.ok_or("the server's address has no port")?;
        let server = Self {
            program: program.to_owned(),
            folder: folder.to_owned(),
            log,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            child,
        };
        Ok((server, config))
    }

    /// The address, the same after each start.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process; `None` between two of them.
    pub(super) fn process(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it, without a word before.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        Ok(self.child.kill().await?)
    }

    /// Starts it again, with another certificate of the same authority.
    pub(super) async fn again(&mut self) -> Result<(), Failure> {
        let (child, _) = spawn(&self.program, &self.folder, &self.log, self.address).await?;
        self.child = child;
        Ok(())
    }
}

/// The file of the users' tokens in the server's folder.
pub(super) fn token_file(folder: &Path) -> PathBuf {
    folder.join("tokens.csv")
}

/// The administrator's kubeconfig in the server's folder.
pub(super) fn kubeconfig(folder: &Path) -> PathBuf {
    folder.join("server.kubeconfig")
}

async fn spawn(
    program: &Path,
    folder: &Path,
    log: &Path,
    listen: SocketAddr,
) -> Result<(Child, Config), Failure> {
    let kubeconfig = kubeconfig(folder);
    let _ = fs::remove_file(&kubeconfig);
    let mut child = Command::new(program)
        .args(["serve", "--controllers", "--fsync=false", "--listen"])
        .arg(listen.to_string())
        .args(["--history", &HISTORY.to_string()])
        .arg("--data-dir")
        .arg(folder.join("state"))
        .arg("--token-file")
        .arg(token_file(folder))
        .arg("--write-kubeconfig")
        .arg(&kubeconfig)
        .args(["--", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(File::options().append(true).open(log)?)
        .kill_on_drop(true)
        .spawn()?;
    let deadline = Instant::now() + START;
    while !kubeconfig.exists() {
        if let Some(ended) = child.try_wait()? {
            let log = fs::read_to_string(log).unwrap_or_default();
            return Err(format!("the server ended at its start: {ended}\n{log}").into());
        }
        if Instant::now() >= deadline {
            return Err(format!("the server does not answer within {START:?}").into());
        }
        tokio::time::sleep(LOOK).await;
    }
    let mut overrides = ConfigOverrides::default();
    overrides.kubeconfig = Some(kubeconfig);
    Ok((child, load_config(&overrides).await?))
}
