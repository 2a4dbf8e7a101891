//! The body of a reply: whole, or streamed.
//!
//! ```text
//! Handler → Body::Whole | Body::Streamed ──▶ Sent (what hyper reads)
//! ```
//!
//! A streamed body counts as a request under way until it ends, so that its connection makes room for
//! no other. It ends when the server stops.
//!
//! Upstream counterpart: Go's `http.Flusher`.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use http_body::{Frame, SizeHint};
use tokio_util::sync::CancellationToken;

use super::seats::UnderWay;

/// The body of a reply.
pub(crate) enum Body {
    Whole(Bytes),
    /// Chunks as they come. The stream is read only as fast as the client reads.
    Streamed(BoxStream<'static, Bytes>),
}

impl Body {
    /// The bytes of a whole body; none of a stream.
    #[cfg(feature = "webhook")]
    pub(crate) fn whole(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Streamed(_) => &[],
        }
    }
}

impl From<Bytes> for Body {
    fn from(whole: Bytes) -> Self {
        Self::Whole(whole)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.len()),
            Self::Streamed(_) => f.write_str("Streamed"),
        }
    }
}

/// A body on its way.
pub(super) enum Sent {
    Whole(Option<Bytes>),
    Streamed(
        BoxStream<'static, Bytes>,
        #[expect(dead_code, reason = "counts until dropped")] UnderWay,
    ),
}

impl Sent {
    /// The body, which counts as under way while it is streamed.
    pub(super) fn new(body: Body, under_way: UnderWay, stop: &CancellationToken) -> Self {
        match body {
            Body::Whole(bytes) => Self::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())),
            Body::Streamed(chunks) => {
                let stop = stop.clone().cancelled_owned();
                Self::Streamed(chunks.take_until(stop).boxed(), under_way)
            }
        }
    }
}

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Streamed(chunks, _) => chunks.poll_next_unpin(cx),
        };
        next.map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Streamed(..) => SizeHint::default(),
        }
    }
}
