//! The two servers that clients are tried on, side by side.
//!
//! ```text
//! Servers::start ──▶ Host Embedded: a thread of this process ──▶ kubeconfig, client
//!                └─▶ Host Real: kube-apiserver and etcd      ──▶ kubeconfig, client (or SKIPPED, said aloud)
//! ```
//!
//! Both are reached over TLS on loopback with a token, by a kubeconfig in a directory of the host's
//! own. Neither needs the caller's runtime: a test may block on another program while they serve
//! it. They stop when they are dropped.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::{ClientOptions, client_for};
use kinform_apiserver::{Builder, Server, Store};
use kinform_testkit::checks::stage::StageError;
use kube_client::api::PostParams;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Api, Client, Config};
use serde_json::json;

use crate::{Oracle, missing};

/// The kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The embedded server.
    Embedded,
    /// kube-apiserver with etcd.
    Real,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Embedded => "embedded",
            Self::Real => "real",
        })
    }
}

/// The servers that are available here.
#[derive(Debug)]
pub struct Servers {
    hosts: Vec<Host>,
}

impl Servers {
    /// Starts both; without Go only the embedded one, with a message on stderr that names `what` as
    /// skipped.
    ///
    /// # Errors
    /// One of them cannot be built or does not come up.
    pub async fn start(what: &str) -> Result<Self, StageError> {
        Self::start_as(Server::builder(), what).await
    }

    /// The same, with the embedded one as this builder makes it.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_as(builder: Builder, what: &str) -> Result<Self, StageError> {
        let mut hosts = vec![Host::embedded(builder).await?];
        let missing = missing();
        if missing.is_empty() {
            hosts.push(Host::real().await?);
        } else {
            let missing = missing.join(", ");
            eprintln!(
                "SKIPPED: {what} on a real API server: to build and start one, {missing} is needed"
            );
            println!("RESULT | {what} | real | skipped: no {missing} |");
        }
        Ok(Self { hosts })
    }

    /// All servers that run, the embedded one first.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The embedded one.
    pub fn embedded(&self) -> &Host {
        &self.hosts[0]
    }

    /// The real one, where it is available.
    pub fn real(&self) -> Option<&Host> {
        self.hosts.get(1)
    }
}

/// A running server, and how to reach it.
#[derive(Debug)]
pub struct Host {
    kind: Kind,
    kubeconfig: PathBuf,
    config: Config,
    running: Running,
    home: tempfile::TempDir,
}

#[derive(Debug)]
enum Running {
    Embedded(Embedded),
    Real(Box<Oracle>),
}

impl Host {
    /// The embedded server, as this builder makes it, on a thread of its own.
    ///
    /// # Errors
    /// It does not start.
    pub async fn embedded(builder: Builder) -> Result<Self, StageError> {
        let home = tempfile::tempdir()?;
        let kubeconfig = home.path().join("kubeconfig");
        let embedded = Embedded::start(builder).await?;
        embedded.server.write_kubeconfig(&kubeconfig)?;
        Ok(Self {
            kind: Kind::Embedded,
            config: read(&kubeconfig).await?,
            kubeconfig,
            running: Running::Embedded(embedded),
            home,
        })
    }

    /// A real server, built first if need be.
    ///
    /// # Errors
    /// It cannot be built or does not come up.
    pub async fn real() -> Result<Self, StageError> {
        Self::of(Oracle::start().await?).await
    }

    /// The same, with more flags of the API server, separated by spaces.
    ///
    /// # Errors
    /// As [`real`](Self::real).
    pub async fn real_with(flags: &'static str) -> Result<Self, StageError> {
        Self::of(Oracle::start_with(flags).await?).await
    }

    /// One more API server over the storage of this one, with the same users and certificate. It must
    /// end first.
    ///
    /// # Errors
    /// This is the embedded one (see [`Server::shared_state`]), or it does not come up.
    pub async fn beside(&self, flags: &'static str) -> Result<Self, StageError> {
        match &self.running {
            Running::Embedded(_) => Err("the embedded server shares its state itself".into()),
            Running::Real(oracle) => Self::of(oracle.beside(flags).await?).await,
        }
    }

