//! The switches of a network that misbehaves, shared by a socket proxy and a link in process.
//!
//! ```text
//! test ──set, cut, cut_after──▶ Control ──▶ Follower of each connection: may it pass, is it cut
//! ```
//!
//! A connection belongs to the epoch in which it was made; a cut begins the next epoch, and every
//! connection of an older one ends. `cut_after` lets a number of bytes through towards clients, over
//! all connections, and then cuts: that is how a cut hits the middle of a frame, or of a head.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// The treatment of bytes and of new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyMode {
    /// Forwards everything.
    Pass,
    /// Does not listen; open connections continue.
    Refuse,
    /// Accepts, and transfers nothing in either direction.
    Stall,
}

/// A network between clients and a server, on which a test inflicts faults.
pub trait Network: Send + Sync {
    /// Sets the mode from now on.
    fn set(&self, mode: ProxyMode);
    /// Breaks every open connection now.
    fn cut(&self);
    /// Breaks every open connection once `bytes` more bytes have gone to clients.
    fn cut_after(&self, bytes: u64);
    /// Counts the times that clients connected.
    fn connections(&self) -> watch::Receiver<u64>;
}

#[derive(Debug)]
pub(crate) struct Control {
    orders: watch::Sender<Order>,
    // Bytes that may still pass before the cut; all ones for no cut.
    budget: AtomicU64,
    connections: watch::Sender<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Order {
    mode: ProxyMode,
    /// Connections of an older epoch end.
    epoch: u64,
}

const NO_CUT: u64 = u64::MAX;

impl Default for Control {
    fn default() -> Self {
        let order = Order {
            mode: ProxyMode::Pass,
            epoch: 0,
        };
        Self {
            orders: watch::Sender::new(order),
            budget: AtomicU64::new(NO_CUT),
            connections: watch::Sender::new(0),
        }
    }
}

impl Control {
    pub(crate) fn set(&self, mode: ProxyMode) {
        self.orders.send_modify(|order| order.mode = mode);
    }

    pub(crate) fn cut(&self) {
        self.budget.store(NO_CUT, Ordering::Relaxed);
        self.orders.send_modify(|order| order.epoch += 1);
    }

    pub(crate) fn cut_after(&self, bytes: u64) {
        self.budget.store(bytes.min(NO_CUT - 1), Ordering::Relaxed);
    }

    /// The number of these bytes that may go to a client; fewer than `bytes` if the cut follows.
    pub(crate) fn spend(&self, bytes: usize) -> usize {
        let wanted = bytes as u64;
        let take = |left: u64| (left != NO_CUT).then(|| left.saturating_sub(wanted));
        let before = self
            .budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        match before {
            Ok(left) if left < wanted => usize::try_from(left).unwrap_or(bytes),
            Ok(_) | Err(_) => bytes,
        }
    }

    pub(crate) fn connected(&self) {
        self.connections
            .send_modify(|connections| *connections += 1);
    }

    pub(crate) fn connections(&self) -> watch::Receiver<u64> {
        self.connections.subscribe()
    }

    /// For the listener: sees modes. For a connection: it is of the present epoch.
    pub(crate) fn follow(&self) -> Follower {
        let orders = self.orders.subscribe();
        let epoch = orders.borrow().epoch;
        Follower { orders, epoch }
    }
}

/// A connection's or a listener's view of the switches. The control must outlive it.
#[derive(Debug, Clone)]
pub(crate) struct Follower {
    orders: watch::Receiver<Order>,
    epoch: u64,
}

impl Follower {
    pub(crate) fn mode(&mut self) -> ProxyMode {
        self.orders.borrow_and_update().mode
    }

    /// Waits for a new order; false if there will never be one.
    pub(crate) async fn changed(&mut self) -> bool {
        self.orders.changed().await.is_ok()
    }

    /// Waits until bytes may move.
    pub(crate) async fn passing(&mut self) {
        let _ = self
            .orders
            .wait_for(|order| order.mode != ProxyMode::Stall)
            .await;
    }

    /// Waits until this connection is cut.
    pub(crate) async fn cut(&mut self) {
        let epoch = self.epoch;
        let _ = self.orders.wait_for(|order| order.epoch != epoch).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_and_then_cuts() {
        let control = Control::default();
        assert_eq!(control.spend(10), 10);
        control.cut_after(15);
        assert_eq!(control.spend(10), 10);
        assert_eq!(control.spend(5), 5);
        assert_eq!(control.spend(5), 0);
        control.cut();
        assert_eq!(control.spend(10), 10);
    }
}
