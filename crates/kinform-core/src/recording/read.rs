//! Reads a recording, cut anywhere.
//!
//! ```text
//! pieces of a file → frames → records → Recording { subject, exchanges, compressed blocks }
//! ```
//!
//! Contents stay compressed: an index says where each is, and [`Recording::block`] inflates one block.
//! A file that ends too early, or is damaged, is used up to there; [`Recording::damage`] says why.
//! BOUND: the file's own bytes, up to a limit; [`MAX_STEPS`] steps of 32 bytes, and
//! [`MAX_EXCHANGES`] requests and failures.
//!
//! Upstream counterpart: none. Complexity: O(bytes).

use std::collections::HashMap;
use std::time::Duration;

use super::asked::{Asked, Failed};
use super::record::{self, Kind, Record};
use super::unusable::Unusable;
use super::{MARK, MAX_BLOCK, MAX_HEADER, Subject};
use crate::framing::{self, HEAD, Head};

/// BOUND: bytes of a file, unless a reader sets fewer. They are held in memory.
const MAX_FILE: usize = 4 << 30;
/// BOUND: steps of all answers.
const MAX_STEPS: usize = 1 << 24;
/// BOUND: requests, and answers that failed.
const MAX_EXCHANGES: usize = 1 << 20;

/// The traffic of one resource: requests, answers, times.
#[derive(Debug)]
pub struct Recording {
    subject: Subject,
    exchanges: Vec<Exchange>,
    blocks: Vec<Block>,
    length: Duration,
    has_gaps: bool,
    damage: Option<&'static str>,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The request.
    pub asked: Asked,
    /// Its time since the start.
    pub at: Duration,
    /// Everything that came back, in order. Without an end the recording stopped first.
    pub answer: Vec<Step>,
}

/// One step of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    at_ms: u64,
    /// Its kind.
    pub kind: StepKind,
}

/// The kind of a step, with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// The server answered with a body.
    Opened,
    /// The request failed.
    Refused(Box<Failed>),
    /// Bytes of the body, in JSON.
    Chunk(Span),
    /// The server ended the body.
    Ended,
    /// The body broke.
    Broken(Box<Failed>),
    /// The reader dropped the request or the body.
    Abandoned,
    /// The recorder lost the rest of this answer.
    Gap,
    /// The rest of the body was no JSON, and was not recorded.
    Withheld,
}

/// The place of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of the block.
    pub block: u32,
    start: u32,
    length: u32,
}

impl Span {
    /// The content, out of its inflated block; `None` if that is another block.
    #[must_use]
    pub fn of<'a>(&self, block: &'a [u8]) -> Option<&'a [u8]> {
        block.get(self.range())
    }

    /// The place in the inflated block.
    #[must_use]
    pub fn range(&self) -> std::ops::Range<usize> {
        let start = self.start as usize;
        start..start + self.length as usize
    }
}

impl Step {
    /// Its time since the start.
    #[must_use]
    pub fn at(&self) -> Duration {
        Duration::from_millis(self.at_ms)
    }
}

#[derive(Debug)]
struct Block {
    head: Head,
    frame: Box<[u8]>,
}

impl Recording {
    /// The resource that was recorded.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// The exchanges, in the order of their requests.
    #[must_use]
    pub fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// The time of the last record.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Returns whether the recorder lost something: its disk was too slow.
    #[must_use]
    pub fn has_gaps(&self) -> bool {
        self.has_gaps
    }

    /// The fault of the file behind the part that is used; `None` if it is whole.
    #[must_use]
    pub fn damage(&self) -> Option<&'static str> {
        self.damage
    }

    /// The bytes of a block, inflated.
    ///
    /// # Complexity
    /// O(bytes of the block), at most half a MiB.
    #[must_use]
    pub fn block(&self, number: u32) -> Option<Vec<u8>> {
        let block = self.blocks.get(number as usize)?;
        let mut plain = Vec::new();
        block.head.open(&block.frame, &mut plain).ok()?;
        Some(plain)
    }
}

