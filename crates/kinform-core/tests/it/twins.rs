//! Handlers hear the same changes of recorded protobuf as of its twin in JSON.
//!
//! Every recorded list, list after list, and every recorded watch, from the bytes to a handler's changes; and
//! the bookmark that ends the initial events, of every built-in kind.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kinform_api::{TypeMeta, WatchEventKind};
use kinform_core::delta::{Change, Delta};
use kinform_core::informer::delivery::{Delivery, Next};
use kinform_core::informer::ring::RingLimits;
use kinform_core::{Encoding, FrameKind, Object, Projection, TypedCache, WatchReader};
use serde_json::Value;

use crate::golden::recordings_in;
use crate::informer::{line, list};
use crate::listeners::writer;
use crate::protobuf::{list_twins, listed, recorded, twins, untyped_claims};

/// The changes that a handler heard: kind and version, and the whole object as JSON and as a typed
/// value.
type Heard = Vec<(String, Value)>;

fn heard(delivery: &mut Delivery, meta: &TypeMeta) -> Heard {
    let mut heard = Heard::new();
    loop {
        match delivery.next() {
            Next::Idle => return heard,
            Next::Synced => heard.push(("synced".to_owned(), Value::Null)),
            Next::Changes(changes) => heard.extend(changes.iter().map(|change| {
                let object = match change {
                    Change::Updated { new, .. } => new,
                    Change::Added { object, .. }
                    | Change::Deleted { object, .. }
                    | Change::Sync(object) => object,
                };
                let json: Value = serde_json::from_slice(&object.to_json(meta)).unwrap();
                let typed = object.typed::<Value>(meta, TypedCache::Never).unwrap();
                assert_eq!(*typed, json);
                (line(change), json)
            })),
        }
    }
}

#[test]
fn handlers_hear_the_same_of_recorded_lists_in_both_encodings() {
    let (mut lists, mut objects) = (0, 0);
    for (recorded, json) in list_twins() {
        let read = |encoding, body: &[u8]| listed(encoding, body, &Projection::new());
        let (ours, list_meta) = read(Encoding::Protobuf, &recorded.bytes);
        let (twin, _) = read(Encoding::Json, json.as_bytes());
        let meta = TypeMeta {
            api_version: list_meta.api_version.clone(),
            kind: list_meta.kind.trim_end_matches("List").to_owned(),
        };
        let version = list_meta.resource_version.as_str();
        let hear = |first: &[Object], second: &[Object]| {
            let mut writer = writer(RingLimits::default());
            let mut delivery = writer.reader().deliver();
            writer.apply(list(first.iter().cloned(), version));
            let of_first = heard(&mut delivery, &meta);
            // The server's other encoding, of the same state: the only changes are in objects whose
            // nested objects have a type in JSON only.
            writer.apply(list(second.iter().cloned(), version));
            (of_first, heard(&mut delivery, &meta))
        };
        let (of_ours, then) = hear(&ours, &twin);
        let (of_twin, then_ours) = hear(&twin, &ours);
        let without_claims = |heard: &Heard| -> Heard {
            let heard = heard.iter();
            heard
                .map(|(line, value)| (line.clone(), untyped_claims(value)))
                .collect()
        };
        assert_eq!(
            without_claims(&of_ours),
            without_claims(&of_twin),
            "{}",
            recorded.file
        );
        assert_eq!(of_ours.len(), ours.len() + 1, "{}", recorded.file);
        let is_told_more = |(_, value): &&(String, Value)| untyped_claims(value) != *value;
        let differing = of_twin.iter().filter(is_told_more).count();
        let relisted = (then.len(), then_ours.len());
        assert_eq!(relisted, (differing, differing), "{}", recorded.file);
        lists += 1;
        objects += ours.len();
    }
    assert!(lists >= 20 && objects >= 600, "{lists} {objects}");
}

/// The changes of a stream, the type of its objects, and the bookmarks: their versions, and whether they end the
/// initial events.
type Streamed = (Vec<Delta>, TypeMeta, Vec<(String, bool)>);

