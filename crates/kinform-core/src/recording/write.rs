//! Writes a recording.
//!
//! ```text
//! Note of an exchange ──protobuf translated──▶ secrets digested ──▶ record ──▶ block ──▶ bytes for a file
//! ```
//!
//! A block is closed when it is full and when [`Writing::flush`] is called, so that a program that is
//! killed leaves a file that can be read.
//! Never: bytes of a body that were not searched for secrets.
//! BOUND: one block, its compressed form, and for each open exchange the part of an object that a
//! translator holds.
//!
//! Upstream counterpart: none. Complexity: O(bytes).

use std::collections::HashMap;
use std::time::Duration;

use kinform_api::TypeMeta;

use super::asked::{Asked, Failed};
use super::digest::DigestKey;
use super::record::{Kind, Record};
use super::redact::{Contents, Redactor};
use super::translate::Translator;
use super::{BLOCK, MARK, MAX_CONTENT, MAX_HEADER, Subject, millis};
use crate::framing;
use crate::wire::encoding::Encoding;

/// A note on an exchange.
#[derive(Debug)]
pub enum Note<'a> {
    /// The request was made. It is the first note of an exchange.
    Asked(Asked),
    /// The server answers with a body.
    Opened(Encoding),
    /// The request failed.
    Refused(Failed),
    /// Bytes of the body arrived.
    Chunk(&'a [u8]),
    /// The body ended as the server ended it.
    Ended,
    /// The body broke.
    Broken(Failed),
    /// The reader dropped the request, or the body.
    Abandoned,
    /// Notes of this exchange were lost; there are no more.
    Gap,
}

/// Writes one recording.
#[derive(Debug)]
pub struct Writing {
    of: TypeMeta,
    contents: Contents,
    key: DigestKey,
    open: HashMap<u32, Open>,
    plain: Vec<u8>,
    /// Bytes of the file that were not taken yet.
    ready: Vec<u8>,
    scratch: (Vec<u8>, Vec<u8>),
    records: u64,
}

/// An exchange that is not over.
#[derive(Debug)]
struct Open {
    is_watch: bool,
    body: Option<OpenBody>,
}

#[derive(Debug)]
struct OpenBody {
    translator: Option<Translator>,
    redactor: Redactor,
}

impl Writing {
    /// A recording of `subject`, with digests under `key`.
    ///
    /// The key must be random, and must not be kept anywhere else.
    #[must_use]
    pub fn new(subject: &Subject, key: DigestKey) -> Self {
        let mut ready = MARK.to_vec();
        let mut header = serde_json::to_vec(subject).unwrap_or_default();
        // No selector that a server accepts in a URL is as long.
        if header.len() > MAX_HEADER {
            let short = Subject {
                label_selector: None,
                field_selector: None,
                ..subject.clone()
            };
            header = serde_json::to_vec(&short).unwrap_or_default();
        }
        framing::append(framing::Kind::Header, &header, &mut ready);
        let group = &subject.group;
        let api_version = match group.is_empty() {
            true => subject.version.clone(),
            false => format!("{group}/{}", subject.version),
        };
        Self {
            of: TypeMeta {
                api_version,
                kind: subject.kind.clone(),
            },
            contents: subject.contents(),
            key,
            open: HashMap::new(),
            plain: Vec::new(),
            ready,
            scratch: (Vec::new(), Vec::new()),
            records: 0,
        }
    }

    /// Adds what happened to an exchange, `at` this time since the start.
    pub fn note(&mut self, exchange: u32, at: Duration, note: Note<'_>) {
        match note {
            Note::Asked(asked) => {
                let (is_watch, json) = (asked.is_watch(), asked.to_json());
                // No server takes a URL of such a length.
                if json.len() > MAX_CONTENT {
                    return self.gap(at);
                }
                self.open.insert(
                    exchange,
                    Open {
                        is_watch,
                        body: None,
                    },
                );
                self.record(Kind::Asked, exchange, at, &json);
            }
            Note::Opened(encoding) => self.opened(exchange, at, encoding),
            Note::Chunk(chunk) => self.chunk(exchange, at, chunk),
            Note::Refused(failed) => self.failed(Kind::Refused, exchange, at, &failed),
            Note::Broken(failed) => self.failed(Kind::Broken, exchange, at, &failed),
            Note::Ended => {
                self.end_of_body(exchange, at);
                self.last(Kind::Ended, exchange, at, &[]);
            }
            Note::Abandoned => self.last(Kind::Abandoned, exchange, at, &[]),
            Note::Gap => self.last(Kind::Gap, exchange, at, &[]),
        }
    }

