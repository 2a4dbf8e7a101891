//! Plays a script to one subject, and records the notifications of its handlers.
//!
//! ```text
//! Script ──step by step──▶ Server ◀──requests── Subject ──▶ Ear ──cut at the barriers──▶ Performance
//! ```
//!
//! At a barrier the mark is written once a watch is open. When every handler has heard the mark, it
//! has heard all events before it, since they came on the same watch. So a performance falls into
//! segments, the same for each subject, and each records whether the subject listed in it or only
//! went on. No wait for a clock ever changes what is heard: a subject that does not try to connect
//! during a moment of refusals goes on as one that did.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::heard::{Event, Heard};
use super::history::{Change, History, MARK, Op, State};
use super::script::{Fault, Script, Step, Trouble};
use super::server::{Listen, Server};
use super::subject::{Failed, Resyncs, Subject};

/// BOUND: client-go's delays double from 0.8 s; five of them with their jitter stay below this.
const PATIENCE: Duration = Duration::from_secs(150);
/// The time for which connections are refused.
const REFUSAL: Duration = Duration::from_millis(250);

/// The events between two barriers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment {
    /// The subject listed everything.
    pub(crate) listed: bool,
    /// The list that it read reported changes inside.
    pub(crate) changed_inside: bool,
    /// An event was sent that did not happen then.
    pub(crate) stray: bool,
    /// The server's version at the beginning.
    pub(crate) from: u64,
    /// The events of the log; the last one is the mark.
    pub(crate) log: std::ops::Range<usize>,
}

/// The notifications of one handler.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    /// The segment in which the handler was added.
    pub(crate) joined: usize,
    pub(crate) resyncs: Resyncs,
    /// A list for each segment since then, without notifications after the handler was removed.
    pub(crate) segments: Vec<Vec<Heard>>,
}

/// All that one subject did with a script.
#[derive(Debug)]
pub(crate) struct Performance {
    pub(crate) segments: Vec<Segment>,
    /// By handler.
    pub(crate) told: Vec<Told>,
    pub(crate) history: History,
    pub(crate) stored: BTreeMap<String, State>,
    /// The requests to the server.
    pub(crate) asked: Vec<String>,
}

struct Stage<'a> {
    script: &'a Script,
    server: Server,
    subject: Subject,
    segments: Vec<Segment>,
    current: Segment,
    lists: u64,
    marks: Vec<u64>,
    /// By handler: the time it was added, and its resyncs.
    handlers: Vec<(usize, Resyncs)>,
    active: BTreeSet<usize>,
}

/// The server of a script, before the first step.
///
/// # Errors
/// No port is free.
pub(crate) async fn server(script: &Script) -> Result<Server, Failed> {
    let mut history = History::default();
    for op in &script.before {
        history.commit(op);
    }
    history.commit(&mark());
    let server = Server::start(history, script.expired).await?;
    server.change(|plot| {
        plot.streams = script.streams;
        plot.page = script.page;
        plot.faults.clone_from(&script.first);
    });
    Ok(server)
}

/// Plays the script; the subject is stopped at the end.
///
/// # Errors
/// The subject failed, or did not hear an expected event in time.
pub(crate) async fn perform(
    script: &Script,
    server: Server,
    subject: Subject,
) -> Result<Performance, Failed> {
    let mut stage = Stage {
        script,
        server,
        subject,
        segments: Vec::new(),
        current: Segment::default(),
        lists: 0,
        marks: Vec::new(),
        handlers: Vec::new(),
        active: BTreeSet::new(),
    };
    let played = stage.play().await;
    let stored = stage.subject.stop().await?;
    played.map_err(|why| stage.explain(why.as_ref()))?;
    let asked = stage.server.read(|plot| plot.asked.clone());
    let history = stage
        .server
        .change(|plot| std::mem::take(&mut plot.history));
    let told = stage.told();
    Ok(Performance {
        segments: stage.segments,
        told,
        history,
        stored,
        asked,
    })
}

fn mark() -> Op {
    Op {
        change: Change::Write,
        key: MARK.to_owned(),
    }
}