fn streamed(encoding: Encoding, body: &[u8]) -> Streamed {
    let (mut deltas, mut meta, mut bookmarks) = (vec![Delta::ListBegin], None, Vec::new());
    let mut reader = WatchReader::new(encoding);
    let fed = reader.feed(body, &mut |frame| {
        let FrameKind::Known(kind) = frame.kind else {
            panic!("not recorded: {:?}", frame.kind)
        };
        let item = frame.object.checked().unwrap();
        meta.get_or_insert_with(|| TypeMeta {
            api_version: item.api_version().into_owned(),
            kind: item.kind().into_owned(),
        });
        if kind == WatchEventKind::Bookmark {
            let bookmark = item.bookmark().unwrap();
            bookmarks.push((bookmark.resource_version, bookmark.initial_events_end));
            return;
        }
        let object = Object::from_item(&item, &Projection::new()).unwrap();
        deltas.push(match kind {
            WatchEventKind::Added => Delta::Added(object),
            WatchEventKind::Modified => Delta::Updated(object),
            WatchEventKind::Deleted => Delta::Deleted(object),
            other => panic!("not recorded: {other:?}"),
        });
    });
    fed.unwrap();
    reader.finish().unwrap();
    // Handlers hear of what is there from the beginning, before the first event.
    let version = "1".into();
    deltas.insert(1, Delta::ListEnd { version });
    (deltas, meta.unwrap(), bookmarks)
}

#[test]
fn handlers_hear_the_same_of_recorded_watches_in_both_encodings() {
    let (twins, mut events) = (twins(), 0);
    for recorded in recorded() {
        let is_watch = recorded.file.starts_with("watch/") && recorded.status == 200;
        let Some(json) = twins.get(&recorded.file).filter(|_| is_watch) else {
            continue;
        };
        let hear = |encoding, body: &[u8]| {
            let (deltas, meta, _) = streamed(encoding, body);
            let mut writer = writer(RingLimits::default());
            let mut delivery = writer.reader().deliver();
            let mut told = Heard::new();
            // One by one: a handler that falls behind receives the newest state only.
            for delta in deltas {
                writer.apply([delta]);
                told.extend(heard(&mut delivery, &meta));
            }
            told
        };
        let ours = hear(Encoding::Protobuf, &recorded.bytes);
        assert_eq!(
            ours,
            hear(Encoding::Json, json.as_bytes()),
            "{}",
            recorded.file
        );
        events += ours.len();
    }
    assert!(events > 50, "{events}");
}

#[test]
fn the_bookmark_that_ends_initial_events_is_read_of_every_built_in_kind() {
    let mut kinds = [0, 0];
    recordings_in(&["bookmark"], |line| {
        let text = line["body"].as_str().map(|body| body.as_bytes().to_vec());
        let bytes = line["bodyBase64"].as_str();
        let bytes = bytes.map(|body| STANDARD.decode(body).unwrap());
        let (encoding, body) = match (text, bytes) {
            (Some(body), _) => (Encoding::Json, body),
            (None, body) => (Encoding::Protobuf, body.unwrap()),
        };
        let (deltas, meta, bookmarks) = streamed(encoding, &body);
        let file = line["file"].as_str().unwrap();
        assert_eq!(deltas.len(), 2, "{file}: a bookmark is no object");
        let [(version, true)] = &bookmarks[..] else {
            panic!("{file}: {bookmarks:?}")
        };
        // The recorder waited for each: the versions are those of some seconds.
        let revision: u64 = version.parse().unwrap();
        assert!((27_000..28_000).contains(&revision), "{file}: {version}");
        let group = format!("bookmark/{}.", meta.api_version.replace('/', "."));
        assert!(file.starts_with(&group), "{file}: {meta:?}");
        kinds[(encoding == Encoding::Json) as usize] += 1;
    });
    assert_eq!(kinds, [64, 64]);
}
