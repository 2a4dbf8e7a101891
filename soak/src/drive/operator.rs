//! The operator's process: commands to its stdin, replies from its stdout, its metrics.
//!
//! ```text
//! Command ──line──▶ process ──line──▶ Reply        GET /metrics over TLS, with the newest token
//! ```

use std::fs::File;
use std::process::Stdio;
use std::time::Duration;

use http::Request;
use kinform::source::{ClientOptions, client_for};
use kube_client::Config;
use kube_client::config::AuthInfo;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::world::World;
use crate::Failure;
use crate::sample::{Command, Reply, Sample};

/// BOUND: the time of a reply; a comparison takes longest.
const REPLY: Duration = Duration::from_secs(180);
/// BOUND: the time of a scrape: the operator asks the server about its caller.
const SCRAPE: Duration = Duration::from_secs(3);
/// BOUND: the time of an orderly stop.
const STOP: Duration = Duration::from_secs(40);

/// The operator's process.
pub(super) struct Operator {
    child: Child,
    commands: ChildStdin,
    replies: Lines<BufReader<ChildStdout>>,
}

impl Operator {
    /// Starts it.
    pub(super) async fn start(world: &World) -> Result<Self, Failure> {
        let mut child = tokio::process::Command::new(std::env::current_exe()?)
            .arg("operator")
            .arg("--kubeconfig")
            .arg(world.kubeconfig())
            .arg("--certificate")
            .arg(&world.files().certificate)
            .arg("--key")
            .arg(&world.files().key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(world.log())?)
            .kill_on_drop(true)
            .spawn()?;
        let commands = child.stdin.take().ok_or("it has no stdin")?;
        let replies = child.stdout.take().ok_or("it has no stdout")?;
        Ok(Self {
            child,
            commands,
            replies: BufReader::new(replies).lines(),
        })
    }

    /// Sends a command and waits for its reply.
    pub(super) async fn ask(&mut self, command: Command) -> Result<Reply, Failure> {
        self.send(command).await?;
        let line = timeout(REPLY, self.replies.next_line()).await;
        let line = line.map_err(|_| format!("the operator did not reply to {command:?}"))??;
        let line = line.ok_or("the operator ended")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Its figures.
    pub(super) async fn sample(&mut self) -> Result<Sample, Failure> {
        match self.ask(Command::Sample).await? {
            Reply::Sample(sample) => Ok(*sample),
            other => Err(format!("the operator replied {other:?}").into()),
        }
    }

    /// Ends it in order; it must end without an error.
    pub(super) async fn stop(&mut self) -> Result<(), Failure> {
        self.send(Command::Stop).await?;
        let ended = timeout(STOP, self.child.wait()).await;
        let status = ended.map_err(|_| format!("the operator did not end within {STOP:?}"))??;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the operator ended with {status}").into()),
        }
    }

    /// Reads the metrics over a connection of its own, as the newest user, trusting only the newest
    /// certificate.
    pub(super) async fn scrape(&self, world: &World, port: u16) -> Result<(), Failure> {
        let mut config = Config::new(format!("https://127.0.0.1:{port}").parse()?);
        config.root_cert = Some(vec![world.authority()]);
        config.auth_info = serde_json::from_value::<AuthInfo>(json!({"token": world.token()}))?;
        let client = client_for(config, &ClientOptions::default())?;
        let request = Request::get("/metrics").body(Vec::new())?;
        let text = timeout(SCRAPE, client.request_text(request)).await??;
        match text.contains("kinform_") {
            true => Ok(()),
            false => Err("the metrics have none of kinform".into()),
        }
    }

    async fn send(&mut self, command: Command) -> Result<(), Failure> {
        let line = format!("{}\n", serde_json::to_string(&command)?);
        self.commands.write_all(line.as_bytes()).await?;
        Ok(self.commands.flush().await?)
    }
}
