//! The page about configuration says the defaults that the code has.
//!
//! ```text
//! defaults of the options ──▶ "Default: .." of an item of docs/book/src/configuration.md
//! ```

use std::time::Duration;

use kinform::source::ClientOptions;
use kinform::{BackoffPolicy, CacheLimits, FifoLimits, PastLimits, ReflectorOptions, RingLimits};
use kinform_operator::leader::LeaseOptions;
use kinform_operator::{MetricsAccess, Settings};

const PAGE: &str = include_str!("../../../../docs/book/src/configuration.md");

/// The default that the page says for an option of a type: the text after `Default: `.
fn said(of: &str, option: &str) -> String {
    let (_, part) = PAGE
        .split_once(&format!("<!-- Options of {of}, made"))
        .unwrap();
    let (part, _) = part.split_once(&format!("<!-- End of {of}. -->")).unwrap();
    let items = part.replace("\n  ", " ");
    let item = items
        .lines()
        .find(|line| line.starts_with(&format!("- `{option}")));
    let item = item.unwrap_or_else(|| panic!("{of} has no {option}"));
    let (_, default) = item.split_once("Default: ").unwrap_or_default();
    default.to_owned()
}

#[track_caller]
fn check(of: &str, option: &str, expected: &str) {
    let said = said(of, option);
    let rest = said.strip_prefix(expected);
    let is_whole = rest.is_some_and(|rest| rest.starts_with(['.', ';', ',']));
    assert!(is_whole, "{of}::{option} is {expected}, not {said:?}");
}

/// A duration as the page writes it.
fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match time.as_secs() {
        whole if whole >= 60 && whole % 60 == 0 => format!("{} min", whole / 60),
        _ if time.is_zero() => "zero".to_owned(),
        _ => format!("{seconds} s"),
    }
}

/// A count as the page writes it.
fn count(count: usize) -> String {
    match count {
        1_000_000.. => format!("{} million", count / 1_000_000),
        1_000.. => format!("{},{:03}", count / 1_000, count % 1_000),
        _ => count.to_string(),
    }
}

