//! A port as the harness sees it: its objects, the writes of others, and what must hold in the end.
//!
//! ```text
//! Port ─▶ seed, toggle, create, delete ─▶ the cluster ─▶ unsettled
//! Writes<P> ─▶ the same writes for both columns
//! ```

use std::marker::PhantomData;

use kube::CustomResourceExt;

use crate::measure::Plan;
use crate::{Cluster, Column, StageError};

/// A port. All functions are requests of others than the controller.
#[expect(async_fn_in_trait, reason = "called from one task")]
pub trait Port {
    /// The name of its package.
    const NAME: &'static str;
    /// The type of its primary objects.
    type Object: CustomResourceExt;

    /// The amounts of its table.
    fn plan() -> Plan;

    /// Makes objects as the controller of this column leaves them when it has worked.
    ///
    /// # Errors
    /// The server refuses.
    async fn seed(cluster: &Cluster, column: Column, count: usize) -> Result<(), StageError>;

    /// Changes a seeded object to one of two forms, of which it has the one that is not `on`.
    ///
    /// # Errors
    /// The server refuses.
    async fn toggle(cluster: &Cluster, number: usize, on: bool) -> Result<(), StageError>;

    /// Creates a further object.
    ///
    /// # Errors
    /// The server refuses.
    async fn create(cluster: &Cluster, name: &str) -> Result<(), StageError>;

    /// Deletes it.
    ///
    /// # Errors
    /// The server refuses.
    async fn delete(cluster: &Cluster, name: &str) -> Result<(), StageError>;

    /// The names of objects whose state is not what they ask for.
    ///
    /// # Errors
    /// The server refuses.
    async fn unsettled(cluster: &Cluster) -> Result<Vec<String>, StageError>;
}

/// A stream of writes: the same for each column.
#[derive(Debug)]
pub struct Writes<P> {
    on: Vec<bool>,
    made: usize,
    done: usize,
    dice: u64,
    port: PhantomData<P>,
}

impl<P: Port> Writes<P> {
    /// Writes to this number of seeded objects.
    #[must_use]
    pub fn new(seeded: usize) -> Self {
        let on = vec![false; seeded];
        Self {
            on,
            made: 0,
            done: 0,
            dice: 1,
            port: PhantomData,
        }
    }

    /// The number of writes until now.
    #[must_use]
    pub fn done(&self) -> usize {
        self.done
    }

    /// Changes a seeded object.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn toggle(&mut self, cluster: &Cluster) -> Result<(), StageError> {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let chosen = (self.dice >> 33) as usize % self.on.len();
        self.on[chosen] = !self.on[chosen];
        P::toggle(cluster, chosen, self.on[chosen]).await?;
        self.done += 1;
        Ok(())
    }

    /// Creates an object, or deletes the one that was created last.
    ///
    /// # Errors
    /// The server refuses.
    pub async fn come_or_go(&mut self, cluster: &Cluster) -> Result<(), StageError> {
        let name = format!("extra-{}", self.made / 2);
        if self.made.is_multiple_of(2) {
            P::create(cluster, &name).await?;
        } else {
            P::delete(cluster, &name).await?;
        }
        self.made += 1;
        self.done += 1;
        Ok(())
    }
}
