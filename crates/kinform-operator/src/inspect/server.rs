//! The inspector of any program: a port on loopback, behind a token of this start.
//!
//! ```text
//! Inspector::serve(&factory) ─▶ 127.0.0.1, a free port ─▶ URL with the token in its fragment
//!                                     └─ to the terminal, or into a file that only its owner reads
//! ```
//!
//! The fragment of an address is not sent: the page reads the token from it, and sends it in a header.
//! INVARIANT: the token is in no log, and in no error.
//!
//! Upstream counterpart: none.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kinform::InformerFactory;
use kinform::controller::{ControllerMetrics, Reconciler};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::program::{Controller, Program};
use super::room::{PAGE, Room};
use super::shared::Shared;
use super::sight::Gate;
use crate::access::Access;
use crate::error::{Error, ErrorKind};
use crate::serve::{Bound, Handler, Limits};

/// A free port of loopback.
const ADDRESS: &str = "127.0.0.1:0";
/// The interval of what is due without a viewer.
const KEEP: Duration = Duration::from_secs(30);

/// The inspector of a program, which serves until it is stopped or dropped.
///
/// It holds the factory: an inspector that is forgotten keeps informers running.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use kinform_operator::Inspector;
/// use kinform_operator::kinform::InformerFactory;
///
/// let factory = InformerFactory::try_default().await?;
/// let inspector = Inspector::serve(&factory).await?; // tells its address on the terminal
/// // ..
/// inspector.stop().await;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it ends it"]
pub struct Inspector {
    address: SocketAddr,
    url: String,
    file: Option<PathBuf>,
    stop: CancellationToken,
    serving: Option<JoinHandle<()>>,
}

/// An inspector to be configured.
#[derive(Debug)]
#[must_use = "it does nothing before `serve`"]
pub struct InspectorBuilder {
    name: String,
    address: String,
    controllers: Vec<Controller>,
    announce: Announce,
}

/// The place where the address is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Announce {
    /// The terminal, or a file if there is none.
    Somewhere,
    /// The program tells it.
    Nowhere,
}

impl Inspector {
    /// Serves the inspector of a factory on 127.0.0.1 and a free port. Its address, with the token, is
    /// printed to the terminal; without a terminal it is written into a file with mode 0600, and the
    /// file is logged.
    ///
    /// # Errors
    /// No port can be bound, or the file cannot be written.
    ///
    /// # Cancel safety
    /// Nothing is left when dropped.
    pub async fn serve(factory: &InformerFactory) -> Result<Self, Error> {
        Self::builder().serve(factory).await
    }

    /// An inspector to be configured.
    pub fn builder() -> InspectorBuilder {
        let program = std::env::args_os().next().unwrap_or_default();
        let name = Path::new(&program).file_stem().unwrap_or_default();
        InspectorBuilder {
            name: name.to_string_lossy().into_owned(),
            address: ADDRESS.to_owned(),
            controllers: Vec::new(),
            announce: Announce::Somewhere,
        }
    }

    /// The address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the page with the token in its fragment. Whoever has it sees everything that the
    /// program caches, but for values of Secrets: do not log it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The file that has the address, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Ends it, and waits for its tasks.
    ///
    /// # Cancel safety
    /// Once polled, it ends even if the wait is dropped.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(serving) = self.serving.take() {
            // A panic of a handler ended its own request.
            let _ = serving.await;
        }
    }
}

impl InspectorBuilder {
    /// Sets the name of the program. Default: that of its file.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the port of 127.0.0.1. Default: a free one.
    pub fn port(mut self, port: u16) -> Self {
        self.address = format!("127.0.0.1:{port}");
        self
    }

    /// Shows a controller.
    pub fn controller(self, controller: &Reconciler) -> Self {
        let (name, workers) = (controller.name().to_owned(), controller.workers());
        self.metrics(name, workers, controller.metrics())
    }

