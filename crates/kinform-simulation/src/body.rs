//! The body of an answer on its way to a process.
//!
//! ```text
//! pieces ─▶ cut? dead? one way? frozen? deaf? ─▶ a hop, or byte by byte ─▶ the process
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use kinform_testkit::ReplyBody;
use tokio::sync::watch;

use crate::line::{Line, reset};
use crate::script::Watched;

/// The time from one byte to the next of a body that trickles.
const TRICKLE: Duration = Duration::from_secs(1);

struct Passage {
    line: Arc<Line>,
    connection: u64,
    is_watch: bool,
    /// The type that it watches.
    watched: Option<Watched>,
    cuts: watch::Receiver<u64>,
    chunks: BoxStream<'static, Result<Bytes, io::Error>>,
    waiting: Bytes,
}

/// The same bytes, later.
pub(crate) fn through(
    line: Arc<Line>,
    (connection, is_watch, path): (u64, bool, &str),
    body: ReplyBody,
) -> ReplyBody {
    let mut cuts = line.cuts.subscribe();
    cuts.mark_unchanged();
    let passage = Passage {
        line,
        connection,
        is_watch,
        watched: Watched::of(path).filter(|_| is_watch),
        cuts,
        chunks: body.into_data_stream().boxed(),
        waiting: Bytes::new(),
    };
    let frames = stream::unfold(Some(passage), |passage| async {
        let mut passage = passage?;
        let mut cuts = passage.cuts.clone();
        let next = tokio::select! {
            biased;
            _ = cuts.changed() => Some(Err(reset())),
            next = passage.next() => next,
        };
        match next? {
            Ok(piece) => Some((Ok(Frame::data(piece)), Some(passage))),
            Err(error) => Some((Err(error), None)),
        }
    });
    StreamBody::new(frames.boxed())
}

impl Passage {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while self.waiting.is_empty() {
            match self.chunks.next().await? {
                Ok(chunk) => self.waiting = chunk,
                Err(error) => return Some(Err(error)),
            }
        }
        self.line.heard(self.connection).await;
        if let Some(watched) = self.watched {
            self.line.hears_of(watched).await;
        }
        if *self.line.trickles.borrow() {
            tokio::time::sleep(TRICKLE).await;
            return Some(Ok(self.waiting.split_to(1)));
        }
        if self.is_watch {
            self.line.shared.hop().await;
        }
        Some(Ok(std::mem::take(&mut self.waiting)))
    }
}
