//! Recordings are read again as they were written, as far as they are whole; no secret is in them.

use kinform_api::{ListOptions, Status, WatchOptions};
use proptest::prelude::*;

use super::*;
use crate::wire::encoding::Encoding;

const CANARY: &str = "c2VjcmV0LWNhbmFyeS0xNzI5";

fn subject(resource: &str, kind: &str) -> Subject {
    Subject {
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        kind: kind.to_owned(),
        is_namespaced: true,
        started: "2026-01-02T03:04:05Z".to_owned(),
        ..Subject::default()
    }
}

fn at(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn list() -> Asked {
    Asked::List(ListOptions {
        limit: Some(500),
        resource_version: Some("0".into()),
        ..ListOptions::default()
    })
}

fn watch(version: &str) -> Asked {
    Asked::Watch(WatchOptions {
        resource_version: Some(version.into()),
        allow_bookmarks: true,
        timeout: Some(Duration::from_secs(300)),
        ..WatchOptions::default()
    })
}

fn failed() -> Failed {
    Failed {
        kind: "Status".to_owned(),
        message: "too old".to_owned(),
        http_code: Some(410),
        status: Some(Status::expired("too old")),
        retry_after_ms: Some(7),
    }
}

/// A recording with two exchanges at once, and each kind of end.
fn written() -> Vec<u8> {
    let mut writing = Writing::new(&subject("pods", "Pod"), DigestKey::new([5; 32]));
    let mut bytes = writing.take();
    let notes = [
        (1, 0, Note::Asked(list())),
        (1, 4, Note::Opened(Encoding::Json)),
        (1, 5, Note::Chunk(br#"{"items":[],"metadata":{"resource"#)),
        (2, 6, Note::Asked(watch("5"))),
        (2, 6, Note::Refused(failed())),
        (1, 7, Note::Chunk(br#"Version":"5"}}"#)),
        (1, 7, Note::Ended),
        (3, 8, Note::Asked(watch("5"))),
        (3, 9, Note::Opened(Encoding::Json)),
        (3, 20, Note::Chunk(b"{\"type\":\"ADDED\",\"object\":{}}\n")),
        (3, 3_600_000, Note::Broken(failed())),
        (4, 3_600_001, Note::Asked(list())),
        (4, 3_600_002, Note::Abandoned),
        (5, 3_600_003, Note::Asked(watch("9"))),
        (5, 3_600_003, Note::Opened(Encoding::Json)),
        (5, 3_600_004, Note::Chunk(b"{\"a\":1}<")),
        (5, 3_600_005, Note::Chunk(b"what is behind what is no JSON")),
        (6, 3_600_006, Note::Asked(watch("10"))),
        (6, 3_600_006, Note::Opened(Encoding::Json)),
    ];
    for (exchange, ms, note) in notes {
        writing.note(exchange, at(ms), note);
        writing.flush();
        bytes.extend(writing.take());
    }
    writing.finish();
    bytes.extend(writing.take());
    bytes
}

fn read(bytes: &[u8], piece: usize) -> Result<Recording, Unusable> {
    let mut reading = Reading::new();
    for piece in bytes.chunks(piece) {
        reading.feed(piece)?;
    }
    reading.finish()
}

fn lines(recording: &Recording) -> Vec<String> {
    let mut lines = Vec::new();
    for exchange in recording.exchanges() {
        lines.push(format!(
            "{} {}",
            exchange.at.as_millis(),
            exchange.asked.is_watch()
        ));
        for step in &exchange.answer {
            let what = match &step.kind {
                StepKind::Chunk(span) => {
                    let block = recording.block(span.block).unwrap();
                    String::from_utf8(span.of(&block).unwrap().to_vec()).unwrap()
                }
                StepKind::Refused(failed) | StepKind::Broken(failed) => failed.message.clone(),
                other => format!("{other:?}"),
            };
            lines.push(format!("  {} {what}", step.at().as_millis()));
        }
    }
    lines
}

#[test]
fn a_recording_is_read_again_as_it_was_written_however_it_is_cut() {
    let bytes = written();
    let expected = [
        "0 false",
        "  4 Opened",
        "  5 {\"items\":[],\"metadata\":{\"resource",
        "  7 Version\":\"5\"}}",
        "  7 Ended",
        "6 true",
        "  6 too old",
        "8 true",
        "  9 Opened",
        "  20 {\"type\":\"ADDED\",\"object\":{}}\n",
        "  3600000 too old",
        "3600001 false",
        "  3600002 Abandoned",
        "3600003 true",
        "  3600003 Opened",
        "  3600004 {\"a\":1}",
        "  3600004 Withheld",
        "3600006 true",
        "  3600006 Opened",
    ];
    for piece in [1, 13, 1 << 20] {
        let recording = read(&bytes, piece).unwrap();
        assert_eq!(lines(&recording), expected);
        assert_eq!(recording.damage(), None);
        assert!(!recording.has_gaps());
        assert_eq!(recording.length(), at(3_600_006));
        assert_eq!(recording.subject(), &subject("pods", "Pod"));
        assert_eq!(recording.exchanges()[0].asked, list());
        assert_eq!(recording.exchanges()[2].asked, watch("5"));
        let refused = &recording.exchanges()[1].answer[0].kind;
        assert_eq!(*refused, StepKind::Refused(Box::new(failed())));
    }
}

#[test]
fn the_whole_part_of_a_file_that_was_cut_off_or_damaged_is_used() {
    let bytes = written();
    let whole = lines(&read(&bytes, 4_096).unwrap());
    let (mut used, mut refused) = (0, 0);
    for end in 0..bytes.len() {
        match read(&bytes[..end], 4_096) {
            Ok(recording) => {
                // A request that stands before another one's last step may have fewer steps.
                let is_known = |line: &String| whole.contains(line);
                assert!(lines(&recording).iter().all(is_known), "cut at {end}");
                assert!(recording.damage().is_some(), "cut at {end}");
                used += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(used > 500 && refused < 400, "{used} {refused}");
    for place in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[place] ^= 0x40;
        if let Ok(recording) = read(&bad, 4_096) {
            assert!(recording.damage().is_some(), "changed at {place}");
        }
    }
    let behind = [&bytes[..], b"more"].concat();
    assert_eq!(
        read(&behind, 99).unwrap().damage(),
        Some("bytes behind its end")
    );
}

#[test]
fn a_file_that_is_no_recording_is_refused_with_a_reason() {
    let check = |bytes: &[u8], expected: &str| {
        assert_eq!(read(bytes, 7).unwrap_err().to_string(), expected);
    };
    check(b"", "the file is no recording");
    check(b"{\"kind\":\"PodList\"}", "the file is no recording");
    check(b"kin-rec\x02____", "the recording has format 2, not 1");
    check(
        b"kin-rec\x01",
        "the recording has no usable header: it has none",
    );
    let mut huge = b"kin-rec\x01\x01".to_vec();
    huge.extend_from_slice(&[0xff; 12]);
    check(
        &huge,
        "the recording has no usable header: it has a frame larger than any",
    );
    let mut reading = Reading::with_max_bytes(10);
    assert_eq!(
        reading.feed(&[0; 11]).unwrap_err().to_string(),
        "the recording is larger than can be replayed"
    );
}

#[test]
fn gaps_are_visible() {
    let mut writing = Writing::new(&subject("pods", "Pod"), DigestKey::new([5; 32]));
    writing.note(1, at(1), Note::Asked(watch("1")));
    writing.note(1, at(2), Note::Opened(Encoding::Json));
    writing.note(1, at(3), Note::Gap);
    writing.note(1, at(4), Note::Chunk(b"{}"));
    writing.gap(at(5));
    writing.finish();
    let recording = read(&writing.take(), 99).unwrap();
    assert!(recording.has_gaps() && recording.damage().is_none());
    assert_eq!(lines(&recording), ["1 true", "  2 Opened", "  3 Gap"]);
}

#[test]
fn no_secret_is_in_a_byte_of_the_file_or_of_its_blocks() {
    let applied = format!(r#"{{\"data\":{{\"p\":\"{CANARY}\"}}}}"#);
    let secret = format!(
        r#"{{"metadata":{{"name":"s","annotations":{{"kubectl.kubernetes.io/last-applied-configuration":"{applied}","other":"{CANARY}"}}}},"data":{{"p":"{CANARY}"}},"stringData":{{"p":"{CANARY}"}}}}"#
    );
    let list_body = format!(
        r#"{{"kind":"SecretList","metadata":{{"resourceVersion":"5"}},"items":[{secret}]}}"#
    );
    let event = format!("{{\"type\":\"MODIFIED\",\"object\":{secret}}}\n");
    for piece in [1, 5, 100_000] {
        let key = DigestKey::new([8; 32]);
        let mut writing = Writing::new(&subject("secrets", "Secret"), key);
        for (exchange, asked, body) in [(1, list(), &list_body), (2, watch("5"), &event)] {
            writing.note(exchange, at(1), Note::Asked(asked));
            writing.note(exchange, at(1), Note::Opened(Encoding::Json));
            for chunk in body.as_bytes().chunks(piece) {
                writing.note(exchange, at(2), Note::Chunk(chunk));
            }
            writing.note(exchange, at(3), Note::Ended);
        }
        writing.finish();
        let bytes = writing.take();
        let recording = read(&bytes, 4_096).unwrap();
        let mut blocks: Vec<u8> = (0..).map_while(|n| recording.block(n)).flatten().collect();
        assert!(
            blocks
                .windows(8)
                .any(|part| part == DIGEST_PREFIX.as_bytes())
        );
        blocks.extend_from_slice(&bytes);
        for length in [CANARY.len(), 8] {
            let canary = &CANARY.as_bytes()[..length];
            let has_canary = blocks.windows(length).any(|part| part == canary);
            assert!(!has_canary, "in pieces of {piece}");
        }
        let texts = lines(&recording).into_iter();
        // Behind the time of each chunk.
        let text: String = texts
            .filter_map(|line| Some(line.strip_prefix("  2 ")?.to_owned()))
            .collect();
        // Equal values are equal: the data, however often it came.
        let digest = text.split("\"data\":{\"p\":\"").nth(1).unwrap();
        assert!(text.matches(&digest[..40]).count() >= 2, "{text}");
    }
}

#[test]
fn an_hour_of_pods_is_a_small_part_of_its_bytes() {
    let pod = include_str!("../../../kinform-apiserver/src/seed/pod.json");
    let key = DigestKey::new([1; 32]);
    let mut writing = Writing::new(&subject("pods", "Pod"), key);
    writing.note(1, at(0), Note::Asked(watch("1")));
    writing.note(1, at(0), Note::Opened(Encoding::Json));
    let mut bytes = 0;
    for number in 0..2_000_u64 {
        let pod = pod.replace("\"name\": \"", &format!("\"name\": \"p{number}-"));
        let event = format!("{{\"type\":\"MODIFIED\",\"object\":{pod}}}\n");
        bytes += event.len();
        writing.note(1, at(number), Note::Chunk(event.as_bytes()));
    }
    writing.finish();
    let file = writing.take().len();
    assert!(file * 100 < bytes * 15, "{file} of {bytes}");
}

proptest! {
    #[test]
    fn bytes_that_somebody_made_up_cause_no_panic(
        cuts in prop::collection::vec((0usize..2_000, any::<u8>(), any::<bool>()), 0..8),
        piece in 1usize..500,
    ) {
        let mut bytes = written();
        for (place, byte, removes) in cuts {
            let place = place.min(bytes.len() - 1);
            match removes {
                true => { bytes.remove(place); }
                false => bytes[place] = byte,
            }
        }
        if let Ok(recording) = read(&bytes, piece) {
            lines(&recording);
        }
    }

    #[test]
    fn records_that_somebody_made_up_cause_no_panic(
        records in prop::collection::vec(
            (1u8..10, 0u32..3, any::<u64>(), prop::collection::vec(any::<u8>(), 0..20)), 0..20),
        tail in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let mut plain = Vec::new();
        for (kind, exchange, ms, content) in records {
            plain.push(kind);
            plain.extend_from_slice(&exchange.to_le_bytes());
            plain.extend_from_slice(&ms.to_le_bytes());
            plain.extend_from_slice(&(content.len() as u32).to_le_bytes());
            match kind {
                1 => {
                    plain.truncate(plain.len() - 4);
                    let json = list().to_json();
                    plain.extend_from_slice(&(json.len() as u32).to_le_bytes());
                    plain.extend_from_slice(&json);
                }
                _ => plain.extend_from_slice(&content),
            }
        }
        plain.extend_from_slice(&tail);
        let mut bytes = Writing::new(&subject("pods", "Pod"), DigestKey::new([5; 32])).take();
        crate::framing::append(crate::framing::Kind::Block, &plain, &mut bytes);
        let recording = read(&bytes, 99).unwrap();
        for exchange in recording.exchanges() {
            for step in &exchange.answer {
                if let StepKind::Chunk(span) = &step.kind {
                    let block = recording.block(span.block).unwrap();
                    prop_assert!(span.of(&block).is_some());
                }
            }
        }
    }
}