/// Reads one recording.
#[derive(Debug)]
pub struct Reading {
    /// Bytes of a frame that is not there as a whole yet.
    unread: Vec<u8>,
    plain: Vec<u8>,
    place: Place,
    most: usize,
    bytes: usize,
    subject: Option<Subject>,
    blocks: Vec<Block>,
    exchanges: Vec<Exchange>,
    /// The place of each exchange that is not over.
    open: HashMap<u32, usize>,
    records: u64,
    steps: usize,
    failures: usize,
    length_ms: u64,
    has_gaps: bool,
    damage: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Mark,
    Frames,
    Ended,
}

impl Default for Reading {
    fn default() -> Self {
        Self::new()
    }
}

impl Reading {
    /// Reads a recording of up to 4 GiB.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max_bytes(MAX_FILE)
    }

    /// Reads a recording of up to `most` bytes.
    #[must_use]
    pub fn with_max_bytes(most: usize) -> Self {
        Self {
            unread: Vec::new(),
            plain: Vec::new(),
            place: Place::Mark,
            most,
            bytes: 0,
            subject: None,
            blocks: Vec::new(),
            exchanges: Vec::new(),
            open: HashMap::new(),
            records: 0,
            steps: 0,
            failures: 0,
            length_ms: 0,
            has_gaps: false,
            damage: None,
        }
    }

    /// Reads further bytes.
    ///
    /// # Errors
    /// These are no bytes of a recording, or too many. Nothing more can be read then.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Unusable> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > self.most {
            return Err(Unusable::too_large());
        }
        if self.damage.is_some() {
            return Ok(());
        }
        self.unread.extend_from_slice(bytes);
        let unread = std::mem::take(&mut self.unread);
        let mut rest = &unread[..];
        if self.place == Place::Mark {
            let Some((mark, behind)) = rest.split_at_checked(MARK.len()) else {
                self.unread = unread;
                return Ok(());
            };
            check_mark(mark)?;
            self.place = Place::Frames;
            rest = behind;
        }
        while self.damage.is_none() {
            match self.frame(rest)? {
                0 => break,
                read => rest = &rest[read..],
            }
        }
        let read = unread.len() - rest.len();
        self.unread = unread;
        self.unread.drain(..read);
        Ok(())
    }

    /// The recording, as far as it is whole.
    ///
    /// # Errors
    /// It has no header.
    pub fn finish(self) -> Result<Recording, Unusable> {
        if self.place == Place::Mark {
            return Err(Unusable::foreign());
        }
        let subject = self.subject.ok_or_else(|| Unusable::header("none"))?;
        let damage = match self.place {
            Place::Ended if self.unread.is_empty() => None,
            Place::Ended => Some("bytes behind its end"),
            Place::Mark | Place::Frames => Some("no end"),
        };
        Ok(Recording {
            subject,
            exchanges: self.exchanges,
            blocks: self.blocks,
            length: Duration::from_millis(self.length_ms),
            has_gaps: self.has_gaps,
            damage: self.damage.or(damage),
        })
    }

    /// Reads one frame, if it is there as a whole; returns its length.
    fn frame(&mut self, rest: &[u8]) -> Result<usize, Unusable> {
        let head = match Head::read(rest) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(0),
            Err(what) => return self.damaged(what),
        };
        let most = match head.kind {
            framing::Kind::Header => MAX_HEADER,
            framing::Kind::Block | framing::Kind::End => MAX_BLOCK,
        };
        // BOUND: what is compressed is at most a little longer than what is not.
        if head.length > most || head.packed > most + most / 64 + 64 {
            return self.damaged("a frame larger than any");
        }
        let Some((frame, _)) = rest.split_at_checked(HEAD + head.packed) else {
            return Ok(0);
        };
        let mut plain = std::mem::take(&mut self.plain);
        let taken = match head.open(frame, &mut plain) {
            Ok(()) => self.take(&head, frame, &plain),
            Err(what) => Err(what),
        };
        self.plain = plain;
        match taken {
            Ok(()) => Ok(frame.len()),
            Err(what) => self.damaged(what),
        }
    }

    /// Ends reading here: before the header there is nothing to use.
    fn damaged(&mut self, what: &'static str) -> Result<usize, Unusable> {
        match self.subject {
            None => Err(Unusable::header(what)),
            Some(_) => {
                self.damage = Some(what);
                Ok(0)
            }
        }
    }

    fn take(&mut self, head: &Head, frame: &[u8], plain: &[u8]) -> Result<(), &'static str> {
        match (head.kind, &self.subject, self.place) {
            (framing::Kind::Header, None, Place::Frames) => {
                let subject = serde_json::from_slice(plain);
                self.subject = Some(subject.map_err(|_| "a header that is none")?);
                Ok(())
            }
            (framing::Kind::Block, Some(_), Place::Frames) => {
                let number = u32::try_from(self.blocks.len()).map_err(|_| "too many blocks")?;
                let read = self.records(number, plain);
                // Also of a block that is bad from its middle on, since the index has its start.
                self.blocks.push(Block {
                    head: *head,
                    frame: frame.into(),
                });
                read
            }
            (framing::Kind::End, Some(_), Place::Frames) => {
                if plain != self.records.to_le_bytes() {
                    return Err("another number of records");
                }
                self.place = Place::Ended;
                Ok(())
            }
            _ => Err("frames out of order"),
        }
    }

    fn records(&mut self, block: u32, plain: &[u8]) -> Result<(), &'static str> {
        let mut rest = plain;
        while !rest.is_empty() {
            let (record, behind) = Record::read(rest).ok_or("a record that is none")?;
            let start = plain.len() - rest.len() + record::HEAD;
            let span = Span {
                block,
                start: start as u32,
                length: record.content.len() as u32,
            };
            self.record(&record, span)?;
            self.records += 1;
            rest = behind;
        }
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, span: Span) -> Result<(), &'static str> {
        if self.steps >= MAX_STEPS || self.exchanges.len() + self.failures >= MAX_EXCHANGES {
            return Err("more records than can be replayed");
        }
        self.length_ms = self.length_ms.max(record.at_ms);
        if record.kind == Kind::Asked {
            let asked = Asked::from_json(record.content).ok_or("a request that is none")?;
            if self
                .open
                .insert(record.exchange, self.exchanges.len())
                .is_some()
            {
                return Err("a request twice");
            }
            self.exchanges.push(Exchange {
                asked,
                at: Duration::from_millis(record.at_ms),
                answer: Vec::new(),
            });
            return Ok(());
        }
        let Some(place) = self.open.get(&record.exchange).copied() else {
            // A gap without an exchange is one between exchanges.
            self.has_gaps |= record.kind == Kind::Gap;
            return match record.kind {
                Kind::Gap => Ok(()),
                _ => Err("an answer to no request"),
            };
        };
        let answer = &mut self.exchanges[place].answer;
        let kind = step(record, span, !answer.is_empty())?;
        let is_last = !matches!(kind, StepKind::Opened | StepKind::Chunk(_));
        self.failures += usize::from(matches!(kind, StepKind::Refused(_) | StepKind::Broken(_)));
        self.has_gaps |= kind == StepKind::Gap;
        answer.push(Step {
            at_ms: record.at_ms,
            kind,
        });
        self.steps += 1;
        if is_last {
            self.open.remove(&record.exchange);
        }
        Ok(())
    }
}

/// The step of a record, in its place: a body is opened first, and only once.
fn step(record: &Record<'_>, span: Span, is_open: bool) -> Result<StepKind, &'static str> {
    let failed = || {
        let failed = serde_json::from_slice::<Failed>(record.content);
        failed.map(Box::new).map_err(|_| "a failure that is none")
    };
    Ok(match (record.kind, is_open) {
        (Kind::Opened, false) => StepKind::Opened,
        (Kind::Refused, false) => StepKind::Refused(failed()?),
        (Kind::Chunk, true) => StepKind::Chunk(span),
        (Kind::Ended, true) => StepKind::Ended,
        (Kind::Broken, true) => StepKind::Broken(failed()?),
        (Kind::Abandoned, _) => StepKind::Abandoned,
        (Kind::Gap, _) => StepKind::Gap,
        (Kind::Withheld, true) => StepKind::Withheld,
        _ => return Err("records out of order"),
    })
}

fn check_mark(mark: &[u8]) -> Result<(), Unusable> {
    let (name, number) = mark.split_at(MARK.len() - 1);
    match *name == MARK[..MARK.len() - 1] {
        false => Err(Unusable::foreign()),
        true if *mark == *MARK => Ok(()),
        true => Err(Unusable::format(number[0])),
    }
}
