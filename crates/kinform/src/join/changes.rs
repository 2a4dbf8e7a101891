//! The changes of a view, as a stream.
//!
//! ```text
//! both synced ─▶ all rows, then: roots moved ─▶ differences of both sides ─▶ keys ─▶ rows that differ
//! ```
//!
//! A step compares the pair of roots that was told with the newest one. A change of the right side
//! concerns the left objects that name it, before or now, by the index. So a stream that is slow
//! costs two roots, and hears each row's newest state.
//!
//! # Order guarantees
//! For one key: a row that comes, its changes, its end. `old` is what this stream told last.
//!
//! Upstream counterpart: none.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::Stream;
use futures::future::{Either, select, try_join};
use futures::stream::{self, BoxStream, StreamExt};
use kinform_api::ObjectKey;

use super::{JoinSnapshot, Row, View};
use crate::handler::Notification;
use crate::store::Snapshot;

/// A row that came, changed or ended.
pub struct RowChange<K, T> {
    /// The key of the left object.
    pub key: ObjectKey,
    /// The row that was told last; `None` if there was none.
    pub old: Option<Row<K, T>>,
    /// The row now; `None` if the left object is gone.
    pub new: Option<Row<K, T>>,
}

/// The changes of a view: first all rows, once both caches are synced. It ends when one of the
/// informers has.
pub struct RowChanges<K, T>(BoxStream<'static, RowChange<K, T>>);

struct Cursor<K, T> {
    view: View<K, T>,
    /// `None` before the first rows.
    told: Option<JoinSnapshot<K, T>>,
    step: Option<Step<K, T>>,
    is_over: bool,
}

/// The way from one moment to another.
struct Step<K, T> {
    from: Option<JoinSnapshot<K, T>>,
    to: JoinSnapshot<K, T>,
    keys: VecDeque<ObjectKey>,
}

impl<K: Send + Sync + 'static, T: Send + Sync + 'static> View<K, T> {
    /// The changes from now on, all rows first.
    ///
    /// Cancel safety: nothing is lost by dropping a wait for the next one.
    pub fn changes(&self) -> RowChanges<K, T> {
        let cursor = Cursor {
            view: self.clone(),
            told: None,
            step: None,
            is_over: false,
        };
        let changes = stream::unfold(cursor, |mut cursor| async move {
            let change = cursor.next().await?;
            Some((change, cursor))
        });
        RowChanges(changes.boxed())
    }
}

impl<K: Send + Sync + 'static, T: Send + Sync + 'static> Cursor<K, T> {
    async fn next(&mut self) -> Option<RowChange<K, T>> {
        loop {
            while let Some(step) = &mut self.step {
                match step.next() {
                    Some(change) => return Some(change),
                    None => self.told = self.step.take().map(|step| step.to),
                }
            }
            if self.is_over {
                return None;
            }
            if self.told.is_none() {
                let (left, right) = (self.view.left.synced(), self.view.right.synced());
                try_join(left, right).await.ok()?;
            } else {
                self.is_over = self.moved().await;
            }
            let from = self.told.take();
            self.step = Some(Step::between(from, self.view.snapshot()));
        }
    }

    /// Waits until one of the sides is not what was told; returns whether one of them has ended.
    async fn moved(&self) -> bool {
        let Some(told) = &self.told else { return false };
        let left = self.view.left.moved_from(&told.left);
        let right = self.view.right.moved_from(&told.right);
        match select(Box::pin(left), Box::pin(right)).await {
            Either::Left((moved, _)) | Either::Right((moved, _)) => moved.is_err(),
        }
    }
}

impl<K, T> Step<K, T> {
    fn between(from: Option<JoinSnapshot<K, T>>, to: JoinSnapshot<K, T>) -> Self {
        let keys = match &from {
            None => to.left.list().keys().into_iter().collect(),
            Some(from) => concerned(from, &to).into_iter().collect(),
        };
        Self { from, to, keys }
    }

    /// The next row that differs.
    fn next(&mut self) -> Option<RowChange<K, T>> {
        while let Some(key) = self.keys.pop_front() {
            let old = self.from.as_ref().and_then(|from| from.get(&key));
            let new = self.to.get(&key);
            if old != new {
                return Some(RowChange { key, old, new });
            }
        }
        None
    }
}

/// The keys of the left side whose rows may differ.
fn concerned<K, T>(from: &JoinSnapshot<K, T>, to: &JoinSnapshot<K, T>) -> BTreeSet<ObjectKey> {
    let mut keys = changed(&from.left, &to.left);
    for named in changed(&from.right, &to.right) {
        for side in [from, to] {
            keys.extend(side.naming(&named).iter().map(|one| one.key()));
        }
    }
    keys
}

/// The keys of the objects that differ.
fn changed<K>(from: &Snapshot<K>, to: &Snapshot<K>) -> BTreeSet<ObjectKey> {
    let key = |change: &Notification<K>| change.object().map(|object| object.key());
    match from.changes_with_what_left(to) {
        Ok(changes) => changes.filter_map(|change| key(&change)).collect(),
        // Namespaces came or went.
        Err(_) => {
            let sides = [from, to].into_iter();
            sides.flat_map(|side| side.list().keys()).collect()
        }
    }
}

impl<K, T> Stream for RowChanges<K, T> {
    type Item = RowChange<K, T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(cx)
    }
}

impl<K, T> fmt::Debug for RowChanges<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowChanges")
    }
}

impl<K, T> fmt::Debug for RowChange<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowChange")
            .field("key", &self.key)
            .field("old", &self.old)
            .field("new", &self.new)
            .finish()
    }
}
