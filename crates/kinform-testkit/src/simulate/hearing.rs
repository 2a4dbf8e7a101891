//! One watch of a process: its notifications, one at a time, each of them counted.
//!
//! ```text
//! chunks of bytes ─▶ lines ─▶ counted; late, skipped or stale by the plan ─▶ the process
//! ```
//!
//! INVARIANT: the lines that pass are those of the server, in its order, without a gap: a watch that
//! skips a notification breaks.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use http_body::Frame;
use serde_json::Value;

use super::hub::Order;
use super::line::Line;
use super::plan::Mishap;
use super::seen::version;
use crate::link::reset;

/// One watch.
pub(crate) struct Hearing {
    line: Arc<Line>,
    shelf: String,
    chunks: BoxStream<'static, io::Result<Bytes>>,
    /// The beginning of a line whose end has not come.
    // BOUND: an object of the embedded server has 3 MiB at most.
    begun: BytesMut,
    lines: VecDeque<Bytes>,
}

impl Hearing {
    pub(crate) fn new(
        line: Arc<Line>,
        shelf: String,
        chunks: BoxStream<'static, io::Result<Bytes>>,
    ) -> Self {
        Self {
            line,
            shelf,
            chunks,
            begun: BytesMut::new(),
            lines: VecDeque::new(),
        }
    }

    /// The frames that the process gets.
    pub(crate) fn frames(self) -> impl Stream<Item = io::Result<Frame<Bytes>>> + Send + 'static {
        stream::unfold(Some(self), |hearing| async {
            let mut hearing = hearing?;
            match hearing.next().await? {
                Ok(line) => Some((Ok(Frame::data(line)), Some(hearing))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let line = match self.next_line().await? {
            Ok(line) => line,
            Err(error) => return Some(Err(error)),
        };
        let Ok(event) = serde_json::from_slice::<Value>(&line) else {
            return Some(Ok(line));
        };
        if matches!(event["type"].as_str(), Some("BOOKMARK" | "ERROR") | None) {
            return Some(Ok(line));
        }
        let hub = Arc::clone(&self.line.hub);
        hub.hop().await;
        match hub.notification() {
            Some(Mishap::Late(lasts)) => tokio::time::sleep(lasts).await,
            Some(skip @ Mishap::Skip(_)) => {
                self.line.refuse(skip);
                return Some(Err(reset()));
            }
            Some(restart) => {
                // The process ends without this notification.
                self.line.link.disconnect();
                hub.order(Order::Meet(self.line.process, restart));
                std::future::pending::<()>().await;
            }
            None => {}
        }
        hub.show(version(&event["object"]));
        let words = self.line.see(|seen| seen.heard(&self.shelf, &event));
        if let Some(words) = words {
            hub.note(self.line.who(), words);
        }
        Some(Ok(line))
    }

    /// The next whole line, with its end; what is left at the end of the stream is passed on.
    async fn next_line(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(Ok(line));
            }
            let chunk = match self.chunks.next().await {
                Some(Ok(chunk)) => chunk,
                Some(Err(error)) => return Some(Err(error)),
                None if self.begun.is_empty() => return None,
                None => return Some(Ok(self.begun.split().freeze())),
            };
            self.begun.extend_from_slice(&chunk);
            while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                self.lines.push_back(self.begun.split_to(end + 1).freeze());
            }
        }
    }
}