impl Stage<'_> {
    async fn play(&mut self) -> Result<(), Failed> {
        let wish = self.wish();
        let url = self.server.url();
        self.subject.make(&url, wish).await?;
        self.join(wish).await?;
        for _ in 1..self.script.handlers {
            self.join(Resyncs::Never).await?;
        }
        self.subject.start().await?;
        self.barrier().await?;
        for step in &self.script.steps {
            self.step(step).await?;
        }
        self.barrier().await
    }

    fn wish(&self) -> Resyncs {
        if self.script.resyncs {
            Resyncs::EachSecond
        } else {
            Resyncs::Never
        }
    }

    async fn step(&mut self, step: &Step) -> Result<(), Failed> {
        match step {
            Step::Commit(ops) => self.commit(ops),
            Step::Barrier => self.barrier().await?,
            Step::Bookmark => self.server.change(|plot| plot.history.bookmark()),
            Step::Elsewhere(versions) => {
                self.server.change(|plot| plot.history.elsewhere(*versions));
            }
            Step::Twice(op) => {
                self.barrier().await?;
                self.current.stray = self.server.change(|plot| {
                    plot.history.commit(op);
                    plot.history.repeat()
                });
                self.barrier().await?;
            }
            Step::DeleteUnknown(key) => {
                self.barrier().await?;
                self.current.stray = true;
                self.server.change(|plot| plot.history.delete_unknown(key));
                self.barrier().await?;
            }
            Step::Join => {
                self.barrier().await?;
                self.join(Resyncs::Never).await?;
                self.barrier().await?;
            }
            Step::Leave => self.leave().await?,
            Step::Resync => self.resync().await?,
            Step::Trouble(trouble) => self.trouble(trouble).await?,
        }
        Ok(())
    }

    fn commit(&self, ops: &[Op]) {
        self.server.change(|plot| {
            for op in ops {
                plot.history.commit(op);
            }
        });
    }

    /// Waits until every handler has begun: later changes are no longer part of its initial adds.
    async fn first_adds(&self) -> Result<(), Failed> {
        let (active, ear) = (&self.active, self.subject.ear());
        let begun = ear.when(|notes| {
            let marks = notes.heard.iter().filter(|(_, heard)| heard.key == MARK);
            let told: BTreeSet<_> = marks.map(|(handler, _)| *handler).collect();
            active.is_subset(&told) || !notes.failures.is_empty()
        });
        in_time(begun, "the first adds").await
    }

    /// Waits until every handler has heard everything.
    async fn barrier(&mut self) -> Result<(), Failed> {
        let watched = self.server.when(|plot| plot.is_watched());
        in_time(watched, "a watch").await?;
        self.first_adds().await?;
        let (version, lists, end, inside) = self.server.change(|plot| {
            let inside = std::mem::take(&mut plot.has_changed_inside);
            // The faults that no request met are applied now, or never.
            let faults = std::mem::take(&mut plot.faults);
            for _ in faults.iter().filter(|f| **f == Fault::ChangesInside) {
                plot.change_inside();
            }
            plot.history.commit(&mark());
            let end = plot.history.log().len();
            (plot.history.version(), plot.lists, end, inside)
        });
        let (active, ear) = (&self.active, self.subject.ear());
        let heard = ear.when(|notes| {
            let is_mark = |heard: &Heard| {
                heard.key == MARK && heard.state.version == version && heard.event == Event::Update
            };
            let heard = notes.heard.iter().rev();
            let told: BTreeSet<_> = heard
                .filter(|(_, heard)| is_mark(heard))
                .map(|(handler, _)| *handler)
                .collect();
            active.is_subset(&told) || !notes.failures.is_empty()
        });
        in_time(heard, &format!("the mark of version {version}")).await?;
        self.marks.push(version);
        self.current.listed = lists > self.lists;
        self.current.changed_inside = inside;
        self.current.log.end = end;
        self.lists = lists;
        let next = Segment {
            from: version,
            log: end..end,
            ..Segment::default()
        };
        self.segments
            .push(std::mem::replace(&mut self.current, next));
        Ok(())
    }

    /// Adds a handler now: before the first list, or after everything was heard.
    async fn join(&mut self, resyncs: Resyncs) -> Result<(), Failed> {
        let id = self.handlers.len();
        self.handlers.push((self.segments.len(), resyncs));
        self.subject.add(id, resyncs).await?;
        self.active.insert(id);
        Ok(())
    }

    async fn leave(&mut self) -> Result<(), Failed> {
        self.barrier().await?;
        if self.active.len() > 1
            && let Some(first) = self.active.pop_first()
        {
            self.subject.remove(first).await?;
        }
        Ok(())
    }

    async fn resync(&mut self) -> Result<(), Failed> {
        self.barrier().await?;
        let wants = |id: &&usize| self.handlers[**id].1 == Resyncs::EachSecond;
        let Some(id) = self.active.iter().find(wants).copied() else {
            return Ok(());
        };
        let keys: Vec<String> = self
            .server
            .read(|plot| plot.history.objects().keys().cloned().collect());
        let ear = self.subject.ear();
        let begin = ear.read(|notes| notes.heard.len());
        let heard = ear.when(|notes| {
            let repeats = || {
                let heard = notes.heard[begin..].iter();
                heard.filter(|(handler, heard)| *handler == id && heard.is_repeat())
            };
            keys.iter()
                .all(|key| repeats().any(|(_, heard)| heard.key == *key))
        });
        in_time(heard, "a resync of each object").await?;
        self.barrier().await
    }

    async fn trouble(&mut self, trouble: &Trouble) -> Result<(), Failed> {
        self.barrier().await?;
        if trouble.is_refused {
            self.server.listen(Listen::Refuse).await;
        }
        self.server.change(|plot| {
            plot.cut(trouble.ending);
            for op in &trouble.ops {
                plot.history.commit(op);
            }
            if trouble.expires {
                plot.history.expire();
            }
            plot.faults.clone_from(&trouble.faults);
            plot.is_away = trouble.joins;
        });
        if trouble.joins {
            self.join(Resyncs::Never).await?;
            self.server.change(|plot| plot.is_away = false);
        }
        if trouble.is_refused {
            tokio::time::sleep(REFUSAL).await;
            self.server.listen(Listen::Accept).await;
        }
        self.barrier().await
    }

    fn told(&self) -> Vec<Told> {
        let told = |(id, (joined, resyncs)): (usize, &(usize, Resyncs))| {
            let mut segments = vec![Vec::new()];
            let mut at = *joined;
            let heard = self.subject.ear().read(|notes| {
                let mine = notes.heard.iter().filter(|(handler, _)| *handler == id);
                mine.map(|(_, heard)| heard.clone()).collect::<Vec<_>>()
            });
            for heard in heard {
                let is_mark = heard.key == MARK
                    && heard.event == Event::Update
                    && self.marks.get(at) == Some(&heard.state.version);
                if let Some(segment) = segments.last_mut() {
                    segment.push(heard);
                }
                if is_mark {
                    at += 1;
                    segments.push(Vec::new());
                }
            }
            Told {
                joined: *joined,
                resyncs: *resyncs,
                segments,
            }
        };
        self.handlers.iter().enumerate().map(told).collect()
    }

    fn explain(&self, why: &dyn std::error::Error) -> Failed {
        let asked = self.server.read(|plot| plot.asked.clone());
        let from = asked.len().saturating_sub(12);
        let heard = self.subject.ear().read(|notes| {
            let from = notes.heard.len().saturating_sub(12);
            let last = notes.heard[from..].iter();
            last.map(|(handler, heard)| format!("    {handler}: {} {heard}", heard.key))
                .collect::<Vec<_>>()
        });
        let segment = self.segments.len();
        format!(
            "segment {segment}: {why}\n  last asked:\n    {}\n  last heard:\n{}",
            asked[from..].join("\n    "),
            heard.join("\n")
        )
        .into()
    }
}

async fn in_time(wait: impl Future<Output = ()>, what: &str) -> Result<(), Failed> {
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.map_err(|_| format!("{what} did not come in {PATIENCE:?}").into())
}
