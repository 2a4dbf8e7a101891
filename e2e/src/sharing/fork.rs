//! Two API servers at one address, of which now the one answers and now the other.
//!
//! ```text
//! client ─▶ 127.0.0.1:port ─▶ the server whose turn it is        dice: another turn, connections cut
//! ```
//!
//! It copies bytes, so both servers need the same certificate and the same users. A turn is for new
//! connections; at half of the turns those that are open are closed.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kinform_testkit::checks::stage::StageError;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::dice::Dice;

/// Seconds of a turn: this, and up to as many more.
const TURN: u64 = 3;

/// The address, and the tasks that serve it; they end when it is dropped.
#[derive(Debug)]
pub struct Fork {
    address: SocketAddr,
    turns: Arc<AtomicUsize>,
    /// Connections to each server.
    served: Arc<[AtomicUsize; 2]>,
    _tasks: JoinSet<()>,
}

impl Fork {
    /// Begins with the first server.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(servers: [SocketAddr; 2], seed: u64) -> Result<Self, StageError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let turns = Arc::<AtomicUsize>::default();
        let served = Arc::<[AtomicUsize; 2]>::default();
        let (cut, cuts) = watch::channel(());
        let mut tasks = JoinSet::new();
        let (now, count) = (Arc::clone(&turns), Arc::clone(&served));
        tasks.spawn(accept(listener, servers, (now, count), cuts));
        tasks.spawn(turn(Dice::new(seed ^ 0xf0), Arc::clone(&turns), cut));
        Ok(Self {
            address,
            turns,
            served,
            _tasks: tasks,
        })
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of changes so far.
    pub fn turns(&self) -> usize {
        self.turns.load(Ordering::Relaxed)
    }

    /// The connections that each server has had.
    pub fn served(&self) -> [usize; 2] {
        [0, 1].map(|server| self.served[server].load(Ordering::Relaxed))
    }
}

async fn accept(
    listener: TcpListener,
    servers: [SocketAddr; 2],
    (turns, served): (Arc<AtomicUsize>, Arc<[AtomicUsize; 2]>),
    cuts: watch::Receiver<()>,
) {
    // BOUND: the connections of a few replicas.
    let mut connections = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let turn = turns.load(Ordering::Relaxed) % 2;
        let server = servers[turn];
        let served = Arc::clone(&served);
        let mut cuts = cuts.clone();
        cuts.mark_unchanged();
        connections.spawn(async move {
            let Ok(mut server) = TcpStream::connect(server).await else {
                return;
            };
            served[turn].fetch_add(1, Ordering::Relaxed);
            tokio::select! {
                biased;
                _ = cuts.changed() => {}
                _ = tokio::io::copy_bidirectional(&mut client, &mut server) => {}
            }
        });
    }
}

async fn turn(mut dice: Dice, turns: Arc<AtomicUsize>, cut: watch::Sender<()>) {
    loop {
        let seconds = TURN + dice.below(TURN + 1);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        turns.fetch_add(1, Ordering::Relaxed);
        if dice.one_in(2) {
            let _ = cut.send(());
        }
    }
}
