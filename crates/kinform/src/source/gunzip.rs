//! Unpacks a gzip reply as it arrives, member after member.
//!
//! ```text
//! compressed chunks → Gunzip → chunks of at most 1 MiB
//! ```
//!
//! API servers compress large lists as one member and, from 1.37, streaming lists as one member for
//! each flush. Each flush is readable immediately, without waiting for the end of the stream.
//! INVARIANT: memory is one inflate window and the output of one piece of input, whatever the
//! ratio. Never: keeps output; a cut in the middle of a member is an error of the transport.
//!
//! Upstream counterpart: `net/http:transport.go` (`gzipReader`), which reads members the same way.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures::Stream;
use futures::stream::{self, BoxStream, StreamExt};

use crate::error::{SourceError, SourceErrorKind};

/// BOUND: input is inflated in pieces of this size; deflate grows at most 1,032 times, so one step
/// writes about 1 MiB at most. What is built from the output has limits of its own.
const PIECE_BYTES: usize = 1024;

struct Gunzip {
    input: BoxStream<'static, Result<Bytes, SourceError>>,
    chunk: Bytes,
    decoder: MultiGzDecoder<Vec<u8>>,
    started: bool,
    ended: bool,
}

/// The same bytes as `input`, unpacked.
pub(super) fn gunzip(
    input: BoxStream<'static, Result<Bytes, SourceError>>,
) -> impl Stream<Item = Result<Bytes, SourceError>> + Send {
    let start = Gunzip {
        input,
        chunk: Bytes::new(),
        decoder: MultiGzDecoder::new(Vec::new()),
        started: false,
        ended: false,
    };
    stream::unfold(start, |mut gunzip| async move {
        if gunzip.ended {
            return None;
        }
        let item = gunzip.next().await?;
        gunzip.ended = item.is_err();
        Some((item, gunzip))
    })
}

impl Gunzip {
    async fn next(&mut self) -> Option<Result<Bytes, SourceError>> {
        loop {
            while !self.chunk.is_empty() {
                if let Err(error) = self.inflate_piece() {
                    return Some(Err(broken(&error)));
                }
                if let Some(out) = self.take_output() {
                    return Some(Ok(out));
                }
            }
            match self.input.next().await {
                Some(Ok(chunk)) => {
                    self.started |= !chunk.is_empty();
                    self.chunk = chunk;
                }
                Some(Err(error)) => return Some(Err(error)),
                None => return self.finish(),
            }
        }
    }

    fn inflate_piece(&mut self) -> io::Result<()> {
        let size = self.chunk.len().min(PIECE_BYTES);
        let piece = self.chunk.split_to(size);
        self.decoder.write_all(&piece)?;
        self.decoder.flush()
    }

    fn take_output(&mut self) -> Option<Bytes> {
        let out = std::mem::take(self.decoder.get_mut());
        if out.is_empty() {
            return None;
        }
        Some(Bytes::from(out))
    }

    fn finish(&mut self) -> Option<Result<Bytes, SourceError>> {
        self.ended = true;
        if !self.started {
            return None;
        }
        match self.decoder.try_finish() {
            Ok(()) => self.take_output().map(Ok),
            Err(error) => Some(Err(broken(&error))),
        }
    }
}

fn broken(error: &io::Error) -> SourceError {
    SourceError::new(
        SourceErrorKind::Transport,
        format!("the gzip stream is broken: {error}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    async fn unpack(packed: &[u8], chunk_bytes: usize) -> Result<Vec<u8>, SourceError> {
        let chunks: Vec<_> = packed
            .chunks(chunk_bytes)
            .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
            .collect();
        let out: Vec<_> = gunzip(stream::iter(chunks).boxed()).collect().await;
        out.into_iter().try_fold(Vec::new(), |mut all, chunk| {
            all.extend_from_slice(&chunk?);
            Ok(all)
        })
    }

    #[tokio::test]
    async fn members_unpack_at_every_cut() {
        let mut packed = member(b"{\"type\":\"ADDED\"}\n");
        packed.extend(member(b""));
        packed.extend(member(b"{\"type\":\"BOOKMARK\"}\n"));
        for chunk_bytes in 1..packed.len() + 1 {
            let text = unpack(&packed, chunk_bytes).await.unwrap();
            assert_eq!(text, b"{\"type\":\"ADDED\"}\n{\"type\":\"BOOKMARK\"}\n");
        }
    }

    #[tokio::test]
    async fn a_member_is_readable_before_the_next_arrives() {
        let (sender, receiver) = futures::channel::mpsc::unbounded();
        let mut out = Box::pin(gunzip(receiver.boxed()));
        sender.unbounded_send(Ok(member(b"first").into())).unwrap();
        let first = out.next().await.unwrap().unwrap();
        assert_eq!(first.as_ref(), b"first");
    }

    #[tokio::test]
    async fn a_cut_member_and_noise_are_transport_errors() {
        let packed = member(b"some text that is long enough to be cut");
        for broken in [&packed[..packed.len() - 9], b"no gzip at all, sorry"] {
            let error = unpack(broken, 7).await.unwrap_err();
            assert_eq!(error.kind(), SourceErrorKind::Transport);
        }
    }

    #[tokio::test]
    async fn empty_input_is_empty_output() {
        assert_eq!(unpack(b"", 1).await.unwrap(), b"");
    }
}
