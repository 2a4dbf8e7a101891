//! Screens of all views, as pictures.
//!
//! ```text
//! reply (JSON), keys, size ─▶ State, Page, Picture ─▶ ratatui's TestBackend ─▶ snapshot
//! ```
//!
//! Upstream counterpart: none.

use std::time::Instant;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use ratatui::style::Color;
use serde_json::{Value, json};

use super::page::Page;
use super::paint::Paint;
use super::picture::{Around, Picture, height};
use super::place::{Form, Place};
use super::reply::Reply;
use super::state::State;
use super::trends::Trends;
use super::views::{self, Look};

const NARROW: Size = Size {
    width: 80,
    height: 24,
};
const WIDE: Size = Size {
    width: 200,
    height: 50,
};

/// A name that would clear the screen and reverse its line.
const HOSTILE: &str = "web\u{1b}[2J\u{202e}";

fn rate(per_second: f64) -> Value {
    json!({"total": 123_456, "per_second": per_second})
}

fn latency() -> Value {
    json!({"count": 9, "p50_ms": 1.1, "p99_ms": 26.0})
}

fn causes() -> Value {
    json!({"total": 12, "are_own": false, "causes": [
        {"event": "updated", "resource": "pods", "namespace": "shop", "name": "web-1",
         "object_version": 4711, "changed": "status", "origin": "foreign", "merged": 2},
        {"event": "woken", "origin": "own"}]})
}

fn runs() -> Value {
    json!([
        {"controller": "deployer", "namespace": "shop", "name": "web",
         "started": "2026-01-02T03:04:05.678Z", "took_ms": 3.5, "outcome": "succeeded",
         "causes": causes()},
        {"controller": "deployer", "namespace": "shop", "name": HOSTILE,
         "started": "2026-01-02T03:04:04.678Z", "took_ms": 1200.0, "outcome": "failed",
         "causes": {}}])
}

fn pipeline() -> Value {
    json!({"program": "shop", "lease": {"name": "shop/lease", "is_leading": true},
        "informers": [
            {"cache": "pods", "state": "synced", "wire_bytes": rate(12_345.0),
             "deltas": rate(120.0), "queued": 0, "objects": 5000, "bytes": 6_800_000,
             "notifications": rate(240.0), "handlers": 2, "lag": 0, "handled": latency()},
            {"cache": "deployments.apps in shop", "state": "stale", "deltas": rate(0.0),
             "wire_bytes": {"total": 5}, "lag": 12}],
        "controllers": [
            {"controller": "deployer", "resource": "deployments.apps", "workers": 4, "depth": 17,
             "in_work": 3, "adds": rate(12.0), "runs": rate(11.5), "failures": rate(0.1),
             "waited": latency(), "took": latency()}],
        "hidden": 1})
}

fn caches() -> Value {
    json!({"program": "shop", "caches": [
        {"cache": "pods", "resource": "pods", "api_version": "v1", "kind": "Pod",
         "state": "synced", "objects": 5000, "bytes": 6_800_000, "resource_version": "123456",
         "watch_age_ms": 90_000.0, "lists": 3, "relists": 2,
         "relist_reasons": {"expired": 1, "cut": 1}, "watches": 4, "reopens": 1, "events": 9001,
         "bookmarks": 12, "retries": 3, "silences": 1, "quarantined": 1,
         "handlers": [
            {"name": "indexer", "lag": 3, "heard": 14_001, "panics": 1, "times_behind": 2,
             "handled": latency()}]},
        {"cache": "deployments.apps in shop", "resource": "deployments.apps",
         "api_version": "apps/v1", "namespace": "shop", "labels": "app=web",
         "state": "forbidden", "trouble": "Forbidden"}], "hidden": 2})
}

fn queues() -> Value {
    json!({"program": "shop", "queues": [
        {"controller": "deployer", "resource": "deployments.apps", "workers": 4, "depth": 17,
         "depth_high": 1, "depth_low": 2, "delayed": 5, "in_work": 1, "oldest_ms": 1234.0,
         "longest_running_ms": 250.0, "adds": rate(12.0), "retries": rate(0.5),
         "runs": rate(11.5), "failures": rate(0.1), "panics": 0, "conflicts": 2, "parked": 1,
         "waited": latency(), "took": latency(),
         "running": [{"namespace": "shop", "name": "web", "since_ms": 250.0}]}],
        "keys": [
            {"namespace": "shop", "name": HOSTILE, "waits_for": "worker", "ms": 1234.0,
             "priority": "normal", "failures": 2, "causes": causes()},
            {"namespace": "shop", "name": "api", "waits_for": "time", "ms": 60_000.0,
             "priority": "low", "causes": {}}],
        "runs": runs(), "hidden": 15})
}

