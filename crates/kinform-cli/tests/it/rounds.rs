//! The output of `kinform watch -o json` under faults: the lines add up to the server's objects,
//! and no line contradicts an earlier one. Both ends are the real binary, with a bad network
//! between.
//!
//! A failing round prints its seed and its plan; `KINFORM_SEED=<seed>` replays it alone.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures::future::BoxFuture;
use kinform_testkit::Loss;
use kinform_testkit::Network;
use kinform_testkit::Proxy;
use kinform_testkit::checks::event_checker::EventChecker;
use kinform_testkit::checks::rounds::{FaultPlan, Pace, Reach, Round};
use kinform_testkit::checks::stage::{Stage, StageError};
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

/// Events that the server remembers.
const HISTORY: usize = 200;

/// `kinform serve`, behind a proxy. Dropping it kills it.
struct Served {
    _server: Child,
    proxy: Proxy,
    config: Config,
}

fn kinform(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kinform"));
    command
        .args(arguments)
        .kill_on_drop(true)
        .stdin(Stdio::null());
    command
}

impl Served {
    /// Starts a server and writes a kubeconfig that leads through the proxy to `directory`.
    async fn start(directory: &Path) -> Result<Self, StageError> {
        let history = HISTORY.to_string();
        let direct = directory.join("direct");
        let path = direct.to_str().ok_or("the path is no text")?;
        let mut server = kinform(&["serve", "--http", "--history", &history])
            .args(["--bookmark-period", "200ms", "--write-kubeconfig", path])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut told = BufReader::new(server.stderr.take().ok_or("no stderr")?).lines();
        while !direct.exists() {
            // The file appears whole when the server answers; each line is a chance to look.
            let line = tokio::time::timeout(Duration::from_secs(60), told.next_line()).await??;
            if line.is_none() {
                return Err("kinform serve ended".into());
            }
        }
        tokio::spawn(async move { while let Ok(Some(_)) = told.next_line().await {} });
        let kubeconfig = Kubeconfig::read_from(&direct)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        let authority = config
            .cluster_url
            .authority()
            .ok_or("the server has no address")?;
        let proxy = Proxy::start(authority.as_str().parse()?).await?;
        let text = std::fs::read_to_string(&direct)?;
        let text = text.replace(authority.as_str(), &proxy.address().to_string());
        std::fs::write(directory.join("proxied"), text)?;
        Ok(Self {
            _server: server,
            proxy,
            config,
        })
    }
}

impl Stage for Served {
    fn network(&self) -> &dyn Network {
        &self.proxy
    }

    fn direct(&self) -> Result<Client, StageError> {
        Ok(Client::try_from(self.config.clone())?)
    }

    fn history(&self) -> Option<usize> {
        Some(HISTORY)
    }

    fn restart(&mut self, _: Loss) -> BoxFuture<'_, Result<(), StageError>> {
        Box::pin(async { Err("this server is not restarted".into()) })
    }
}

async fn round(plan: &FaultPlan) -> Result<(), StageError> {
    let directory = tempfile::tempdir()?;
    let served = Served::start(directory.path()).await?;
    let pace = Pace::Live(Duration::from_secs(3));
    let mut round = Round::begin(served, plan.seed, pace).await?;
    let mut watch = kinform(&[
        "watch",
        "configmaps",
        "-A",
        "-o",
        "json",
        "--silence-limit",
        "1s",
    ])
    .env("KUBECONFIG", directory.path().join("proxied"))
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()?;
    let witness = EventChecker::new("kinform watch");
    let (hearing, output) = (witness.clone(), watch.stdout.take().ok_or("no stdout")?);
    let reader = tokio::spawn(async move {
        let mut lines = BufReader::new(output).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            hearing.hear_line(&line);
        }
    });
    let mut errors = watch.stderr.take().ok_or("no stderr")?;
    let errors = tokio::spawn(async move {
        let mut text = String::new();
        let _ = errors.read_to_string(&mut text).await;
        text
    });
    let limit = Duration::from_secs(60);
    let done = async {
        // Before the first reply it gives up after 10 s: trouble begins when it has begun.
        witness.synced(limit).await?;
        round.perform(&plan.acts).await?;
        round.settle(&[&witness], limit).await
    };
    let done = done.await;
    watch.kill().await?;
    reader.await?;
    let errors = errors.await?;
    done.map_err(|why| format!("{why}\nits stderr:\n{errors}").into())
}

/// Runs the rounds of these seeds, or the one that the environment asks for.
fn rounds(seeds: Range<u64>) {
    let asked = std::env::var("KINFORM_SEED").ok();
    let asked: Option<u64> = asked.map(|seed| seed.parse().expect("KINFORM_SEED is a number"));
    let mut failures = String::new();
    for seed in seeds.filter(|seed| asked.is_none_or(|asked| asked == *seed)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let plan = FaultPlan::new(seed, Reach::Network);
        if let Err(why) = runtime.block_on(round(&plan)) {
            writeln!(failures, "\n{plan}\n{why}\nreplay with KINFORM_SEED={seed}").unwrap();
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

// Twenty rounds, in four tests that run at once: most of a round is waiting.

#[test]
fn five_rounds_through_a_bad_network_draw_the_picture() {
    rounds(3000..3005);
}

#[test]
fn five_more_rounds_draw_the_picture() {
    rounds(3005..3010);
}

#[test]
fn yet_five_more_rounds_draw_the_picture() {
    rounds(3010..3015);
}

#[test]
fn the_last_five_rounds_draw_the_picture() {
    rounds(3015..3020);
}
