//! The frames of a watch on their way to its reader.
//!
//! ```text
//! small parts ──copied into one chunk──┐
//! large bytes of an object ──shared────┴─▶ chunks, in order ──take──▶ body
//! ```
//!
//! Many watches send the same object. Its bytes are kept once: a chunk of them is a reference. Small
//! parts are copied, because a chunk of its own would cost more than the copy.
//!
//! BOUND: the watch fills this only while it is empty, up to a number of bytes (`read/watch.rs`).

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The length from which bytes are shared.
const SHARED: usize = 4 << 10;

/// Chunks of frames that are not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    chunks: VecDeque<Bytes>,
    /// Parts after the chunks.
    last: BytesMut,
    length: usize,
}

impl Frames {
    /// The end of the frames, for small parts.
    pub(crate) fn small(&mut self) -> &mut BytesMut {
        &mut self.last
    }

    /// Adds bytes: a reference to them if they are long, else a copy.
    pub(crate) fn share(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED {
            return self.last.extend_from_slice(&bytes);
        }
        self.end_last();
        self.length += bytes.len();
        self.chunks.push_back(bytes);
    }

    fn end_last(&mut self) {
        if !self.last.is_empty() {
            self.length += self.last.len();
            self.chunks.push_back(self.last.split().freeze());
        }
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.length + self.last.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes the first chunk.
    pub(crate) fn take(&mut self) -> Option<Bytes> {
        if self.chunks.is_empty() {
            self.end_last();
        }
        let chunk = self.chunks.pop_front()?;
        self.length -= chunk.len();
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_bytes_are_shared_and_small_ones_sent_together() {
        let (large, small) = (
            Bytes::from(vec![b'x'; SHARED]),
            Bytes::from_static(b"small"),
        );
        let mut frames = Frames::default();
        assert!(frames.is_empty() && frames.take().is_none());
        for part in [&small, &small, &large, &small, &large, &large, &small] {
            frames.small().extend_from_slice(b"<");
            frames.share(part.clone());
        }
        assert_eq!(frames.len(), 7 + 4 * 5 + 3 * SHARED);
        let mut chunks = Vec::new();
        while let Some(chunk) = frames.take() {
            chunks.push(chunk);
        }
        let text = |chunk: &Bytes| String::from_utf8(chunk.to_vec()).unwrap();
        let shared = |chunk: &Bytes| chunk.as_ptr() == large.as_ptr();
        let shown: Vec<_> = chunks
            .iter()
            .map(|chunk| {
                if shared(chunk) {
                    "shared".to_owned()
                } else {
                    text(chunk)
                }
            })
            .collect();
        assert_eq!(
            shown,
            [
                "<small<small<",
                "shared",
                "<small<",
                "shared",
                "<",
                "shared",
                "<small"
            ]
        );
        assert_eq!(frames.len(), 0);
    }
}
