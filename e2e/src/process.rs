//! A program of ours as a process: started with a kubeconfig, its ports and its log read.
//!
//! ```text
//! Command ──spawn──▶ Process ── log in JSON (a file) ──▶ addresses of ports, lines
//!                        └── GET /readyz, /metrics; signals; exit code
//! ```
//!
//! Ports are free ones, which the log tells. The process is killed when it is dropped.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ServiceAccount;
use kinform_testkit::checks::stage::StageError;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// BOUND: the time for anything to happen.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// A running program.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    // Holds the log.
    _home: tempfile::TempDir,
}

impl Process {
    /// Starts an operator with its probes on a free port and its log in JSON.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn operator(
        binary: &str,
        kubeconfig: &Path,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Self, StageError> {
        let home = tempfile::tempdir()?;
        let log = home.path().join("log");
        let name = Path::new(binary).file_name().unwrap_or_default();
        let child = Command::new(binary)
            .args([
                "--health-probe-bind-address=127.0.0.1:0",
                "--log-format=json",
            ])
            .args(flags)
            .env("KUBECONFIG", kubeconfig)
            .envs(environment.iter().copied())
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            child,
            log,
            _home: home,
        })
    }

    /// The log until now, for a message; the reason where it cannot be read.
    pub fn log(&self) -> String {
        let log = self.read_log();
        log.unwrap_or_else(|error| format!("(no log: {error})"))
    }

    /// The log until now.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read_log(&self) -> Result<String, StageError> {
        // A process that was killed may have written half of a character.
        let bytes = std::fs::read(&self.log)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Waits until something holds.
    ///
    /// # Errors
    /// It does not, in time, or the process ended; the message has the log.
    pub async fn until<F: Future<Output = bool>>(
        &mut self,
        what: &str,
        mut holds: impl FnMut() -> F,
    ) -> Result<(), StageError> {
        let began = Instant::now();
        while !holds().await {
            let ended = self.child.try_wait()?;
            if ended.is_some() || began.elapsed() > PATIENCE {
                let (name, log) = (&self.name, self.log());
                return Err(format!("{name}: {what}: not so ({ended:?}):\n{log}").into());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// The address of a port: `probes`, `metrics` or `webhooks`.
    ///
    /// # Errors
    /// The log does not tell it in time.
    pub async fn address(&mut self, of: &str) -> Result<SocketAddr, StageError> {
        let (log, told) = (self.log.clone(), format!("serving {of}"));
        let find = move || -> Option<SocketAddr> {
            let text = std::fs::read_to_string(&log).ok()?;
            let lines = text
                .lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let fields = lines.map(|line| line["fields"].clone());
            let line = fields
                .into_iter()
                .find(|fields| fields["message"] == told.as_str())?;
            line["address"].as_str()?.parse().ok()
        };
        let what = format!("the address of its {of}");
        self.until(&what, || std::future::ready(find().is_some()))
            .await?;
        Ok(find().ok_or(what)?)
    }

    /// Waits until `/readyz` is 200.
    ///
    /// # Errors
    /// It is not, in time.
    pub async fn ready(&mut self) -> Result<(), StageError> {
        let probes = self.address("probes").await?;
        let is_ready = move || async move {
            get(probes, "/readyz")
                .await
                .is_ok_and(|(code, _)| code == 200)
        };
        self.until("readiness", is_ready).await
    }

    /// Sends a signal, by its name without `SIG`.
    ///
    /// # Errors
    /// It cannot be sent.
    pub fn signal(&self, signal: &str) -> Result<(), StageError> {
        let id = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &id])
            .status()?;
        if sent.success() {
            return Ok(());
        }
        Err(format!("{}: it cannot be signalled: {sent}", self.name).into())
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn ended(&mut self) -> Result<ExitStatus, StageError> {
        let began = Instant::now();
        loop {
            if let Some(ended) = self.child.try_wait()? {
                return Ok(ended);
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{} does not end:\n{}", self.name, self.log()).into());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command of a replica of the operator that writes its term, with a lease of 4 s.
#[must_use]
pub fn replica(binary: &str, name: &str, kubeconfig: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .args(["--name", name, "--leader-elect"])
        .args(["--leader-elect-resource-namespace", "default"])
        .args(["--leader-elect-lease-duration", "4s"])
        .args(["--leader-elect-renew-deadline", "2s"])
        .args(["--leader-elect-retry-period", "500ms"])
        .args(["--health-probe-bind-address", "127.0.0.1:0"])
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

/// The status and the body of a GET over plain HTTP.
///
/// # Errors
/// There is no reply.
pub async fn get(address: SocketAddr, path: &str) -> Result<(u16, String), StageError> {
    get_as(address, path, "*/*").await
}

/// The same with a media type.
///
/// # Errors
/// There is no reply, or not in time.
pub async fn get_as(
    address: SocketAddr,
    path: &str,
    accept: &str,
) -> Result<(u16, String), StageError> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: {accept}\r\n\r\n"
    );
    let asked = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply).await?;
        std::io::Result::Ok(reply)
    };
    let reply = tokio::time::timeout(PATIENCE, asked).await;
    let reply = reply.map_err(|_| format!("GET {path}: no reply within {PATIENCE:?}"))??;
    let (head, body) = reply.split_once("\r\n\r\n").ok_or("no reply")?;
    let code = head.split(' ').nth(1).ok_or("no status")?.parse()?;
    Ok((code, body.to_owned()))
}

/// Writes a kubeconfig like `from` whose user has this token; at another address, if one is given.
///
/// # Errors
/// `from` cannot be read, or the other file not be written.
pub fn kubeconfig_as(
    from: &Path,
    to: &Path,
    token: &str,
    server: Option<SocketAddr>,
) -> Result<(), StageError> {
    let asked = Command::new(crate::kubectl::cache().join("bin/kubectl"))
        .args([
            "config",
            "view",
            "--raw",
            "--minify",
            "--flatten",
            "-o",
            "json",
        ])
        .arg("--kubeconfig")
        .arg(from)
        .output()?;
    let mut config: Value = serde_json::from_slice(&asked.stdout)?;
    config["users"][0]["user"] = json!({ "token": token });
    if let Some(server) = server {
        config["clusters"][0]["cluster"]["server"] = format!("https://{server}").into();
    }
    std::fs::write(to, config.to_string())?;
    Ok(())
}

/// A token of a service account, which the server makes.
///
/// # Errors
/// The server refuses.
pub async fn token(client: &Client, namespace: &str, name: &str) -> Result<String, StageError> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let asked = serde_json::from_value(json!({"spec": {"audiences": []}}))?;
    let made = accounts
        .create_token_request(name, &PostParams::default(), &asked)
        .await?;
    let token = made.status.and_then(|status| status.token);
    Ok(token.ok_or("no token")?)
}
