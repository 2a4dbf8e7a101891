//! Renewals while every worker thread of the operator is blocked and its main connection stands still.
//!
//! ```text
//! replica ─ proxy ─ server      stall: bytes of all connections wait, but of those that carry /leases
//!    └── leads 1, blocked N ─▶ the bench stalls ─▶ samples of the term by the clock ─▶ outside COUNT
//! ```

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::watch;

use super::Timings;
use super::cluster::Cluster;
use super::process::{Process, tell};
use super::replica::operator;
use crate::subject::Failed;

/// Threads of the runtime, each of which is blocked.
const WORKERS: usize = 2;
/// From one look at the term to the next.
const SAMPLE: Duration = Duration::from_millis(50);

/// The findings of one run.
#[derive(Clone, Copy, Debug)]
pub struct Renewals {
    /// Renewals that the server accepted meanwhile.
    pub renewed: usize,
    /// Looks at the clock that found no term, and one more if the term is another at the end.
    pub lost: usize,
}

/// Leads, blocks all threads of its runtime for `span`, and looks at its term meanwhile.
///
/// # Errors
/// The operator cannot be made.
pub fn run(objects: usize, span: Duration) -> Result<(), Failed> {
    let mut builder = Builder::new_multi_thread();
    let runtime = builder.worker_threads(WORKERS).enable_all().build()?;
    let operator = runtime.block_on(operator(Timings::Default, objects))?;
    let running = operator.clone();
    drop(runtime.spawn(async move { running.run().await }));
    while operator.term().is_none() {
        block(SAMPLE);
    }
    let term = operator.term().map(|term| term.version);
    // Tasks of this thread wait where any worker finds them, so each worker takes one.
    let blocked = Arc::new(Barrier::new(WORKERS + 1));
    for _ in 0..WORKERS {
        let blocked = Arc::clone(&blocked);
        drop(runtime.spawn(async move {
            blocked.wait();
            block(span);
        }));
    }
    blocked.wait();
    let began = Instant::now();
    tell("blocked", WORKERS);
    let mut outside = 0;
    // The workers are blocked until the last look.
    while began.elapsed() + 2 * SAMPLE < span {
        outside += usize::from(operator.term().is_none());
        block(SAMPLE);
    }
    let same = operator.term().map(|term| term.version) == term;
    tell("outside", outside + usize::from(!same));
    // The process ends here: the bench has what it asked for.
    runtime.shutdown_background();
    Ok(())
}

/// Blocks this thread.
fn block(span: Duration) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        std::thread::park_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// Runs such a replica behind a proxy that stalls, on an embedded server.
///
/// # Errors
/// The replica fails, or the cluster is not an embedded server.
pub async fn renewals(
    cluster: &Cluster,
    directory: &Path,
    objects: usize,
    span: Duration,
) -> Result<Renewals, Failed> {
    let server = cluster.server.as_ref().ok_or("needs an embedded server")?;
    let address = server.address().ok_or("the server has no address")?;
    let (stall, stalled) = watch::channel(false);
    let proxy = TcpListener::bind("127.0.0.1:0").await?;
    let through = format!("http://{}", proxy.local_addr()?);
    let proxy = tokio::spawn(relay(proxy, address, stalled));
    let kubeconfig = directory.join("kubeconfig-of-the-proxy");
    let text = server.kubeconfig().replace(&server.url(), &through);
    std::fs::write(&kubeconfig, text)?;
    let words = [objects.to_string(), span.as_secs().to_string()];
    let words = ["blocked", &words[0], &words[1]];
    let mut replica = Process::start(Some(&kubeconfig), &words)?;
    replica.wait_for("blocked").await?;
    stall.send_replace(true);
    let renewed = || {
        let journal = server.journal();
        journal.count("update", "leases") + journal.count("patch", "leases")
    };
    let before = renewed();
    let lost = replica.wait_for("outside").await? as usize;
    let renewed = renewed() - before;
    replica.ended().await?;
    proxy.abort();
    Ok(Renewals { renewed, lost })
}

/// Relays connections until it is aborted.
async fn relay(listener: TcpListener, to: SocketAddr, stalled: watch::Receiver<bool>) {
    while let Ok((client, _)) = listener.accept().await {
        let stalled = stalled.clone();
        // It ends with either side, or with this process.
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(to).await else {
                return;
            };
            let (is_lease, sees_lease) = watch::channel(false);
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let gate = Gate {
                stalled,
                sees_lease,
            };
            let (up, down) = (gate.clone(), gate);
            let requests = async {
                let mut bytes = vec![0; 64 << 10];
                while let Ok(length @ 1..) = from_client.read(&mut bytes).await {
                    let piece = &bytes[..length];
                    if piece.windows(8).any(|window| window == b"/leases/") {
                        is_lease.send_replace(true);
                    }
                    up.opens().await;
                    if to_server.write_all(piece).await.is_err() {
                        return;
                    }
                }
            };
            let replies = async {
                let mut bytes = vec![0; 64 << 10];
                while let Ok(length @ 1..) = from_server.read(&mut bytes).await {
                    down.opens().await;
                    if to_client.write_all(&bytes[..length]).await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                biased;
                () = requests => {}
                () = replies => {}
            }
        });
    }
}

/// Holds a connection while the proxy is stalled, unless it is one of the lease.
#[derive(Clone)]
struct Gate {
    stalled: watch::Receiver<bool>,
    sees_lease: watch::Receiver<bool>,
}

impl Gate {
    fn opens(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut stalled = self.stalled.clone();
        let is_lease = *self.sees_lease.borrow();
        async move {
            if !is_lease {
                // The bench that stalls has gone: so will this.
                let _ = stalled.wait_for(|stalled| !stalled).await;
            }
        }
    }
}