fn objects() -> Value {
    let object = |name: &str| json!({"cache": "pods", "resource": "pods", "namespace": "shop", "name": name});
    json!({"program": "shop", "time": "2026-01-02T03:04:05.678Z", "found": 712, "searched": 5000,
        "objects": [object("web-1"), object("web-2"), object(HOSTILE)]})
}

fn object() -> Value {
    json!({"program": "shop", "cache": "pods", "resource": "pods", "namespace": "shop",
        "name": "web-1", "is_stored": true, "bytes": 4321, "is_projected": true,
        "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"},
            "spec": {"containers": [{"image": "nginx:1", "name": "a"}]}},
        "owners": [{"kind": "ReplicaSet", "name": "web-5d78c9", "controller": true}],
        "versions": [
            {"seen": "2026-01-02T03:04:05.678Z", "resource_version": "4711", "changes": [
                {"path": "status.phase", "before": "\"Pending\"", "after": "\"Running\""},
                {"path": "spec.nodeName", "before": null, "after": "\"node-7\""}]},
            {"seen": "2026-01-02T03:04:01.000Z", "resource_version": "4700", "changes": []}],
        "managers": [
            {"manager": "kubelet", "operation": "Update", "subresource": "status",
             "time": "2026-01-02T03:04:05Z", "fields": ["status.phase", "status.podIP"]}],
        "waiting": [{"controller": "deployer", "waits_for": "worker", "ms": 12.0,
            "causes": causes()}],
        "runs": runs()})
}

fn memory() -> Value {
    json!({"program": "shop", "time": "2026-01-02T03:04:05.678Z", "caches": [
        {"cache": "pods", "objects": 5000, "bytes": 6_800_000, "managed_fields_bytes": 9_000_000,
         "namespaces": [{"namespace": "shop", "objects": 4000, "bytes": 5_000_000},
             {"namespace": null, "objects": 1, "bytes": 100}], "hidden_bytes": 77},
        {"cache": "nodes", "objects": 100, "bytes": 1_200_000}],
        "fields": {"cache": "pods", "sampled": 2000, "bytes": 2_000_000, "fields": [
            {"path": "spec.containers", "bytes": 900_000, "share": 0.45, "saves_bytes": 3_000_000},
            {"path": "status.conditions", "bytes": 400_000, "share": 0.2, "saves_bytes": 1_400_000}]}})
}

fn problems() -> Value {
    json!({"program": "shop", "problems": [
        {"kind": "forbidden", "severity": "error", "is_ongoing": true, "cache": "secrets",
         "message": "secrets is forbidden: User \"system:serviceaccount:shop:operator\" cannot list resource \"secrets\" in API group \"\" at the cluster scope",
         "advice": "Grant list and watch of the resource to the account of the program."},
        {"kind": "loop", "severity": "warning", "is_ongoing": false,
         "time": "2026-01-02T03:04:05.678Z", "controller": "deployer", "namespace": "shop",
         "name": HOSTILE, "message": "its own writes make it run again",
         "advice": "Compare before writing."}], "hidden": 1})
}

/// Each view: its place and its reply.
fn shown() -> Vec<(&'static str, Place, Reply)> {
    fn of<T: serde::de::DeserializeOwned>(json: Value) -> Box<T> {
        serde_json::from_value(json).unwrap()
    }
    let pod = |form| match Place::object("pods", Some("shop"), "web-1") {
        Place::Object { object, .. } => Place::Object { object, form },
        other => other,
    };
    let memory_of = |cache: Option<&str>| Place::Memory {
        cache: cache.map(str::to_owned),
    };
    vec![
        ("pipeline", Place::Pipeline, Reply::Pipeline(of(pipeline()))),
        ("caches", Place::Caches, Reply::Caches(of(caches()))),
        ("queues", Place::queues(None), Reply::Queues(of(queues()))),
        (
            "keys",
            Place::queues(Some("deployer")),
            Reply::Queues(of(queues())),
        ),
        (
            "objects",
            Place::objects(Some("pods")),
            Reply::Objects(of(objects())),
        ),
        ("object", pod(Form::Managers), Reply::Object(of(object()))),
        ("yaml", pod(Form::Yaml), Reply::Object(of(object()))),
        ("missing", pod(Form::Facts), Reply::Missing),
        (
            "memory",
            memory_of(Some("pods")),
            Reply::Memory(of(memory())),
        ),
        ("problems", Place::Problems, Reply::Problems(of(problems()))),
    ]
}

fn trends() -> Trends {
    let mut trends = Trends::default();
    for step in 0..40 {
        let json = json!({
            "informers": [{"cache": "pods", "deltas": rate(f64::from(step % 8)),
                "notifications": rate(f64::from(step % 5)), "wire_bytes": rate(f64::from(step % 3))}],
            "controllers": [{"controller": "deployer", "runs": rate(f64::from(step % 4))}]});
        trends.record(&serde_json::from_value(json).unwrap());
    }
    trends
}

