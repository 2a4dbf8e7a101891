//! Real clients and real servers.
//!
//! ```text
//! oracle/up ──▶ etcd, kube-apiserver on loopback ──▶ Oracle: Stage { Proxy, direct client, restart }
//!                                 embedded server ──┴▶ Servers { Host, Host } ──▶ other people's clients
//! ```
//!
//! The server is built from its Go modules, at the versions in `oracle/go.mod`, the first time. It
//! has a directory, ports, certificates and tokens of its own, and is stopped when its [`Oracle`]
//! is dropped. A restart keeps the objects in etcd and loses the server's own memory of its
//! history.

pub mod balancer;
pub mod beats;
pub mod conformance;
mod dice;
pub mod differential;
pub mod fetched;
pub mod ginkgo;
pub mod invalid;
pub mod kubectl;
pub mod peers;
pub mod process;
pub mod program;
pub mod servers;
pub mod sharing;
pub mod watched;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use kinform_testkit::Loss;
use kinform_testkit::Network;
use kinform_testkit::Proxy;
use kinform_testkit::checks::stage::{Stage, StageError};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};

/// The programs that build, start and query a real server, and the argument that prints their
/// version.
const TOOLS: [(&str, &str); 3] = [
    ("go", "version"),
    ("openssl", "version"),
    ("curl", "--version"),
];

/// The programs in `TOOLS` that are missing here.
pub fn missing() -> Vec<&'static str> {
    let has = |program: &str, version: &str| {
        let asked = Command::new(program).arg(version).output();
        asked.is_ok_and(|output| output.status.success())
    };
    let missing = TOOLS.iter().filter(|(name, version)| !has(name, version));
    missing.map(|(name, _)| *name).collect()
}

/// A running server.
#[derive(Debug)]
pub struct Oracle {
    directory: PathBuf,
    ports: Ports,
    /// More flags of the API server.
    flags: &'static str,
    config: Config,
    proxy: Option<Proxy>,
    // Removes the directory at the end.
    _home: tempfile::TempDir,
}

/// The files of a server that another one over the same etcd begins with.
const SHARED: [&str; 10] = [
    "sa.key",
    "sa.pub",
    "ca.key",
    "ca.crt",
    "server.key",
    "server.crt",
    "client.key",
    "client.crt",
    "etcd.pid",
    "etcd.log",
];

/// BOUND: the attempts to start a server that does not come up.
const MOST_STARTS: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Ports {
    server: u16,
    etcd: u16,
    /// Of etcd, for others like it.
    peers: u16,
}

/// The ports that servers may get: below those that the system gives to outgoing connections
/// (32,768 and up on Linux). One of those may be taken while its server restarts.
const PORTS: Range<u16> = 20_000..32_000;

impl Ports {
    /// Ports that are free now, and that no other server of this program gets.
    fn free() -> io::Result<Self> {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let width = u32::from(PORTS.end - PORTS.start);
        // Programs that run at the same time begin apart.
        let first = std::process::id().wrapping_mul(97);
        // BOUND: once around.
        for _ in 0..width / 3 {
            let step = TAKEN.fetch_add(3, Ordering::Relaxed);
            let at = first.wrapping_add(step) % (width - 2);
            let server = PORTS.start + u16::try_from(at).map_err(io::Error::other)?;
            if (server..server + 3).all(is_free) {
                return Ok(Self {
                    server,
                    etcd: server + 1,
                    peers: server + 2,
                });
            }
        }
        Err(io::Error::other(format!("no free ports in {PORTS:?}")))
    }

