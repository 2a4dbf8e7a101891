//! The scenarios that the bench measures, by name and size.
//!
//! ```text
//! TABLE ─quick | full─▶ Scenario { work, size } ─▶ which corpus, which server, which subjects
//! ```

use crate::corpus::{Content, Encoding, Recipe, Share};
use crate::shape::Shape;

/// A scenario's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Sync pods from one JSON list.
    SyncJson,
    /// Sync pods from JSON pages of 500.
    SyncJsonPaged,
    /// Sync pods from a JSON streaming list.
    SyncStream,
    /// Sync pods from a protobuf list.
    SyncProtobuf,
    /// The same on a runtime of one thread.
    SyncProtobufOneThread,
    /// Sync pods from one JSON list into a compressed store, then read one field of each.
    SyncCold,
    /// Sync pods from one JSON list; each is decoded into its type and kept.
    SyncJsonTyped,
    /// Sync five kinds that are not pods from JSON lists.
    SyncMix,
    /// Sync objects unlike all others from JSON lists.
    SyncUnseen,
    /// Sync pods, then list again with this share changed, in JSON.
    Relist(Share),
    /// Sync pods in the best encoding that a subject has, then read each as its type once.
    TouchEverything,
    /// Sync the metadata of pods in the best encoding that a subject has.
    MetadataOnly,
    /// Sync 500 custom resources and 5,000 pods, of which little is kept.
    SmallOperator,
    /// List 1 of 40 nodes' pods by an index, after one event for each pod.
    IndexList,
    /// Read by key, namespace and index while events are applied at full speed.
    ReadUnderWrite,
    /// Dispatch each event to this number of handlers.
    Fanout(usize),
    /// Dispatch each event to ten handlers next to one that never returns.
    StalledHandler,
    /// Reconcile objects that are written at a steady pace.
    WriteToReconcile,
    /// Add, get and done of a work queue, all on one task.
    QueueAlone,
    /// Add on one task, get and done on this number of tasks.
    QueueShared(usize),
    /// Adds that wait from one to 1000 seconds.
    DelayedAdds,
}

/// A scenario of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The work to do.
    pub work: Work,
    /// Of how many objects, keys or events.
    pub size: usize,
}

/// A line of the table: which sizes a quick and a full run measure.
struct Line {
    name: &'static str,
    work: Work,
    quick: &'static [usize],
    full: &'static [usize],
}

const fn line(
    name: &'static str,
    work: Work,
    quick: &'static [usize],
    full: &'static [usize],
) -> Line {
    Line {
        name,
        work,
        quick,
        full,
    }
}

const ONE: &[usize] = &[10_000];
const GROWTH: &[usize] = &[10_000, 100_000, 300_000];
const LARGE: &[usize] = &[10_000, 100_000];
const FEW: &[usize] = &[20_000];
const EVENTS: &[usize] = &[20_000, 200_000];
const FEW_CYCLES: &[usize] = &[300_000];
const CYCLES: &[usize] = &[300_000, 1_000_000];

const TABLE: &[Line] = &[
    line("sync-json", Work::SyncJson, ONE, GROWTH),
    line("sync-json-paged", Work::SyncJsonPaged, ONE, GROWTH),
    line("sync-stream", Work::SyncStream, ONE, GROWTH),
    line("sync-protobuf", Work::SyncProtobuf, ONE, GROWTH),
    line(
        "sync-protobuf-one-thread",
        Work::SyncProtobufOneThread,
        ONE,
        LARGE,
    ),
    line("sync-cold", Work::SyncCold, ONE, LARGE),
    line("sync-json-typed", Work::SyncJsonTyped, ONE, GROWTH),
    line("sync-mix", Work::SyncMix, ONE, LARGE),
    line("sync-unseen", Work::SyncUnseen, ONE, LARGE),
    line("relist-1pct", Work::Relist(Share::Hundredth), ONE, LARGE),
    line("relist-10pct", Work::Relist(Share::Tenth), ONE, LARGE),
    line("touch-everything", Work::TouchEverything, ONE, LARGE),
    line("metadata-only", Work::MetadataOnly, ONE, LARGE),
    line("small-operator", Work::SmallOperator, &[5_500], &[5_500]),
    line(
        "index-list",
        Work::IndexList,
        &[100_000],
        &[100_000, 1_000_000],
    ),
    line(
        "read-under-write",
        Work::ReadUnderWrite,
        ONE,
        &[1_000, 100_000, 1_000_000],
    ),
    line("fanout-1", Work::Fanout(1), FEW, EVENTS),
    line("fanout-10", Work::Fanout(10), FEW, EVENTS),
    line("fanout-100", Work::Fanout(100), FEW, EVENTS),
    line("stalled-handler", Work::StalledHandler, FEW, EVENTS),
    line(
        "write-to-reconcile",
        Work::WriteToReconcile,
        &[1_000],
        &[5_000],
    ),
    line("queue-cycle", Work::QueueAlone, FEW_CYCLES, CYCLES),
    line("queue-cycle-1", Work::QueueShared(1), FEW_CYCLES, CYCLES),
    line("queue-cycle-4", Work::QueueShared(4), FEW_CYCLES, CYCLES),
    line(
        "delayed-adds",
        Work::DelayedAdds,
        &[1_000_000],
        &[100_000, 1_000_000],
    ),
];

