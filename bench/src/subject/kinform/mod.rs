//! kinform, as its users run it: informers of a factory.
//!
//! ```text
//! Task ─▶ sync | reads | queue ─▶ readings
//! ```

mod controller;
mod fanout;
mod paced;
mod planted;
mod queue;
mod reads;
mod sync;

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Failed, Task};
use crate::row::Reading;
use crate::scenario::Work;

/// Does the task.
///
/// # Errors
/// The server cannot be reached, or does not do what it must.
pub fn run(task: &Task) -> BoxFuture<'_, Result<Vec<Reading>, Failed>> {
    // Boxed, so that it is compiled here, once, and not in each program.
    answer(task).boxed()
}

async fn answer(task: &Task) -> Result<Vec<Reading>, Failed> {
    match task.work {
        Work::Fanout(handlers) => fanout::run(task, handlers).await,
        Work::WriteToReconcile => controller::run(task).await,
        Work::StalledHandler => fanout::stalled(task).await,
        Work::QueueAlone => queue::alone(task).await,
        Work::QueueShared(workers) => queue::shared(task, workers).await,
        Work::DelayedAdds => queue::delayed(task),
        Work::IndexList => reads::index_list(task).await,
        Work::ReadUnderWrite => reads::read_under_write(task).await,
        Work::Relist(_) => sync::relist(task).await,
        Work::SyncCold => sync::cold(task).await,
        Work::MetadataOnly => sync::metadata(task).await,
        Work::SyncMix | Work::SyncUnseen | Work::SmallOperator => sync::several(task).await,
        Work::TouchEverything | Work::SyncJsonTyped => sync::typed(task).await,
        Work::SyncJson
        | Work::SyncJsonPaged
        | Work::SyncStream
        | Work::SyncProtobuf
        | Work::SyncProtobufOneThread => sync::plain(task).await,
    }
}
