//! The start that all examples share: a client, a place for lines, a token that ends the example.
//!
//! ```text
//! kubeconfig's context ───────────┐
//! TestServer, played by a scene ──┴─▶ Start ─▶ run of an example ─▶ lines ─▶ terminal | test
//! ```
//!
//! On a cluster the example runs until ctrl-C. On the embedded server a scene (`scenes.rs`) makes the
//! changes of others; when it is over, the example is asked to end.
//!
//! Upstream counterpart: none.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kinform::source::{ConfigOverrides, client_for, load_config};
use kinform::{CancellationToken, create_or_update};
use kinform_testkit::TestServer;
use kube::{Client, Config, CustomResourceExt};
use tokio::sync::watch;

use crate::{Example, Place};

/// BOUND: the time of an example on the embedded server.
const LIMIT: Duration = Duration::from_secs(60);
/// BOUND: the time that a scene waits for a line.
const PATIENCE: Duration = Duration::from_secs(15);

/// The error of an example.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The equipment of an example.
#[derive(Clone)]
pub struct Start {
    /// The configuration of the cluster.
    pub config: Config,
    /// A client for it.
    pub client: Client,
    /// The place for lines; a program of your own prints.
    pub out: Out,
    /// Ends the example when it is cancelled.
    pub stop: CancellationToken,
    /// Cancelled when the scene lets the example go on; on a cluster from the beginning.
    goes_on: CancellationToken,
}

impl std::fmt::Debug for Start {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Start").finish_non_exhaustive()
    }
}

impl Start {
    /// Installs the definition of a custom resource, or brings it up to date.
    pub async fn install<K: CustomResourceExt>(&self) -> Result<(), kinform::Error> {
        let wanted = K::crd();
        let change = |found: &mut CustomResourceDefinition| found.spec = wanted.spec.clone();
        create_or_update(&self.client, "kinform-examples", K::crd(), change).await?;
        self.out.line(format!("installed {}", K::crd_name()));
        Ok(())
    }

    /// Waits for what others do meanwhile on the embedded server; on a cluster it does not wait.
    pub async fn pause(&self) {
        self.goes_on.cancelled().await;
    }
}

/// The place for an example's lines. Clones are the same place.
#[derive(Clone)]
pub struct Out(Arc<Lines>);

struct Lines {
    writer: Mutex<Box<dyn Write + Send>>,
    // BOUND: the lines of one example.
    said: watch::Sender<Vec<String>>,
}

impl std::fmt::Debug for Out {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Out").field(&self.lines().len()).finish()
    }
}

impl Out {
    /// Lines that go to a writer.
    pub fn to(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Lines {
            writer: Mutex::new(Box::new(writer)),
            said: watch::Sender::default(),
        }))
    }

    /// Writes a line. A reader that has gone is no error.
    pub fn line(&self, line: impl Into<String>) {
        let line = line.into();
        let writer = &self.0.writer;
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(writer, "{line}").and_then(|()| writer.flush());
        self.0.said.send_modify(|said| said.push(line));
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.0.said.borrow().clone()
    }
}

/// The embedded server on which an example runs, as its scene sees it.
#[derive(Debug)]
pub struct Stage {
    /// The server.
    pub api: TestServer,
    /// The lines of the example.
    pub out: Out,
    begun: CancellationToken,
    goes_on: CancellationToken,
}

impl Stage {
    /// Lets the example begin: what was created before is there when it starts.
    pub(crate) fn begin(&self) {
        self.begun.cancel();
    }

    /// Lets the example go on after its pause.
    pub(crate) fn go_on(&self) {
        self.goes_on.cancel();
    }

    /// Says what the scene does, in a line that differs from the example's own.
    pub(crate) fn tell(&self, line: &str) {
        self.out.line(format!("> {line}"));
    }

    /// Waits for a line with this text, and returns it.
    pub(crate) async fn heard(&self, text: &str) -> Result<String, Failure> {
        self.heard_times(1, text).await
    }

    /// Waits until as many lines have this text, and returns the last one.
    pub(crate) async fn heard_times(&self, times: usize, text: &str) -> Result<String, Failure> {
        let mut said = self.out.0.said.subscribe();
        let nth = |said: &Vec<String>| {
            let mut all = said.iter().filter(|line| line.contains(text));
            all.nth(times - 1).cloned()
        };
        let heard = said.wait_for(|said| nth(said).is_some());
        let heard = tokio::time::timeout(PATIENCE, heard).await;
        let heard = heard.ok().and_then(Result::ok);
        let missing = || format!("no line has {text:?}: {:#?}", self.out.lines());
        Ok(heard.and_then(|said| nth(&said)).ok_or_else(missing)?)
    }
}

/// The changes that others make on the embedded server while an example runs.
pub type Scene = for<'a> fn(&'a Stage) -> BoxFuture<'a, Result<(), Failure>>;

/// Runs an example on an embedded server, which is returned for questions, unless it needs none.
///
/// # Errors
/// The example or its scene failed, or took longer than a minute.
///
/// # Cancel safety
/// Dropping it ends the example and the server.
pub async fn on_embedded(example: &Example, out: Out) -> Result<Option<TestServer>, Failure> {
    let scene = match example.place {
        Place::Alone(run) => {
            tokio::time::timeout(LIMIT, run(out)).await??;
            return Ok(None);
        }
        Place::Cluster { scene, .. } => scene,
    };
    let stage = Stage {
        api: TestServer::start().await?,
        out: out.clone(),
        begun: CancellationToken::new(),
        goes_on: CancellationToken::new(),
    };
    let start = Start {
        config: stage.api.config(),
        client: stage.api.client(),
        out,
        stop: CancellationToken::new(),
        goes_on: stage.goes_on.clone(),
    };
    let stop = start.stop.clone();
    let running = async {
        stage.begun.cancelled().await;
        example.run(start).await
    };
    let playing = async {
        scene(&stage).await?;
        stage.begin();
        stop.cancel();
        Ok(())
    };
    tokio::time::timeout(LIMIT, async { futures::try_join!(running, playing) }).await??;
    Ok(Some(stage.api))
}

/// Runs an example on the cluster of a kubeconfig's context, until it ends or `stop` is cancelled.
///
/// # Errors
/// There is no such context, the example needs no cluster, or it failed.
///
/// # Cancel safety
/// Dropping it drops the example.
pub async fn on_cluster(
    example: &Example,
    context: String,
    out: Out,
    stop: CancellationToken,
) -> Result<(), Failure> {
    if let Place::Alone(_) = example.place {
        return Err(format!("{} runs without a cluster: no --context", example.name).into());
    }
    let mut overrides = ConfigOverrides::default();
    overrides.context = Some(context);
    let config = load_config(&overrides).await?;
    let client = client_for(config.clone(), &Default::default())?;
    let goes_on = CancellationToken::new();
    goes_on.cancel();
    let start = Start {
        config,
        client,
        out,
        stop,
        goes_on,
    };
    example.run(start).await
}
