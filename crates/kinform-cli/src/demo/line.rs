//! A client's line to the server, which can be cut and mended.
//!
//! ```text
//! request ──whole?──▶ the client below ──▶ reply
//!            └cut──▶ an error at once; a request that is on its way fails, too
//! ```
//!
//! Replies that have begun, watches for example, are not ended.

use kinform::source::{Transport, client_through};
use kube_client::Client;
use tokio::sync::watch;
use tower::layer::layer_fn;
use tower::{BoxError, ServiceExt as _};

/// The line; whole at first. Clones are the same line.
#[derive(Debug, Clone)]
pub(crate) struct Line(watch::Sender<bool>);

impl Default for Line {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Line {
    /// A client whose requests pass the line, then `client`.
    pub(crate) fn over(&self, client: &Client) -> Client {
        let line = self.clone();
        client_through(
            client,
            layer_fn(move |below: Transport| {
                let line = line.clone();
                tower::service_fn(move |request| {
                    let (line, below) = (line.clone(), below.clone());
                    async move {
                        tokio::select! {
                            biased;
                            () = line.when_cut() => Err(BoxError::from("the line is cut")),
                            reply = below.oneshot(request) => reply,
                        }
                    }
                })
            }),
        )
    }

    /// Cuts it.
    pub(crate) fn cut(&self) {
        self.0.send_replace(true);
    }

    /// Makes it whole again.
    pub(crate) fn mend(&self) {
        self.0.send_replace(false);
    }

    /// Returns whether it is cut.
    pub(crate) fn is_cut(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is cut.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn when_cut(&self) {
        let mut cut = self.0.subscribe();
        // The sender is in `self`.
        let _ = cut.wait_for(|is_cut| *is_cut).await.map(drop);
    }
}
