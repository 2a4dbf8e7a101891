//! A peer that vanishes without a word: `cargo run -p kinform --example dead_peer`.
//!
//! ```text
//! namespace A: informer ── veth ── namespace B: API server, whose address is taken away
//! ```
//!
//! Two network namespaces on this machine, real sockets, real time. The address of the server goes
//! while a watch is idle: nothing is reset, nothing is answered. The kernel must notice by itself, so
//! the limit for silent streams is out of the way. Prints how long it took; fails if it is longer
//! than 30 s. Where no namespaces can be made it says so loudly, and checks nothing.

#![expect(clippy::print_stdout, reason = "it prints what it measured")]

use std::error::Error;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::{ClientOptions, client_for};
use kinform::{InformerFactory, ReflectorOptions};
use kinform_apiserver::Server;
use kube_client::Config;
use tokio::net::{TcpListener, TcpStream};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const NOTICED_WITHIN: Duration = Duration::from_secs(30);

fn main() -> Outcome {
    match std::env::args().nth(1).as_deref() {
        Some("client") => block_on(client()),
        Some("server") => block_on(server()),
        _ => in_a_namespace(),
    }
}

fn in_a_namespace() -> Outcome {
    let is_possible = Command::new("unshare").args(["-rn", "true"]).status();
    if !is_possible.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no network namespaces can be made here; nothing was checked");
        return Ok(());
    }
    let status = Command::new("unshare")
        .arg("-rn")
        .arg(std::env::current_exe()?)
        .arg("client")
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("the dead peer was not noticed in time".into())
    }
}

fn block_on(work: impl Future<Output = Outcome>) -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build()?;
    runtime.block_on(work)
}

fn ip(command: &str) -> Outcome {
    let status = Command::new("ip").args(command.split(' ')).status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("ip {command}: {status}").into())
    }
}

/// The other process; both sides exchange single lines.
struct Peer {
    process: Child,
    tell: ChildStdin,
    told: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start() -> Outcome<Self> {
        let mut process = Command::new("unshare")
            .arg("-n")
            .arg(std::env::current_exe()?)
            .arg("server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let tell = process.stdin.take().ok_or("no stdin")?;
        let told = process.stdout.take().ok_or("no stdout")?;
        Ok(Self {
            process,
            tell,
            told: BufReader::new(told).lines(),
        })
    }

    fn ask(&mut self, command: &str) -> Outcome<String> {
        writeln!(self.tell, "{command}")?;
        Ok(self.told.next().ok_or("the server ended")??)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn client() -> Outcome {
    let mut peer = Peer::start()?;
    peer.ask("are you in your namespace")?;
    ip("link add here type veth peer name there address 02:00:00:00:00:02")?;
    ip(&format!("link set there netns {}", peer.process.id()))?;
    ip("addr add 10.77.0.1/24 dev here")?;
    ip("link set here up")?;
    // No question about its hardware address is asked once it is gone.
    ip("neigh replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev here")?;
    let token = peer.ask("serve")?;
    let mut config = Config::new("http://10.77.0.2:8080".parse()?);
    config.auth_info.token = Some(token.into());
    let factory = InformerFactory::builder(client_for(config, &ClientOptions::default())?)
        .reflector(ReflectorOptions::new().with_silence_limit(Duration::from_secs(3600)))
        .build();
    let maps = factory.informer::<ConfigMap>();
    factory.start()?;
    factory.synced_within(Duration::from_secs(10)).await?;
    peer.ask("vanish")?;
    let vanished = Instant::now();
    // The numbers say when the watch has ended; the next request says why nobody answers.
    while maps.stats().watch_time.is_zero() && vanished.elapsed() < NOTICED_WITHIN * 4 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let waited = vanished.elapsed();
    println!("noticed after {:.1} s", waited.as_secs_f64());
    factory.shutdown_within(Duration::from_secs(1)).await;
    if waited <= NOTICED_WITHIN {
        Ok(())
    } else {
        Err("too late".into())
    }
}

async fn server() -> Outcome {
    let mut told = std::io::stdin().lines();
    let mut next = move || told.next().ok_or("the client ended");
    next()??;
    println!("yes");
    next()??;
    ip("addr add 10.77.0.2/24 dev there")?;
    ip("link set there up")?;
    ip("link set lo up")?;
    let server = Server::builder().plain().start().await?;
    let address = server.address().ok_or("no address")?;
    let front = TcpListener::bind("10.77.0.2:8080").await?;
    tokio::spawn(async move {
        // A plain server stays on loopback: what comes is passed on.
        while let Ok((mut outside, _)) = front.accept().await {
            tokio::spawn(async move {
                let mut inside = TcpStream::connect(address).await?;
                tokio::io::copy_bidirectional(&mut outside, &mut inside).await
            });
        }
    });
    println!("{}", server.token());
    next()??;
    ip("addr del 10.77.0.2/24 dev there")?;
    println!("gone");
    // Until the client ends this process.
    let _ = next();
    Ok(())
}