/// The replay server's answer to requests for streaming lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// The server answers them.
    Served,
    /// The server refuses them, so that clients ask for lists.
    Refused,
}

/// The data and the server that a scenario needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The shape of the objects.
    pub shape: Shape,
    /// The encodings and contents; the one to sync comes first.
    pub recipes: &'static [Recipe],
    /// The server's answer to streaming lists.
    pub streams: Streams,
}

impl Needs {
    /// The share of the objects that has changed in the list after the watch expired; `None` if all
    /// are the same.
    #[must_use]
    pub fn changed(self) -> Option<Share> {
        self.recipes.iter().find_map(|recipe| match recipe {
            Recipe::Changed(share) => Some(*share),
            _ => None,
        })
    }
}

const JSON: Recipe = Recipe::List(Encoding::Json, Content::Full);
const PAGES: Recipe = Recipe::Pages(Content::Full);
const PROTOBUF: Recipe = Recipe::List(Encoding::Protobuf, Content::Full);
const METADATA: Recipe = Recipe::List(Encoding::Json, Content::Metadata);
const METADATA_PAGES: Recipe = Recipe::Pages(Content::Metadata);
const METADATA_PROTOBUF: Recipe = Recipe::List(Encoding::Protobuf, Content::Metadata);

const RELIST_HUNDREDTH: &[Recipe] = &relist(Share::Hundredth);
const RELIST_TENTH: &[Recipe] = &relist(Share::Tenth);

const fn relist(share: Share) -> [Recipe; 4] {
    [
        JSON,
        PAGES,
        Recipe::Changed(share),
        Recipe::ChangedPages(share),
    ]
}

impl Work {
    fn line(self) -> Option<&'static Line> {
        TABLE.iter().find(|line| line.work == self)
    }

    /// The work of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = TABLE.iter().find(|line| line.name == name);
        found.map(|line| line.work)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.line().map_or("", |line| line.name)
    }

    /// The scenario's needs of a replay server; `None` if it needs no server.
    #[must_use]
    pub fn needs(self) -> Option<Needs> {
        let (shape, recipes): (_, &[Recipe]) = match self {
            Self::SyncJson | Self::SyncJsonTyped => (Shape::Pods, &[JSON, PAGES]),
            Self::SyncCold => (Shape::Pods, &[JSON]),
            Self::SyncJsonPaged => (Shape::Pods, &[PAGES]),
            Self::SyncStream => (Shape::Pods, &[Recipe::Stream(Encoding::Json)]),
            Self::SyncProtobuf | Self::SyncProtobufOneThread => (Shape::Pods, &[PROTOBUF]),
            Self::SyncMix => (Shape::Mix, &[JSON, PAGES]),
            Self::SyncUnseen => (Shape::Unseen, &[JSON, PAGES]),
            Self::SmallOperator => (Shape::Operator, &[JSON, PAGES]),
            Self::Relist(Share::Hundredth) => (Shape::Pods, RELIST_HUNDREDTH),
            Self::Relist(Share::Tenth) => (Shape::Pods, RELIST_TENTH),
            Self::TouchEverything => (Shape::Pods, &[JSON, PAGES, PROTOBUF]),
            Self::MetadataOnly => (Shape::Pods, &[METADATA, METADATA_PAGES, METADATA_PROTOBUF]),
            Self::IndexList
            | Self::ReadUnderWrite
            | Self::Fanout(_)
            | Self::StalledHandler
            | Self::WriteToReconcile
            | Self::QueueAlone
            | Self::QueueShared(_)
            | Self::DelayedAdds => return None,
        };
        let streams = match self {
            Self::SyncStream => Streams::Served,
            _ => Streams::Refused,
        };
        Some(Needs {
            shape,
            recipes,
            streams,
        })
    }
}

impl Scenario {
    /// The name with the size: `sync-json-100k`.
    #[must_use]
    pub fn title(self) -> String {
        let name = self.work.name();
        match self.size {
            size if size >= 1_000_000 => format!("{name}-{}M", size / 1_000_000),
            size if size >= 1_000 => format!("{name}-{}k", size / 1_000),
            size => format!("{name}-{size}"),
        }
    }

    /// The scenarios of `--quick`: some five minutes in all, after builds.
    #[must_use]
    pub fn quick() -> Vec<Self> {
        Self::of(|line| line.quick)
    }

    /// The scenarios of a full run.
    #[must_use]
    pub fn full() -> Vec<Self> {
        Self::of(|line| line.full)
    }

    fn of(sizes: impl Fn(&Line) -> &'static [usize]) -> Vec<Self> {
        let of = |line: &'static Line| {
            let of_size = |size: &usize| Self {
                work: line.work,
                size: *size,
            };
            sizes(line).iter().map(of_size)
        };
        TABLE.iter().flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_there_and_back() {
        for Line { name, work, .. } in TABLE {
            assert_eq!(Work::named(name), Some(*work));
            assert_eq!(work.name(), *name);
        }
        assert_eq!(Work::named("nothing"), None);
        let scenario = Scenario {
            work: Work::SyncJson,
            size: 300_000,
        };
        assert_eq!(scenario.title(), "sync-json-300k");
        assert!(Scenario::full().contains(&scenario));
        assert!(!Scenario::quick().contains(&scenario));
    }
}