    /// Adds that whole exchanges were lost.
    pub fn gap(&mut self, at: Duration) {
        self.record(Kind::Gap, u32::MAX, at, &[]);
    }

    /// Closes the block that was begun: everything so far can be read once it is on disk.
    pub fn flush(&mut self) {
        if !self.plain.is_empty() {
            framing::append(framing::Kind::Block, &self.plain, &mut self.ready);
            self.plain.clear();
        }
    }

    /// Ends the recording.
    pub fn finish(&mut self) {
        self.flush();
        let records = self.records.to_le_bytes();
        framing::append(framing::Kind::End, &records, &mut self.ready);
    }

    /// The next bytes of the file; empty if none are ready.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }

    /// Returns the number of records so far.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    fn opened(&mut self, exchange: u32, at: Duration, encoding: Encoding) {
        let Some(open) = self.open.get_mut(&exchange) else {
            return;
        };
        let of = self.of.clone();
        let translator = match (encoding, open.is_watch) {
            (Encoding::Json, _) => None,
            (Encoding::Protobuf, true) => Some(Translator::of_watch(of)),
            (Encoding::Protobuf, false) => Some(Translator::of_list(of)),
        };
        open.body = Some(OpenBody {
            translator,
            redactor: Redactor::new(self.contents, self.key.clone()),
        });
        self.record(Kind::Opened, exchange, at, &[]);
    }

    fn chunk(&mut self, exchange: u32, at: Duration, chunk: &[u8]) {
        let open = self.open.get_mut(&exchange);
        let Some(body) = open.and_then(|open| open.body.as_mut()) else {
            return;
        };
        let (mut json, mut kept) = std::mem::take(&mut self.scratch);
        json.clear();
        kept.clear();
        let is_read = match &mut body.translator {
            Some(translator) => {
                let is_read = translator.feed(chunk, &mut json);
                body.redactor.feed(&json, &mut kept) && is_read
            }
            None => body.redactor.feed(chunk, &mut kept),
        };
        self.keep(exchange, at, &kept);
        if !is_read {
            self.last(Kind::Withheld, exchange, at, &[]);
        }
        self.scratch = (json, kept);
    }

    /// Adds what a translator still has when a server ended a body.
    fn end_of_body(&mut self, exchange: u32, at: Duration) {
        let open = self.open.get_mut(&exchange);
        let Some(body) = open.and_then(|open| open.body.as_mut()) else {
            return;
        };
        if let Some(translator) = body.translator.take() {
            let (mut json, mut kept) = (Vec::new(), Vec::new());
            let _ = translator.finish(&mut json);
            let _ = body.redactor.feed(&json, &mut kept);
            self.keep(exchange, at, &kept);
        }
    }

    fn keep(&mut self, exchange: u32, at: Duration, kept: &[u8]) {
        for part in kept.chunks(MAX_CONTENT) {
            self.record(Kind::Chunk, exchange, at, part);
        }
    }

    fn failed(&mut self, kind: Kind, exchange: u32, at: Duration, failed: &Failed) {
        let mut json = serde_json::to_vec(failed).unwrap_or_default();
        if json.len() > MAX_CONTENT {
            let short = Failed {
                status: None,
                ..failed.clone()
            };
            json = serde_json::to_vec(&short).unwrap_or_default();
        }
        let mut kept = Vec::with_capacity(json.len());
        Redactor::new(self.contents, self.key.clone()).feed(&json, &mut kept);
        kept.truncate(MAX_CONTENT);
        self.last(kind, exchange, at, &kept);
    }

    /// Adds the last record of an exchange. One whose body was withheld, or that has a gap, is over
    /// already.
    fn last(&mut self, kind: Kind, exchange: u32, at: Duration, content: &[u8]) {
        if self.open.remove(&exchange).is_some() {
            self.record(kind, exchange, at, content);
        }
    }

    fn record(&mut self, kind: Kind, exchange: u32, at: Duration, content: &[u8]) {
        let record = Record {
            kind,
            exchange,
            at_ms: millis(at),
            content,
        };
        record.append(&mut self.plain);
        self.records += 1;
        if self.plain.len() >= BLOCK {
            self.flush();
        }
    }
}
