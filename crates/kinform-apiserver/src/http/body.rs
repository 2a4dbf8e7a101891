//! The body of a reply: empty, some bytes, or a stream of chunks.
//!
//! ```text
//! Status, object ──▶ Body::full    list, watch ──▶ Body::stream ──chunks──▶ socket or caller
//! ```
//!
//! Sockets and callers in the process get the same body, so both see the same bytes in the same
//! chunks. A stream produces its next chunk only on demand: backpressure is the caller's pace, and
//! dropping the body ends its producer. An error in a stream breaks off the connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, Stream, StreamExt};
use http_body::{Frame, SizeHint};
use kinform_api::Status;

/// The reason why a body broke off. Only injected faults break off a body.
#[derive(Debug, thiserror::Error)]
#[error("the reply was cut off on purpose")]
pub struct CutOff;

/// The body of a reply.
pub struct Body(Kind);

enum Kind {
    Full(Option<Bytes>),
    Stream(BoxStream<'static, Result<Bytes, CutOff>>),
}

impl Body {
    /// Returns a body of these bytes.
    #[must_use]
    pub fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Kind::Full(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }

    /// Returns a body that is produced while it is read.
    #[must_use]
    pub fn stream(chunks: impl Stream<Item = Result<Bytes, CutOff>> + Send + 'static) -> Self {
        Self(Kind::Stream(chunks.boxed()))
    }

    /// Returns the bytes, if the body is not a stream.
    #[must_use]
    pub fn as_full(&self) -> Option<&[u8]> {
        match &self.0 {
            Kind::Full(bytes) => Some(bytes.as_deref().unwrap_or_default()),
            Kind::Stream(_) => None,
        }
    }

    /// Reads the whole body. A watch without a timeout never ends.
    ///
    /// # Errors
    /// The body was cut off.
    ///
    /// # Cancel safety
    /// The body and the bytes read so far are lost.
    pub async fn collect(mut self) -> Result<Vec<u8>, CutOff> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next().await {
            all.extend_from_slice(&chunk?);
        }
        Ok(all)
    }
}

impl Stream for Body {
    type Item = Result<Bytes, CutOff>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.get_mut().0 {
            Kind::Full(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Kind::Stream(chunks) => chunks.as_mut().poll_next(cx),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        self.poll_next(cx)
            .map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Kind::Stream(_) => SizeHint::new(),
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Full(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Kind::Stream(_) => f.write_str("Body(stream)"),
        }
    }
}

/// The body of a request that may still be on its way.
pub(crate) type Incoming<'a> = BoxFuture<'a, Result<Bytes, Status>>;