    /// Shows a controller by its numbers, under this name.
    pub fn metrics(
        mut self,
        name: impl Into<String>,
        workers: usize,
        metrics: ControllerMetrics,
    ) -> Self {
        self.controllers.push(Controller {
            name: name.into(),
            workers,
            metrics,
        });
        self
    }

    /// Tells the address nowhere: the program does, from [`Inspector::url`].
    pub fn quiet(mut self) -> Self {
        self.announce = Announce::Nowhere;
        self
    }

    /// Serves the inspector: see [`Inspector::serve`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn serve(self, factory: &InformerFactory) -> Result<Inspector, Error> {
        let failed = |what: &str| {
            let message = format!("cannot serve the inspector: {what}");
            Error::new(ErrorKind::Config, message)
        };
        let (gate, token) =
            Gate::with_token().map_err(|_| failed("the system has no random bytes"))?;
        let bound = Bound::bind(&self.address).await;
        let bound = bound.map_err(|error| failed(&error.to_string()).with_cause(error))?;
        let address = bound.address();
        let url = format!("http://{address}{PAGE}#token={token}");
        let file = match self.announce {
            Announce::Nowhere => None,
            Announce::Somewhere => {
                announce(&url).map_err(|error| failed(&error.to_string()).with_cause(error))?
            }
        };
        let controllers = self.controllers;
        let program = Program {
            name: self.name,
            factory: factory.clone(),
            controllers: Arc::new(move || controllers.clone()),
            lease: Arc::new(|| None),
            share: None,
        };
        let stop = CancellationToken::new();
        let serving = serve(Shared::new(program, gate), bound, stop.clone());
        Ok(Inspector {
            address,
            url,
            file,
            stop,
            serving: Some(tokio::spawn(serving)),
        })
    }
}

/// Serves until the stop.
async fn serve(shared: Arc<Shared>, bound: Bound, stop: CancellationToken) {
    let served = bound.serve(
        None,
        Limits::inspector(),
        Room::handler(&shared),
        stop.clone(),
    );
    futures::join!(served, keep(&shared, &stop));
    shared.versions.clear();
}

async fn keep(shared: &Shared, stop: &CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(KEEP) => shared.keep(),
        }
    }
}

/// The inspector of an operator: a handler, and a task that has to run beside it.
pub(crate) fn reviewed(
    program: Program,
    access: Access,
    stop: CancellationToken,
) -> (Handler, impl Future<Output = ()> + Send + 'static) {
    let shared = Shared::new(program.clone(), Gate::with_reviews(access, program));
    let handler = Room::handler(&shared);
    let keeping = async move {
        keep(&shared, &stop).await;
        shared.versions.clear();
    };
    (handler, keeping)
}

/// Prints the address to the terminal, or writes it into a file that only its owner reads.
fn announce(url: &str) -> std::io::Result<Option<PathBuf>> {
    let mut terminal = std::io::stderr();
    if terminal.is_terminal() {
        writeln!(terminal, "inspector: {url}")?;
        return Ok(None);
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folder = folder.filter(|folder| folder.is_dir());
    let folder = folder.unwrap_or_else(std::env::temp_dir);
    let (process, mut number) = (std::process::id(), 0);
    loop {
        let path = folder.join(format!("kinform-inspector-{process}-{number}.url"));
        match write_new(&path, url) {
            Ok(()) => {
                tracing::info!(file = %path.display(), "serving the inspector; its address is in the file");
                return Ok(Some(path));
            }
            // BOUND: files of an earlier process of this number.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 100 => {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Writes a file that was not there: nobody else can have opened it, or have put a link in its place.
fn write_new(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(file, "{text}")
}

impl Drop for Inspector {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(file) = &self.file {
            // It may be gone.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_address_is_new_and_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.url");
        write_new(&path, "http://x#token=t").unwrap();
        assert_eq!(
            std::fs::read_to_string(&path).unwrap(),
            "http://x#token=t\n"
        );
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let again = write_new(&path, "y").unwrap_err();
        assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
    }
}
