//! A Service's endpoints on loopback: connections to a port go to the replicas that are ready.
//!
//! ```text
//! API server ─▶ 127.0.0.1:port ─in turns─▶ webhooks' ports of replicas ◀─/readyz, every 50 ms─ those that are ready
//! ```
//!
//! As in a cluster, a connection that exists stays with its replica, ready or not, and a replica is
//! chosen once for a connection. One that cannot be reached loses the connection: nothing is tried
//! again.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kinform_testkit::checks::stage::StageError;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::process::get;

/// The interval at which readiness is read; a kubelet's is seconds.
const INTERVAL: Duration = Duration::from_millis(50);

/// The ports of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    /// The port with `/readyz`.
    pub probes: SocketAddr,
    /// The port that gets connections.
    pub webhooks: SocketAddr,
}

#[derive(Debug, Default)]
struct Replicas {
    all: Mutex<Vec<(Replica, bool)>>,
    turn: AtomicUsize,
}

/// The port, and the tasks that serve it; they end when it is dropped.
#[derive(Debug)]
pub struct Balancer {
    port: u16,
    replicas: Arc<Replicas>,
    _tasks: JoinSet<()>,
}

impl Balancer {
    /// Begins without replicas.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start() -> Result<Self, StageError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let replicas = Arc::<Replicas>::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&replicas)));
        tasks.spawn(follow(Arc::clone(&replicas)));
        Ok(Self {
            port,
            replicas,
            _tasks: tasks,
        })
    }

    /// The port that leads to the replicas.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Adds a replica; it gets connections once it is ready.
    pub fn add(&self, replica: Replica) {
        self.replicas.lock().push((replica, false));
    }

    /// Forgets a replica that has ended.
    pub fn remove(&self, replica: Replica) {
        self.replicas.lock().retain(|(known, _)| *known != replica);
    }

    /// The number of replicas that get connections.
    pub fn ready(&self) -> usize {
        self.replicas
            .lock()
            .iter()
            .filter(|(_, ready)| *ready)
            .count()
    }
}

impl Replicas {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Replica, bool)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<SocketAddr> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let all = self.lock();
        let ready: Vec<_> = all.iter().filter(|(_, ready)| *ready).collect();
        let (replica, _) = ready.get(turn.checked_rem(ready.len())?)?;
        Some(replica.webhooks)
    }
}

async fn accept(listener: TcpListener, replicas: Arc<Replicas>) {
    // BOUND: the API server's connections.
    let mut connections = JoinSet::new();
    while let Ok((mut client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let Some(replica) = replicas.next() else {
            continue;
        };
        connections.spawn(async move {
            if let Ok(mut upstream) = TcpStream::connect(replica).await {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
            }
        });
    }
}

async fn follow(replicas: Arc<Replicas>) {
    loop {
        let all: Vec<Replica> = replicas
            .lock()
            .iter()
            .map(|(replica, _)| *replica)
            .collect();
        for replica in all {
            let is_ready = get(replica.probes, "/readyz")
                .await
                .is_ok_and(|(code, _)| code == 200);
            let mut known = replicas.lock();
            if let Some(known) = known.iter_mut().find(|(known, _)| *known == replica) {
                known.1 = is_ready;
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
