//! The memory that a store says it holds, compared with what the process takes from the system.
//!
//! ```text
//! VmRSS before │ a store of pods, indexes, forms │ VmRSS after ─▶ growth, beside Writer::holds
//! ```
//!
//! A binary of its own, and one test in it: resident memory is of the whole process. Linux alone has the file
//! that is read; elsewhere nothing is compared.
#![expect(clippy::unwrap_used, reason = "a test may unwrap")]

use kinform_core::delta::Delta;
use kinform_core::informer::ring::RingLimits;
use kinform_core::informer::writer::Writer;
use kinform_core::object::Object;
use kinform_core::store::directory::Seed;
use kinform_core::store::index::Index;

/// Bytes of anonymous memory that are resident; `None` if the system does not say.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: usize = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

/// A pod of some 2 KB, of which a part is its own.
fn pod(n: u64) -> Object {
    let own = |salt: u64| {
        (n + 1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(salt as u32)
    };
    let option = |i: u64| format!(r#"{{"name":"OPTION_{i}","value":"{:x}"}}"#, own(i) >> 40);
    let env: Vec<_> = (0..20).map(option).collect();
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns-{}","name":"pod-{n}","uid":"{:016x}-{:08x}","resourceVersion":"{}","labels":{{"app":"app-{}","pod-template-hash":"{:x}"}}}},"spec":{{"nodeName":"node-{}","containers":[{{"name":"main","image":"registry.example.com/app:{}","env":[{}]}}]}},"status":{{"phase":"Running","podIP":"10.{}.{}.{}"}}}}"#,
        n % 40,
        own(1),
        own(2) >> 32,
        n + 1,
        n % 200,
        own(3) >> 30,
        n % 300,
        n % 7,
        env.join(","),
        own(4) % 250,
        own(5) % 250,
        own(6) % 250,
    );
    Object::from_json(json.as_bytes(), &Default::default()).unwrap()
}

/// The form of a run: each is a process of its own, since memory that was given back stays resident for a while.
const RUN: &str = "KINFORM_RESIDENT_RUN";
const PODS: u64 = 20_000;

#[test]
fn what_a_store_says_it_holds_is_what_the_process_grows_by() {
    for run in ["whole", "compressed"] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "one_run", "--nocapture"])
            .env(RUN, run);
        assert!(child.status().unwrap().success(), "{run}");
    }
}

#[test]
fn one_run() {
    let (Ok(run), Some(start)) = (std::env::var(RUN), resident()) else {
        return;
    };
    let indexes = [
        Index::label("app"),
        Index::path("spec.nodeName".parse().unwrap()),
        Index::path("status.podIP".parse().unwrap()),
    ];
    let mut writer = Writer::new(indexes, Seed(3), RingLimits::default()).unwrap();
    // The tables of an empty ring are there from the start: they are small, and not counted.
    let empty = resident().unwrap();
    assert!(empty - start < 1 << 20);
    let compare = |writer: &Writer, what: &str| {
        let (held, grown) = (writer.holds().held, resident().unwrap() - empty);
        let percent = 100.0 * (held as f64 - grown as f64) / grown as f64;
        println!("{run}, {what}: {held} bytes held, {grown} resident, {percent:+.1} %");
        assert!(percent.abs() <= 10.0, "{what}: {held} of {grown}");
    };
    writer.apply([Delta::ListBegin]);
    for first in (0..PODS).step_by(250) {
        writer.apply((first..first + 250).map(|n| Delta::Replaced(pod(n))));
        // As soon as there is something to learn from, as a budget that is too small asks for.
        if run == "compressed" && first == 250 {
            writer.compress();
            let training = writer.training().unwrap();
            writer.trained(training.run());
        }
        while writer.reform(250) {}
    }
    compare(&writer, "a list that runs");
    let version = PODS.to_string();
    writer.apply([Delta::ListEnd { version }]);
    compare(&writer, "a list that ended");
}
