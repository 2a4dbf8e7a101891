//! A source that records what another one answers.
//!
//! ```text
//! informer → list │ watch → Recorder → the source → Body ─▶ the same body, noted piece by piece
//! ```
//!
//! Requests and bytes are handed on as they are: same options, same pieces, same errors. A note costs
//! a clock reading and a place in a queue. The informer's request that is dropped is noted, too.
//!
//! Upstream counterpart: none.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::BoxFuture;
use kinform_api::{ListOptions, Scope, WatchOptions};
use kinform_core::recording::{Asked, DigestKey, Subject};
use kube_client::Client;

use super::body::{Exchange, Recorded};
use super::failure;
use super::writer::{Noted, RecorderStats, Tape};
use crate::env::{Env, secret, wall_clock};
use crate::error::{Error, ErrorKind, SourceError};
use crate::source::{Body, ListerWatcher, ResourceInfo};

/// A source that hands on another one's answers, and writes them to a file.
///
/// Values of Secrets and of the annotation `kubectl.kubernetes.io/last-applied-configuration` are
/// replaced by digests under a random key, which is forgotten. A slow or failing disk delays nobody:
/// the recording then has a gap, or ends.
///
/// # Examples
///
/// ```no_run
/// # async fn example(client: kube_client::Client) -> Result<(), kinform::Error> {
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::Pod;
/// use kinform::recording::Recorder;
/// use kinform::source::HttpSource;
/// use kinform::{GroupVersionResource, InformerFactory, ResourceInfo, Scope};
///
/// let pods = GroupVersionResource::new("", "v1", "pods");
/// let source = HttpSource::new(client, ResourceInfo::new(pods, "Pod", Scope::Namespaced));
/// let recorder = Arc::new(Recorder::create(Arc::new(source), "pods.kinrec")?);
/// let source = Arc::clone(&recorder);
/// let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&source) as _).build();
/// let pods = factory.informer::<Pod>();
/// factory.start()?;
/// pods.synced().await?;
/// factory.shutdown().await;
/// recorder.finish().await?;
/// # Ok(())
/// # }
/// ```
///
/// Upstream counterpart: none.
pub struct Recorder {
    source: Arc<dyn ListerWatcher>,
    tape: Arc<Tape>,
    env: Env,
    exchanges: AtomicU32,
}

impl Recorder {
    /// Records the answers of `source` in a new file that its owner alone may read.
    ///
    /// # Errors
    /// A file of this name exists, or it cannot be created.
    pub fn create(source: Arc<dyn ListerWatcher>, path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| {
            let message = format!("the recording {}: {error}", path.display());
            Error::new(ErrorKind::Config, message).with_cause(error)
        })?;
        Self::to_writer(source, file)
    }

    /// Records the answers of `source` to any writer, from a thread that may block.
    ///
    /// # Errors
    /// The system has no random bytes for a key, or no thread.
    pub fn to_writer(
        source: Arc<dyn ListerWatcher>,
        out: impl Write + Send + 'static,
    ) -> Result<Self, Error> {
        let subject = subject(source.resource());
        let tape = Tape::start(&subject, DigestKey::new(secret()?), out)?;
        Ok(Self {
            source,
            tape: Arc::new(tape),
            env: Env::system(),
            exchanges: AtomicU32::new(0),
        })
    }

    /// The same, with the clock of `env`. Its start is the start of the recording.
    #[must_use]
    pub fn with_env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// The numbers so far.
    pub fn stats(&self) -> RecorderStats {
        self.tape.stats()
    }

    /// Ends the file, and waits until it is written. Answers are handed on after it, too, but no longer
    /// recorded. Without it the file ends with the recorder and the bodies that it handed on.
    ///
    /// # Errors
    /// The file could not be written to its end.
    ///
    /// # Cancel safety
    /// The file is ended even if the wait is dropped.
    pub async fn finish(&self) -> Result<RecorderStats, Error> {
        let stats = self.tape.finish().await;
        match &stats.failure {
            None => Ok(stats),
            Some(failure) => {
                let message = format!("the recording could not be written: {failure}");
                Err(Error::new(ErrorKind::Stopped, message))
            }
        }
    }

    fn ask(&self, asked: Asked) -> Exchange {
        let number = self.exchanges.fetch_add(1, Ordering::Relaxed);
        Exchange::begin(&self.tape, &self.env, number, asked)
    }
}

/// Notes the answer to a request.
fn answered(
    mut exchange: Exchange,
    answer: Result<Body, SourceError>,
) -> Result<Body, SourceError> {
    match answer {
        Ok(body) => {
            let encoding = body.encoding();
            exchange.note(Noted::Opened(encoding));
            let chunks = Recorded::new(body.into_chunks(), exchange);
            Ok(Body::new(encoding, chunks))
        }
        Err(error) => {
            exchange.end(Noted::Refused(Box::new(failure::written(&error))));
            Err(error)
        }
    }
}

fn subject(info: &ResourceInfo) -> Subject {
    let of = &info.resource;
    Subject {
        group: of.group.clone(),
        version: of.version.clone(),
        resource: of.resource.clone(),
        kind: info.kind.clone(),
        is_namespaced: info.scope == Scope::Namespaced,
        namespace: info.namespace.clone(),
        label_selector: info.label_selector.clone(),
        field_selector: info.field_selector.clone(),
        started: wall_clock().to_string(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

impl ListerWatcher for Recorder {
    fn list<'a>(&'a self, options: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        Box::pin(async move {
            let exchange = self.ask(Asked::List(options.clone()));
            answered(exchange, self.source.list(options).await)
        })
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        Box::pin(async move {
            let exchange = self.ask(Asked::Watch(options.clone()));
            answered(exchange, self.source.watch(options).await)
        })
    }

    fn resource(&self) -> &ResourceInfo {
        self.source.resource()
    }

    fn client(&self) -> Option<Client> {
        self.source.client()
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder")
            .field("resource", self.source.resource())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