/// Bytes as the page writes them.
fn bytes(bytes: usize) -> String {
    match bytes {
        0x4000_0000.. => format!("{} GiB", bytes >> 30),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[test]
fn the_page_has_the_defaults_of_reflectors() {
    let options = ReflectorOptions::default();
    let minutes = |count: u64| Duration::from_secs(count * 60);
    let seconds = Duration::from_secs;
    // Setting the default changes nothing.
    for (option, set, expected) in [
        (
            "with_min_watch_timeout",
            options.clone().with_min_watch_timeout(minutes(5)),
            minutes(5),
        ),
        (
            "with_list_deadline",
            options.clone().with_list_deadline(minutes(2)),
            minutes(2),
        ),
        (
            "with_first_byte_limit",
            options.clone().with_first_byte_limit(seconds(3)),
            seconds(3),
        ),
        (
            "with_progress_limit",
            options.clone().with_progress_limit(seconds(30)),
            seconds(30),
        ),
        (
            "with_initial_events_limit",
            options.clone().with_initial_events_limit(minutes(5)),
            minutes(5),
        ),
        (
            "with_fallback_memory",
            options.clone().with_fallback_memory(minutes(10)),
            minutes(10),
        ),
        (
            "with_internal_error_window",
            options.clone().with_internal_error_window(Duration::ZERO),
            Duration::ZERO,
        ),
    ] {
        assert_eq!(set, options, "{option}");
        check("ReflectorOptions", option, &time(expected));
    }
    let silence = seconds(90);
    assert_eq!(options.clone().with_silence_limit(silence), options);
    check("ReflectorOptions", "with_silence_limit", "90 s");
    let backoff = BackoffPolicy::default();
    assert_eq!(options.clone().with_backoff(backoff), options);
    let span = format!("from {} to {}", time(backoff.first), time(backoff.cap));
    check("ReflectorOptions", "with_backoff", &span);
    let limits = CacheLimits::default();
    assert_eq!(options.clone().with_cache_limits(limits), options);
    let both = format!("{} objects, {}", count(limits.objects), bytes(limits.bytes));
    check("ReflectorOptions", "with_cache_limits", &both);
    assert_ne!(options.clone().with_audit_period(minutes(1)), options);
    check("ReflectorOptions", "with_audit_period", "never");
}

#[test]
fn the_page_has_the_defaults_of_limits() {
    let cache = CacheLimits::default();
    check("CacheLimits", "objects", &count(cache.objects));
    check("CacheLimits", "bytes", &bytes(cache.bytes));
    let backoff = BackoffPolicy::default();
    check("BackoffPolicy", "first", &time(backoff.first));
    check("BackoffPolicy", "cap", &time(backoff.cap));
    check("BackoffPolicy", "reset_after", &time(backoff.reset_after));
    let factor = format!("{:.1}", backoff.jitter_factor);
    check("BackoffPolicy", "jitter_factor", &factor);
    let fifo = FifoLimits::default();
    check("FifoLimits", "deltas", &count(fifo.deltas));
    check("FifoLimits", "bytes", &bytes(fifo.bytes));
    let ring = RingLimits::default();
    check("RingLimits", "batches", &count(ring.batches));
    check("RingLimits", "changes", &count(ring.changes));
    check("RingLimits", "bytes", &bytes(ring.bytes));
    let past = PastLimits::default();
    check("PastLimits", "roots", &count(past.roots));
    check("PastLimits", "bytes", &bytes(past.bytes));
    check("PastLimits", "age", &time(past.age));
}

#[test]
fn the_page_has_the_defaults_of_clients() {
    let options = ClientOptions::default();
    let shown = |options: &ClientOptions| format!("{options:?}");
    for (option, set, expected) in [
        (
            "with_connect_timeout",
            options
                .clone()
                .with_connect_timeout(Duration::from_secs(10)),
            "10 s",
        ),
        (
            "with_request_timeout",
            options.clone().with_request_timeout(Duration::ZERO),
            "no limit",
        ),
        (
            "with_rate_limit",
            options.clone().with_rate_limit(50, 100),
            "50, 100",
        ),
        (
            "with_dead_peer_after",
            options
                .clone()
                .with_dead_peer_after(Duration::from_secs(30)),
            "30 s",
        ),
    ] {
        assert_eq!(shown(&set), shown(&options), "{option}");
        check("ClientOptions", option, expected);
    }
}

#[test]
fn the_page_has_the_defaults_of_an_operator() {
    let settings = Settings::default();
    let address = |address: &Option<String>| match address {
        Some(address) => format!("`{address}`"),
        None => "`None`".to_owned(),
    };
    check(
        "Settings",
        "metrics_address",
        &address(&settings.metrics_address),
    );
    check(
        "Settings",
        "probe_address",
        &address(&settings.probe_address),
    );
    check(
        "Settings",
        "inspect_address",
        &address(&settings.inspect_address),
    );
    check(
        "Settings",
        "webhook_address",
        &format!("`{}`", settings.webhook_address),
    );
    assert_eq!(settings.metrics_access, MetricsAccess::Reviewed);
    check("Settings", "metrics_access", "`Reviewed`");
    check("Settings", "webhook_drain", &time(settings.webhook_drain));
    assert!(settings.leader_election.is_none());
    check("Settings", "leader_election", "`None`");
    let (rate, burst) = settings.request_rate;
    check("Settings", "request_rate", &format!("{rate}, {burst}"));
    check("Settings", "grace_period", &time(settings.grace_period));
    let lease = LeaseOptions::default();
    check(
        "LeaseOptions",
        "lease_duration",
        &time(lease.lease_duration),
    );
    check(
        "LeaseOptions",
        "renew_deadline",
        &time(lease.renew_deadline),
    );
    check("LeaseOptions", "retry_period", &time(lease.retry_period));
    check(
        "LeaseOptions",
        "request_timeout",
        &time(lease.request_timeout),
    );
    check("LeaseOptions", "margin", &time(lease.margin));
}
