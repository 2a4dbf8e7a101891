//! The reflector against what a real API server said.
//!
//! Every recorded refusal is named rightly, and every recorded watch is followed to its end: nothing in
//! it is taken for a server that went back.

use std::time::Duration;

use kinform_api::{Status, WatchEventKind};
use kinform_core::delta::Delta;
use kinform_core::reflector::config::{ReflectorConfig, StreamingList};
use kinform_core::reflector::input::{Ending, Event, Failure, Input};
use kinform_core::reflector::report::{ProblemKind, ReflectorEvent};
use kinform_core::reflector::{Reflector, Request, Step};
use kinform_core::time::Instant;
use kinform_core::wire::json::event_object::bookmark;
use kinform_core::{Encoding, Frame, FrameKind, Object, Projection, WatchReader};

use crate::golden::exchanges;

const NOW: Instant = Instant::from_millis(1_000_000);

/// Returns the problem that a list reports after two refusals; the first may lead to another
/// request.
fn named(code: u16, body: &str) -> Option<ProblemKind> {
    let streaming_list = StreamingList::Never;
    let mut machine = Reflector::new(
        ReflectorConfig {
            streaming_list,
            ..ReflectorConfig::default()
        },
        1,
    );
    let text = || Status::failure(code, "", body);
    let status = Status::from_slice(body.as_bytes()).unwrap_or_else(text);
    machine.start(NOW);
    for _ in 0..2 {
        let status = Box::new(status.clone());
        machine.handle(
            Input::Failed(Failure::Status {
                code,
                status,
                retry_after: None,
            }),
            NOW,
        );
    }
    std::iter::from_fn(|| machine.poll()).find_map(|step| match step {
        Step::Report(ReflectorEvent::Retrying { problem, .. }) => Some(problem.kind),
        _ => None,
    })
}

#[test]
fn recorded_refusals_are_named() {
    let mut seen = 0;
    for exchange in exchanges().into_iter().filter(|e| e.status >= 400) {
        let (code, file) = (exchange.status as u16, &exchange.file);
        let expected = match code {
            401 => ProblemKind::Unauthorized,
            403 => ProblemKind::Forbidden,
            404 => ProblemKind::NotFound,
            410 => ProblemKind::Expired,
            500 => ProblemKind::Internal,
            504 if file.contains("future") => ProblemKind::TooLarge,
            502..=504 => ProblemKind::Unavailable,
            429 => ProblemKind::TooManyRequests,
            _ => ProblemKind::Rejected,
        };
        assert_eq!(named(code, &exchange.body), Some(expected), "{file}");
        seen += 1;
    }
    assert!(seen > 50, "{seen}");
}

fn event(frame: &Frame<'_>) -> Event {
    let object = || Object::from_item(&frame.object, &Projection::default()).unwrap();
    match &frame.kind {
        FrameKind::Known(WatchEventKind::Added) => Event::Added(object()),
        FrameKind::Known(WatchEventKind::Modified) => Event::Modified(object()),
        FrameKind::Known(WatchEventKind::Deleted) => Event::Deleted(object()),
        FrameKind::Known(WatchEventKind::Bookmark) => {
            let bookmark = bookmark(frame.object.bytes()).unwrap();
            Event::Bookmark {
                version: bookmark.resource_version.as_str().into(),
                initial_events_end: bookmark.initial_events_end,
            }
        }
        FrameKind::Known(WatchEventKind::Error) | FrameKind::Status => {
            Event::Error(Status::from_slice(frame.object.bytes()))
        }
        other => panic!("not recorded: {other:?}"),
    }
}

/// A machine that asks for a streaming list, or watches at this version.
fn asking(is_streaming_list: bool, version: &str) -> Reflector {
    let streaming_list =
        [StreamingList::Never, StreamingList::Preferred][is_streaming_list as usize];
    let config = ReflectorConfig {
        streaming_list,
        ..ReflectorConfig::default()
    };
    let mut machine = Reflector::new(config, 1);
    machine.start(NOW);
    if !is_streaming_list {
        machine.handle(Input::Accepted, NOW);
        let continue_token = String::new();
        machine.handle(
            Input::PageEnd {
                version: version.into(),
                continue_token,
                remaining: None,
            },
            NOW,
        );
    }
    machine.handle(Input::Accepted, NOW);
    while machine.poll().is_some() {}
    machine
}

/// A streaming list had no object, and neither has the list that confirms it; the watch goes on.
fn confirm_empty(machine: &mut Reflector) -> Vec<Step> {
    let page = Input::PageEnd {
        version: "".into(),
        continue_token: String::new(),
        remaining: None,
    };
    for input in [Input::Accepted, page] {
        machine.handle(input, NOW);
    }
    std::iter::from_fn(|| machine.poll()).collect()
}

#[test]
fn recorded_watches_are_followed_to_their_end() {
    let (mut lists, mut watches, mut errors) = (0, 0, 0);
    for exchange in exchanges()
        .into_iter()
        .filter(|e| e.status == 200 && e.path.contains("watch=true"))
    {
        let is_table = exchange.body.contains(r#""kind":"Table""#);
        let query = exchange.path.split_once('?').map_or("", |(_, query)| query);
        let parameter = |name: &str| {
            query
                .split('&')
                .find_map(|p| p.strip_prefix(name)?.strip_prefix('='))
                .unwrap_or("")
        };
        let version = parameter("resourceVersion");
        let is_streaming_list = parameter("sendInitialEvents") == "true";
        // A watch from nowhere begins with objects in the order of keys.
        let from_nowhere = matches!(version, "" | "0");
        if is_table || (from_nowhere && !is_streaming_list) {
            continue;
        }
        let (mut machine, mut framer) = (
            asking(is_streaming_list, version),
            WatchReader::new(Encoding::Json),
        );
        let mut steps = Vec::new();
        framer
            .feed(exchange.body.as_bytes(), &mut |frame| {
                machine.handle(Input::Event(event(&frame)), NOW);
                let mut new: Vec<_> = std::iter::from_fn(|| machine.poll()).collect();
                if matches!(new[..], [Step::Request(Request::Probe { .. })]) {
                    new = confirm_empty(&mut machine);
                }
                steps.extend(new);
            })
            .unwrap();
        let closed = steps.iter().any(|step| matches!(step, Step::CloseRequest));
        if exchange.body.contains(r#""type":"ERROR""#) {
            assert!(closed, "{}", exchange.file);
            errors += 1;
            continue;
        }
        assert!(!closed, "{}", exchange.file);
        let is_end = |step: &&Step| matches!(step, Step::Delta(Delta::ListEnd { .. }));
        let ends = steps.iter().filter(is_end).count();
        assert_eq!(ends, is_streaming_list as usize, "{}", exchange.file);
        lists += ends;
        let later = NOW + Duration::from_secs(10);
        machine.handle(Input::Ended(Ending::Clean), later);
        let resumed = std::iter::from_fn(|| machine.poll()).find_map(|step| match step {
            Step::Request(Request::Watch { options, .. }) => options.resource_version,
            _ => None,
        });
        assert_eq!(resumed.as_ref(), machine.version(), "{}", exchange.file);
        assert!(resumed.is_some(), "{}", exchange.file);
        watches += 1;
    }
    assert!(
        lists >= 5 && watches >= 10 && errors >= 2,
        "{lists} {watches} {errors}"
    );
}
