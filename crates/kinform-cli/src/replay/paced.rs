//! The source of `--speed max`: a recording, as fast as its handlers hear it.
//!
//! ```text
//! ReplaySource → the next bytes ──has each handler taken all?──▶ informer → handlers
//! ```
//!
//! A handler that is far behind its informer hears differences in place of single changes, and one that
//! has not begun hears the objects as they are when it begins. So the next bytes wait until each handler
//! has taken everything before. An informer has applied all bytes that it got when it asks for more: so
//! nothing else is under way.
//!
//! Upstream counterpart: none.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use kinform::Informer;
use kinform::recording::ReplaySource;
use kinform::source::{Body, ListerWatcher, ResourceInfo, SourceError};
use kinform_api::{ListOptions, WatchOptions};
use kube_core::DynamicObject;

/// Looks at the handlers, each after a turn of the other tasks: most handlers take a batch within a few.
const LOOKS: u32 = 64;
/// The time from one look at the handlers to the next, after that.
const PAUSE: Duration = Duration::from_millis(1);

/// A recording that is sent as fast as an informer's handlers hear it.
#[derive(Debug)]
pub(super) struct Paced {
    source: Arc<ReplaySource>,
    // Holds this source in turn: both live as long as the program.
    informer: OnceLock<Informer<DynamicObject>>,
}

impl Paced {
    /// As fast as the source, until an informer is named.
    pub(super) fn new(source: Arc<ReplaySource>) -> Self {
        Self {
            source,
            informer: OnceLock::new(),
        }
    }

    /// Waits for the handlers of this informer from now on.
    pub(super) fn wait_for(&self, informer: &Informer<DynamicObject>) {
        self.informer.get_or_init(|| informer.clone());
    }

    fn paced(&self, body: Body) -> Body {
        let Some(informer) = self.informer.get().cloned() else {
            return body;
        };
        let encoding = body.encoding();
        let chunks = body.into_chunks().then(move |chunk| {
            let informer = informer.clone();
            async move {
                all_is_taken(&informer).await;
                chunk
            }
        });
        Body::new(encoding, chunks)
    }
}

/// Waits until each handler has taken all batches. Before the first list is whole there is nothing to
/// take.
async fn all_is_taken(informer: &Informer<DynamicObject>) {
    let mut looks = 0;
    while informer.has_synced() && informer.stats().handler_lag > 0 {
        looks += 1;
        match looks {
            ..=LOOKS => tokio::task::yield_now().await,
            _ => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl ListerWatcher for Paced {
    fn list<'a>(&'a self, options: &'a ListOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        Box::pin(async { Ok(self.paced(self.source.list(options).await?)) })
    }

    fn watch<'a>(&'a self, options: &'a WatchOptions) -> BoxFuture<'a, Result<Body, SourceError>> {
        Box::pin(async { Ok(self.paced(self.source.watch(options).await?)) })
    }

    fn resource(&self) -> &ResourceInfo {
        self.source.resource()
    }
}
