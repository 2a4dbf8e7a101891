//! Hostile servers over real sockets: nothing that they send costs more than a bounded memory and time.
//!
//! ```text
//! test ──▶ this binary again, one test alone ──▶ Hostile server ──▶ informer ──▶ error, peak memory, time
//! ```
//!
//! Each case runs in a process of its own, whose peak of resident memory is read from the kernel: 300 MB
//! and 60 s are the bounds of each. The server is in the same process; it sends one piece of memory
//! again and again. The figures are printed: `cargo test --test it hostile -- --nocapture`.

#![expect(
    clippy::print_stdout,
    reason = "the figures are the result of these tests"
)]

mod heads;
mod lists;
mod server;
mod streams;

use std::process::Command;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::source::{ClientOptions, Compression, client_for};
use kinform::{
    CacheLimits, Informer, InformerFactory, InformerState, ReflectorOptions, StreamingList,
};
use kinform_core::backoff::BackoffPolicy;

use self::server::Hostile;

/// BOUND: the peak of resident memory of a case, in KiB.
const MOST_KIB: u64 = 300_000;
/// BOUND: the time of a case.
const MOST_TIME: Duration = Duration::from_secs(60);
/// Set in the process of a case.
const ALONE: &str = "KINFORM_HOSTILE_ALONE";
const SECOND: Duration = Duration::from_secs(1);

/// The peak of resident memory of this process in KiB; 0 where the kernel does not say.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Runs a case in a process of its own, and checks what it took.
fn alone(name: &str, case: impl Future<Output = ()>) {
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(case);
        println!("\npeak {} KiB", peak_kib());
        return;
    }
    let path = format!("hostile::{name}");
    let begin = Instant::now();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &path, "--nocapture", "--test-threads", "1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let took = begin.elapsed();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path}:\n{text}\n{errors}");
    let peak = text.lines().find_map(|line| line.strip_prefix("peak "));
    let peak = peak.and_then(|rest| rest.split(' ').next()?.parse().ok());
    let peak: u64 = peak.unwrap_or_else(|| panic!("{path} did not run:\n{text}"));
    println!("{name}: {} MB, {:.1} s", peak / 1000, took.as_secs_f64());
    assert!(peak < MOST_KIB, "{path}: {peak} KiB");
    assert!(took < MOST_TIME, "{path}: {took:?}");
}

/// An informer of config maps that a hostile server answers.
struct Victim {
    factory: InformerFactory,
    informer: Informer<ConfigMap>,
}

/// Limits under which a case lasts seconds.
fn options() -> ReflectorOptions {
    let backoff = BackoffPolicy {
        first: SECOND / 10,
        cap: SECOND / 2,
        ..BackoffPolicy::default()
    };
    ReflectorOptions::new()
        .with_streaming_list(StreamingList::Never)
        .with_list_deadline(5 * SECOND)
        .with_progress_limit(5 * SECOND)
        .with_silence_limit(5 * SECOND)
        .with_backoff(backoff)
        .with_cache_limits(CacheLimits {
            objects: 50_000,
            bytes: 64 << 20,
        })
}

impl Victim {
    fn of(server: &Hostile, options: ReflectorOptions) -> Self {
        Self::with(server, options, Compression::Identity)
    }

    fn with(server: &Hostile, options: ReflectorOptions, compression: Compression) -> Self {
        let client = client_for(server.config(), &ClientOptions::default()).unwrap();
        let factory = InformerFactory::builder(client)
            .reflector(options)
            .compression(compression)
            .build();
        let informer = factory.informer::<ConfigMap>();
        factory.start().unwrap();
        Self { factory, informer }
    }

    /// Waits for a failure of this reason.
    async fn fails(&self, reason: &str) {
        let is_meant = |state: &InformerState| {
            let trouble = state.trouble();
            trouble.is_some_and(|trouble| trouble.reason == reason)
        };
        let waited = tokio::time::timeout(30 * SECOND, self.informer.state_when(is_meant));
        let state = self.informer.state();
        assert!(
            waited.await.is_ok(),
            "{state}, then {}, {:?}",
            self.informer.state(),
            self.informer.stats()
        );
    }

    /// Waits until the statistics say so.
    async fn until(&self, holds: impl Fn(&kinform::InformerStats) -> bool) {
        let begin = Instant::now();
        while !holds(&self.informer.stats()) {
            assert!(begin.elapsed() < 30 * SECOND, "{:?}", self.informer.stats());
            tokio::time::sleep(SECOND / 50).await;
        }
    }

    /// Ends soon, whatever the server does.
    async fn end(self) {
        let begin = Instant::now();
        self.factory.shutdown_within(5 * SECOND).await;
        println!("ended in {:?}", begin.elapsed());
        assert!(begin.elapsed() < 7 * SECOND, "{:?}", begin.elapsed());
        assert_eq!(self.factory.task_count(), 0);
    }
}
