//! Everything around the operator that can be troubled: server, network, credentials.
//!
//! ```text
//! operator ──▶ Proxy ──▶ Server      driver ──▶ Server, its administration path
//!    └─ kubeconfig: the proxy's address, a token file;  certificate of the metrics
//! ```

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request};
use kinform::source::{ClientOptions, client_for};
use kinform_testkit::{Proxy, ProxyMode};
use kube_client::{Client, Config};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Mutex as AsyncMutex;

use super::certificate::{Files, replace};
use super::server::{Server, kubeconfig, token_file};
use crate::Failure;

/// BOUND: the time of a request to the administration path.
const ADMIN: Duration = Duration::from_secs(10);

/// The loss of a restart of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forgets {
    /// Nothing: watches go on where they stopped.
    Nothing,
    /// Its history: everything is listed again.
    History,
}

/// The world around the operator.
#[derive(Debug)]
pub(super) struct World {
    folder: TempDir,
    /// The file of the operator's log.
    log: PathBuf,
    server: AsyncMutex<Server>,
    /// The network between operator and server.
    pub(super) proxy: Proxy,
    /// The administrator's configuration, straight to the server.
    config: Config,
    token: Mutex<String>,
    files: Files,
    /// The authority of the newest certificate, as DER.
    authority: Mutex<Vec<u8>>,
}

impl World {
    /// Starts a server, and writes the operator's files. Logs are written beside `figures`.
    pub(super) async fn start(program: &Path, figures: &Path) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let token = new_token();
        write_tokens(folder.path(), &[&token])?;
        let (server, config) =
            Server::start(program, folder.path(), figures.with_extension("server.log")).await?;
        let proxy = Proxy::start(server.address()).await?;
        let files = Files::of(folder.path());
        let authority = files.issue()?;
        let world = Self {
            log: figures.with_extension("operator.log"),
            folder,
            server: AsyncMutex::new(server),
            proxy,
            config,
            token: Mutex::new(token),
            files,
            authority: Mutex::new(authority),
        };
        replace(&world.operators_token(), &world.token())?;
        replace(&world.kubeconfig(), &world.kubeconfig_text()?)?;
        Ok(world)
    }

    /// A client of an administrator, straight to the server.
    pub(super) fn client(&self) -> Result<Client, Failure> {
        let options = ClientOptions::default().with_rate_limit(0, 0);
        Ok(client_for(self.config.clone(), &options)?)
    }

    /// The operator's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("operator.kubeconfig")
    }

    /// The file of the operator's log.
    pub(super) fn log(&self) -> &Path {
        &self.log
    }

    /// The files of the metrics' certificate.
    pub(super) fn files(&self) -> &Files {
        &self.files
    }

    /// The authority of the newest certificate, as DER.
    pub(super) fn authority(&self) -> Vec<u8> {
        let authority = self.authority.lock();
        authority.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The operator's newest token.
    pub(super) fn token(&self) -> String {
        let token = self.token.lock();
        token.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The server's process; `None` while it is restarted.
    pub(super) fn server_process(&self) -> Option<u32> {
        self.server.try_lock().ok()?.process()
    }

    /// Kills the server and starts it again at its place.
    pub(super) async fn restart(&self, forgets: Forgets) -> Result<(), Failure> {
        let mut server = self.server.lock().await;
        if forgets == Forgets::History {
            // Nobody may resume before the history is gone.
            self.proxy.set(ProxyMode::Refuse);
        }
        self.proxy.cut();
        server.kill().await?;
        server.again().await?;
        if forgets == Forgets::History {
            self.admin(Method::POST, "expire", "").await?;
            self.proxy.set(ProxyMode::Pass);
        }
        Ok(())
    }

    /// Restarts the server so that it accepts another token of the operator, too, which then
    /// replaces the old one. The old token ends with the next restart.
    pub(super) async fn rotate_token(&self) -> Result<(), Failure> {
        let (old, new) = (self.token(), new_token());
        write_tokens(self.folder.path(), &[&old, &new])?;
        self.restart(Forgets::Nothing).await?;
        replace(&self.operators_token(), &new)?;
        write_tokens(self.folder.path(), &[&new])?;
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Gives the operator's metrics a certificate of another authority.
    pub(super) fn rotate_certificate(&self) -> Result<(), Failure> {
        let authority = self.files.issue()?;
        *self
            .authority
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = authority;
        Ok(())
    }

    /// Ends every trouble that has a duration.
    pub(super) async fn peace(&self) -> Result<(), Failure> {
        self.proxy.set(ProxyMode::Pass);
        self.admin(Method::DELETE, "faults", "").await
    }

    /// A request to the server's administration path.
    pub(super) async fn admin(
        &self,
        method: Method,
        word: &str,
        body: &str,
    ) -> Result<(), Failure> {
        let request = Request::builder()
            .method(method)
            .uri(format!("/__kinform/{word}"))
            .body(body.as_bytes().to_vec())?;
        let client = self.client()?;
        tokio::time::timeout(ADMIN, client.request_text(request)).await??;
        Ok(())
    }

    fn operators_token(&self) -> PathBuf {
        self.folder.path().join("operator.token")
    }

    /// The operator's kubeconfig: the server's authority, the proxy's address, a token file.
    fn kubeconfig_text(&self) -> Result<String, Failure> {
        let servers = std::fs::read_to_string(kubeconfig(self.folder.path()))?;
        let authority = servers
            .lines()
            .find_map(|line| line.trim().strip_prefix("certificate-authority-data: "))
            .ok_or("the server's kubeconfig has no authority")?;
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "soak",
            "clusters": [{"name": "soak", "cluster": {
                "server": format!("https://{}", self.proxy.address()),
                "certificate-authority-data": authority,
            }}],
            "users": [{"name": "soak", "user": {"tokenFile": self.operators_token()}}],
            "contexts": [{"name": "soak", "context": {
                "cluster": "soak", "user": "soak", "namespace": "default",
            }}],
        });
        Ok(text.to_string())
    }
}

/// Writes the users that the server accepts from its next start on.
fn write_tokens(folder: &Path, tokens: &[&str]) -> Result<(), Failure> {
    let lines = tokens
        .iter()
        .map(|token| format!("{token},soak,soak-uid,\"system:masters\"\n"));
    replace(&token_file(folder), &lines.collect::<String>())
}

/// A random token.
fn new_token() -> String {
    format!("{:032x}", rand::random::<u128>())
}
