//! The cells of the matrix, and the loop over them.
//!
//! ```text
//! "F8 json x list,stream x in-order" ──▶ [Cell { wire, way, policy }] ──▶ one paused runtime each
//! ```
//!
//! Never: a real clock; a test that needs sockets takes the words of its cells from [`cells`].

use std::fmt;

use kinform::source::Wire;
use kinform::{FifoPolicy, ReflectorOptions, StreamingList};

use super::Check;

/// One cell: the encoding, the way of the first list, the policy of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) wire: Wire,
    pub(crate) way: Way,
    pub(crate) policy: FifoPolicy,
}

/// The way in which a state is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In pages, then a watch.
    List,
    /// As a streaming list, which becomes the watch.
    Stream,
}

impl Cell {
    /// The options of a reflector that lists in this way.
    pub(crate) fn options(self) -> ReflectorOptions {
        ReflectorOptions::new().with_streaming_list(match self.way {
            Way::List => StreamingList::Never,
            Way::Stream => StreamingList::Preferred,
        })
    }

    /// The verb of the request that lists everything.
    pub(crate) fn list_verb(self) -> &'static str {
        match self.way {
            Way::List => "list",
            Way::Stream => "watch",
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}, {:?}", self.wire, self.way, self.policy)
    }
}

/// The cells that a line names: `F8 json,protobuf x list,stream x in-order,coalescing`.
pub(crate) fn cells(line: &str) -> Vec<Cell> {
    let (_, axes) = line.split_once(' ').unwrap();
    let axes: Vec<Vec<&str>> = axes
        .split(" x ")
        .map(|axis| axis.split(',').collect())
        .collect();
    let [wires, ways, policies] = &axes[..] else {
        panic!("{line:?} has three axes");
    };
    let mut cells = Vec::new();
    for wire in wires {
        for way in ways {
            cells.extend(policies.iter().map(|policy| cell(wire, way, policy)));
        }
    }
    cells
}

fn cell(wire: &str, way: &str, policy: &str) -> Cell {
    Cell {
        wire: match wire {
            "json" => Wire::Json,
            "protobuf" => Wire::Auto,
            other => panic!("no encoding is called {other}"),
        },
        way: match way {
            "list" => Way::List,
            "stream" => Way::Stream,
            other => panic!("no way to list is called {other}"),
        },
        policy: match policy {
            "in-order" => FifoPolicy::InOrder,
            "coalescing" => FifoPolicy::Coalescing,
            other => panic!("no policy is called {other}"),
        },
    }
}

/// Runs a test in each cell that its line names, each in a runtime of its own under paused time.
pub(crate) fn each(line: &str, test: impl AsyncFn(Cell) -> Check) {
    for cell in cells(line) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        if let Err(why) = runtime.block_on(test(cell)) {
            panic!("{line}: in {cell}: {why}");
        }
    }
}

/// Runs a test in each cell that its line names, all at once over sockets.
pub(crate) fn each_live(line: &str, test: impl AsyncFn(Cell) -> Check) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let cells = cells(line);
    let all = cells.iter().map(|cell| test(*cell));
    let results = runtime.block_on(futures::future::join_all(all));
    for (cell, result) in cells.iter().zip(results) {
        if let Err(why) = result {
            panic!("{line}: in {cell}: {why}");
        }
    }
}