    async fn of(oracle: Oracle) -> Result<Self, StageError> {
        let kubeconfig = oracle.kubeconfig();
        Ok(Self {
            kind: Kind::Real,
            config: read(&kubeconfig).await?,
            kubeconfig,
            running: Running::Real(Box::new(oracle)),
            home: tempfile::tempdir()?,
        })
    }

    /// The kind of this server.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The file by which other programs reach it as its administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A directory for files that clients keep about this server, such as caches of discovery.
    /// Removed with it.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The configuration for a client of kube.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// A client that returns every answer as it came: it never retries by itself.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn client(&self) -> Result<Client, StageError> {
        Ok(client_for(
            self.config(),
            &ClientOptions::default().with_rate_limit(0, 0),
        )?)
    }

    /// The embedded server itself, if it is that.
    pub fn server(&self) -> Option<&Server> {
        match &self.running {
            Running::Embedded(embedded) => Some(&embedded.server),
            Running::Real(_) => None,
        }
    }

    /// The address of its port.
    ///
    /// # Errors
    /// Its URL names none.
    pub fn address(&self) -> Result<SocketAddr, StageError> {
        let url = &self.config.cluster_url;
        let authority = url.authority().ok_or("no address")?;
        Ok(authority.as_str().parse()?)
    }

    /// Kills the real API server and starts it again at its port, with the objects that it had.
    ///
    /// # Errors
    /// It is the embedded one, or does not come up.
    pub async fn restart(&self) -> Result<(), StageError> {
        match &self.running {
            Running::Embedded(_) => Err("the embedded server is a thread of this process".into()),
            Running::Real(oracle) => oracle.restart_server().await,
        }
    }

    /// A handle that makes the server forget old versions.
    pub fn history(&self) -> History {
        match &self.running {
            Running::Embedded(embedded) => History::Embedded(embedded.server.store().clone()),
            Running::Real(oracle) => History::Etcd(oracle.ports.etcd),
        }
    }

    /// Makes the server forget everything before now.
    ///
    /// # Errors
    /// It cannot be asked, or does not.
    pub async fn forget(&self) -> Result<(), StageError> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client()?, "default");
        let map = serde_json::from_value(json!({"metadata": {"generateName": "now-"}}))?;
        let made = maps.create(&PostParams::default(), &map).await?;
        let now = made.metadata.resource_version.unwrap_or_default();
        self.history().forget(now.parse()?).await
    }
}

async fn read(kubeconfig: &Path) -> Result<Config, StageError> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    Ok(Config::from_custom_kubeconfig(kubeconfig, &options).await?)
}

/// The older versions that a server remembers. Clones refer to the same server.
#[derive(Clone, Debug)]
pub enum History {
    /// The embedded server's storage.
    Embedded(Arc<Store>),
    /// The port of the real server's etcd.
    Etcd(u16),
}

impl History {
    /// Forgets everything up to a version.
    ///
    /// # Errors
    /// etcd refuses.
    pub async fn forget(&self, version: u64) -> Result<(), StageError> {
        let port = match self {
            Self::Embedded(store) => {
                store.compact(version);
                return Ok(());
            }
            Self::Etcd(port) => port,
        };
        // etcd's own gateway takes JSON.
        let body = json!({"revision": version, "physical": true}).to_string();
        let asked = tokio::process::Command::new("curl")
            .args(["-sS", "--fail", "-d", &body])
            .arg(format!("http://127.0.0.1:{port}/v3/kv/compaction"))
            .output()
            .await?;
        if asked.status.success() {
            return Ok(());
        }
        Err(format!("etcd: {}", String::from_utf8_lossy(&asked.stderr)).into())
    }
}

/// The embedded server on its thread, which ends when the server is dropped.
#[derive(Debug)]
struct Embedded {
    server: Server,
    // Closed to end the thread.
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    async fn start(builder: Builder) -> Result<Self, StageError> {
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let (tell, told) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let serve = move || {
            runtime.block_on(async {
                let started = builder.start().await;
                if tell.send(started).is_ok() {
                    let _ = ended.await;
                }
            });
        };
        let thread = std::thread::Builder::new()
            .name("embedded server".to_owned())
            .spawn(serve)?;
        let server = told.await??;
        Ok(Self {
            server,
            end: Some(end),
            thread: Some(thread),
        })
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the server has been printed already.
            let _ = thread.join();
        }
    }
}