    /// Returns once nothing listens at the port of the API server that was killed: on a busy machine
    /// its process needs a fifth of a second to end. The ports of etcd are waited for, too, unless
    /// `directory` has the id of an etcd that still runs.
    async fn until_free(self, directory: &Path) -> Result<(), StageError> {
        let mut awaited = vec![self.server];
        if !directory.join("etcd.pid").exists() {
            awaited.extend([self.etcd, self.peers]);
        }
        // BOUND: ten seconds.
        for _ in 0..500 {
            awaited.retain(|port| !is_free(*port));
            if awaited.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(format!("the servers were killed, but something listens at {awaited:?} still").into())
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

impl Oracle {
    /// Builds the server if need be, and starts it.
    ///
    /// # Errors
    /// It cannot be built or does not come up; the message has its output.
    pub async fn start() -> Result<Self, StageError> {
        Self::start_with("").await
    }

    /// The same, with more flags of the API server, separated by spaces.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(flags: &'static str) -> Result<Self, StageError> {
        // A port that was free when it was looked up may be another server's a moment later.
        for _ in 1..MOST_STARTS {
            match Self::start_once(flags).await {
                Err(error) => eprintln!("a server did not come up, once more: {error}"),
                started => return started,
            }
        }
        Self::start_once(flags).await
    }

    async fn start_once(flags: &'static str) -> Result<Self, StageError> {
        let home = tempfile::tempdir()?;
        let (directory, ports) = (home.path().to_owned(), Ports::free()?);
        if let Err(error) = up(&directory, ports, flags) {
            return Err(stopped(error, &directory, ports));
        }
        let config = config(&directory).await?;
        let mut oracle = Self {
            directory,
            ports,
            flags,
            config,
            proxy: None,
            _home: home,
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.server));
        oracle.proxy = Some(Proxy::start(address).await?);
        Ok(oracle)
    }

    /// Starts one more API server over the etcd of this one, with its certificates and other flags.
    /// It must end first.
    ///
    /// # Errors
    /// It does not come up.
    pub async fn beside(&self, flags: &'static str) -> Result<Self, StageError> {
        let home = tempfile::tempdir()?;
        let (directory, mut ports) = (home.path().to_owned(), Ports::free()?);
        ports.etcd = self.ports.etcd;
        for name in SHARED {
            std::fs::copy(self.directory.join(name), directory.join(name))?;
        }
        let came_up = up(&directory, ports, flags);
        // Else its end would be that of etcd.
        std::fs::remove_file(directory.join("etcd.pid"))?;
        if let Err(error) = came_up {
            return Err(stopped(error, &directory, ports));
        }
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.server));
        Ok(Self {
            config: config(&directory).await?,
            proxy: Some(Proxy::start(address).await?),
            directory,
            ports,
            flags,
            _home: home,
        })
    }

    /// The file by which other programs reach it, around the proxy.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// The configuration of a client that goes through the proxy.
    pub fn config(&self) -> Result<Config, StageError> {
        let proxy = self.proxy.as_ref().ok_or("no proxy")?;
        let mut config = self.config.clone();
        config.cluster_url = format!("https://{}", proxy.address()).parse()?;
        Ok(config)
    }
}

impl Oracle {
    /// Kills the API server and starts it again at its port; etcd goes on.
    ///
    /// # Errors
    /// It cannot be killed, or does not come up.
    pub async fn restart_server(&self) -> Result<(), StageError> {
        let directory = self.directory.clone();
        let kill = move || -> Result<(), StageError> {
            let id = std::fs::read_to_string(directory.join("apiserver.pid"))?;
            let killed = Command::new("kill").args(["-KILL", id.trim()]).status()?;
            if !killed.success() {
                return Err(format!("the API server cannot be killed: {killed}").into());
            }
            Ok(())
        };
        tokio::task::spawn_blocking(kill).await??;
        self.up_again().await
    }

    /// Starts what was stopped, at the same ports.
    async fn up_again(&self) -> Result<(), StageError> {
        let (directory, ports, flags) = (self.directory.clone(), self.ports, self.flags);
        ports.until_free(&directory).await?;
        tokio::task::spawn_blocking(move || up(&directory, ports, flags)).await?
    }
}

async fn config(directory: &Path) -> Result<Config, StageError> {
    let kubeconfig = Kubeconfig::read_from(directory.join("kubeconfig"))?;
    let options = KubeConfigOptions::default();
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}

fn script(name: &str, directory: &Path, ports: Ports, flags: &str) -> Result<(), StageError> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("oracle")
        .join(name);
    let status = Command::new("bash")
        .arg(script)
        .arg(directory)
        .env("KAS_PORT", ports.server.to_string())
        .env("ETCD_PORT", ports.etcd.to_string())
        .env("ETCD_PEER_PORT", ports.peers.to_string())
        .env("KAS_FLAGS", flags)
        // Its output is the kubeconfig's path; its children must not hold our output open.
        .stdout(std::process::Stdio::null())
        .status()?;
    if !status.success() {
        return Err(format!("oracle/{name} failed: {status}").into());
    }
    Ok(())
}

fn up(directory: &Path, ports: Ports, flags: &str) -> Result<(), StageError> {
    script("up", directory, ports, flags)
}

/// Stops what came up of a server that did not. Returns why it did not.
fn stopped(error: StageError, directory: &Path, ports: Ports) -> StageError {
    match script("down", directory, ports, "") {
        Ok(()) => error,
        Err(down) => format!("{error}; and {down}").into(),
    }
}

impl Stage for Oracle {
    fn network(&self) -> &dyn Network {
        self.proxy.as_ref().expect("a started server has its proxy")
    }

    fn direct(&self) -> Result<Client, StageError> {
        Ok(Client::try_from(self.config.clone())?)
    }

    fn restart(&mut self, _: Loss) -> BoxFuture<'_, Result<(), StageError>> {
        Box::pin(async {
            let (directory, ports) = (self.directory.clone(), self.ports);
            let down = move || script("down", &directory, ports, "");
            tokio::task::spawn_blocking(down).await??;
            self.up_again().await
        })
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // A failure cannot be reported here; the scripts end the processes that they started, by
        // id.
        let _ = script("down", &self.directory, self.ports, "");
    }
}
