//! A source that answers from a recording.
//!
//! ```text
//! file → Recording        request → Turns → exchange → Body, its chunks at their times │ SourceError
//! ```
//!
//! Time begins with the first request. An answer never comes before its recorded time, and as soon as it
//! is asked for if that has passed: a replay that fell behind catches up.
//! Past the last answer requests wait for ever, as at a server that fell silent: see
//! [`ReplayState::Ended`].
//!
//! Upstream counterpart: none.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use kinform_api::{GroupVersionResource, ListOptions, Scope, WatchOptions};
use kinform_core::recording::{Asked, Reading, Recording};

use super::played::{Pace, Played, ReplayState, ReplayStats};
use super::player;
use crate::env::Env;
use crate::error::{Error, ErrorKind, SourceError};
use crate::source::{Body, ListerWatcher, ResourceInfo};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// A source that answers from a recording, as the recorded server did.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), kinform::Error> {
/// use std::sync::Arc;
///
/// use k8s_openapi::api::core::v1::Pod;
/// use kinform::InformerFactory;
/// use kinform::env::Env;
/// use kinform::recording::ReplaySource;
///
/// let env = Env::system().with_speed(10.0); // the clock of both
/// let source = ReplaySource::open("pods.kinrec").await?.with_env(env.clone());
/// let source = Arc::new(source);
/// let replayed = Arc::clone(&source);
/// let factory = InformerFactory::with_sources(move |_, _| Arc::clone(&replayed) as _);
/// let factory = factory.env(env).build();
/// let pods = factory.informer::<Pod>();
/// factory.start()?;
/// source.ended().await;
/// println!("{} pods", pods.store().len());
/// # Ok(())
/// # }
/// ```
///
/// Upstream counterpart: none.
pub struct ReplaySource {
    info: ResourceInfo,
    played: Arc<Played>,
}

impl ReplaySource {
    /// Reads a recording. One that was cut off or damaged is used as far as it is whole.
    ///
    /// # Errors
    /// The file cannot be read, or is no recording.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        let shown = path.display().to_string();
        let reading = tokio::task::spawn_blocking(move || read(&path));
        let read = reading
            .await
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Invalid, "reading it panicked")));
        match read {
            Ok(recording) => Ok(Self::new(recording)),
            Err(error) => {
                let message = format!("the recording {shown}: {error}");
                Err(Error::new(ErrorKind::Invalid, message).with_cause(error))
            }
        }
    }

    /// Replays a recording.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let subject = recording.subject();
        let (group, version) = (subject.group.as_str(), subject.version.as_str());
        let resource = GroupVersionResource::new(group, version, subject.resource.as_str());
        let scope = match subject.is_namespaced {
            true => Scope::Namespaced,
            false => Scope::Cluster,
        };
        let info = ResourceInfo {
            namespace: subject.namespace.clone(),
            label_selector: subject.label_selector.clone(),
            field_selector: subject.field_selector.clone(),
            ..ResourceInfo::new(resource, subject.kind.as_str(), scope)
        };
        let played = Arc::new(Played::new(recording));
        Self { info, played }
    }

    /// The same, at another pace, from the start.
    #[must_use]
    pub fn with_pace(self, pace: Pace) -> Self {
        self.change(|played| played.with_pace(pace))
    }

    /// The same, with the clock of `env`, from the start. An informer whose factory has the same `env`
    /// behaves at any speed as the recorded one.
    #[must_use]
    pub fn with_env(self, env: Env) -> Self {
        self.change(|played| played.with_env(env))
    }

    fn change(self, change: impl FnOnce(Played) -> Played) -> Self {
        let Self { info, played } = self;
        // Only a body that is still read shares it, and keeps the pace at which it began.
        let played = match Arc::try_unwrap(played) {
            Ok(played) => Arc::new(change(played)),
            Err(shared) => shared,
        };
        Self { info, played }
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        &self.played.recording
    }

    /// The numbers of this replay.
    pub fn stats(&self) -> ReplayStats {
        self.played.stats()
    }

    /// Waits until the replay has [ended](ReplayState::Ended). What it sent last is then on its way:
    /// handlers may not have heard it.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn ended(&self) {
        let mut progress = self.played.progress();
        // The sender lives in this source: it is not closed.
        let _ = progress
            .wait_for(|state| *state == ReplayState::Ended)
            .await;
    }

    async fn answer(&self, asked: Asked) -> Result<Body, SourceError> {
        let Some(number) = self.played.take(&asked) else {
            self.played.end();
            return std::future::pending().await;
        };
        player::answer(Arc::clone(&self.played), number).await
    }
}

fn read(path: &Path) -> Result<Recording, Error> {
    let failed = |error: io::Error| {
        Error::new(ErrorKind::Invalid, format!("it cannot be read: {error}")).with_cause(error)
    };
    let mut file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Error::new(ErrorKind::Invalid, "it is no file"));
    }
    let unusable = |reason| Error::new(ErrorKind::Invalid, format!("{reason}"));
    let mut reading = Reading::new();
    let mut piece = vec![0; PIECE];
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(failed)?,
        };
        if read == 0 {
            break;
        }
        reading.feed(&piece[..read]).map_err(unusable)?;
    }
    reading.finish().map_err(unusable)
}

impl ListerWatcher for ReplaySource {
    fn list<'a>(&'a self, options: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        Box::pin(self.answer(Asked::List(options.clone())))
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        Box::pin(self.answer(Asked::Watch(options.clone())))
    }

    fn resource(&self) -> &ResourceInfo {
        &self.info
    }
}

impl fmt::Debug for ReplaySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplaySource")
            .field("resource", &self.info)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