fn around() -> Around<'static> {
    Around {
        program: "shop",
        ..Around::default()
    }
}

/// The page of a place and the screen after some keys.
fn drawn(
    (place, reply): (&Place, &Reply),
    keys: &[KeyCode],
    around: &Around<'_>,
    (size, paint): (Size, Paint),
) -> Terminal<TestBackend> {
    let look = Look {
        width: usize::from(size.width) - 2,
        paint,
    };
    let mut state = State::new(place.clone());
    let page = |state: &State| -> Page {
        views::page(place, reply, &trends(), look).filtered(state.filter())
    };
    let mut shown = page(&state);
    state.settle(&shown);
    let height = height(size, around.notices.len());
    for code in keys {
        let key = KeyEvent::new(*code, KeyModifiers::NONE);
        state.press(key, (&shown, height), Instant::now());
        shown = page(&state);
        state.settle(&shown);
    }
    let picture = Picture::new(&state, &shown, around, (size, paint));
    let mut terminal = Terminal::new(TestBackend::new(size.width, size.height)).unwrap();
    terminal.draw(|frame| picture.draw(frame)).unwrap();
    terminal
}

fn text(terminal: &Terminal<TestBackend>) -> String {
    let text = terminal.backend().to_string();
    let lines = text.lines().map(|line| line.trim_matches('"').trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_view_fits_a_small_screen_and_uses_a_large_one() {
    for (name, place, reply) in shown() {
        for (size, of) in [(NARROW, "80x24"), (WIDE, "200x50")] {
            let screen = drawn((&place, &reply), &[], &around(), (size, Paint::COLOURS));
            insta::assert_snapshot!(format!("{name}_{of}"), text(&screen));
        }
    }
}

#[test]
fn without_colours_the_words_are_the_same() {
    let has_colour = |buffer: &Buffer| {
        let mut cells = buffer.content.iter();
        cells.any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    for (name, place, reply) in shown() {
        let of = |paint| drawn((&place, &reply), &[], &around(), (NARROW, paint));
        let (coloured, plain) = (of(Paint::COLOURS), of(Paint::PLAIN));
        assert_eq!(text(&coloured), text(&plain), "{name}");
        assert!(!has_colour(plain.backend().buffer()), "{name}");
        assert!(has_colour(coloured.backend().buffer()), "{name}");
    }
}

#[test]
fn every_row_is_reached_and_the_cursor_is_always_seen() {
    for (name, place, reply) in shown() {
        for code in [KeyCode::Down, KeyCode::PageDown, KeyCode::End] {
            for back in [KeyCode::Up, KeyCode::PageUp, KeyCode::Home] {
                let mut keys = vec![code; 30];
                let screen = drawn((&place, &reply), &keys, &around(), (NARROW, Paint::PLAIN));
                let down = text(&screen);
                let has_cursor = down.lines().any(|line| line.starts_with("> "));
                assert!(has_cursor || name == "missing", "{name} {code:?}\n{down}");
                keys.extend(vec![back; 40]);
                let screen = drawn((&place, &reply), &keys, &around(), (NARROW, Paint::PLAIN));
                let start = drawn((&place, &reply), &[], &around(), (NARROW, Paint::PLAIN));
                assert_eq!(text(&screen), text(&start), "{name} {code:?} {back:?}");
            }
        }
    }
}

#[test]
fn popups_prompts_notices_and_troubles_are_on_the_screen() {
    let (_, place, reply) = shown().remove(0);
    let notices: Vec<String> = (1..=9).map(|n| format!("notice {n}\u{1b}")).collect();
    let things = [
        "cut every watch".to_owned(),
        "expire the history".to_owned(),
    ];
    let around = Around {
        program: "shop",
        trouble: Some("no answer for 2 s, trying again".to_owned()),
        notices: &notices,
        things: &things,
        ..Around::default()
    };
    let of = |letters: &str| {
        let keys: Vec<KeyCode> = letters.chars().map(KeyCode::Char).collect();
        text(&drawn(
            (&place, &reply),
            &keys,
            &around,
            (NARROW, Paint::PLAIN),
        ))
    };
    insta::assert_snapshot!("things_80x24", of("t"));
    insta::assert_snapshot!("help_80x24", of("?"));
    insta::assert_snapshot!("filter_80x24", of("/STALE"));
    assert!(of(":que").ends_with("\n:que█"), "{}", of(":que"));
}

#[test]
fn a_tiny_screen_is_no_panic() {
    for (_, place, reply) in shown() {
        for (width, height) in [(1, 1), (2, 3), (10, 4), (20, 6)] {
            let size = Size { width, height };
            for keys in [&[][..], &[KeyCode::Char('?')]] {
                // The width of a page is at least 0.
                let size = Size {
                    width: size.width.max(2),
                    ..size
                };
                drawn((&place, &reply), keys, &around(), (size, Paint::PLAIN));
            }
        }
    }
}
