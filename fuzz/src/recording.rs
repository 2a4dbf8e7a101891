//! Recordings: a file is used as far as it is whole, and no secret is in a byte of it.
//!
//! ```text
//! bytes ──▶ a file │ edits of a sound one ──▶ Reading, however it is cut ──▶ the same exchanges
//!      └──▶ a body of Secrets, cut as drawn ──▶ Writing ──▶ no canary in file or blocks
//! ```
//!
//! The edits are behind the checksums: see [`frames`]. A body of Secrets is drawn with its members in
//! any order, with escapes, white space and keys twice, and may break off anywhere.
//! Upstream: none.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::time::Duration;

use kinform_api::{ListOptions, WatchOptions};
use kinform_core::Encoding;
use kinform_core::recording::{
    Asked, DigestKey, Note, Reading, Recording, StepKind, Subject, Unusable, Writing,
};

use crate::draw::Draw;
use crate::heap::Mark;
use crate::shape::Shape;
use crate::{cuts, frames};

/// Pieces of files.
pub const WORDS: &[&[u8]] = &[
    b"kin-rec\x01",
    b"kin-rec\x02",
    b"\x01\x00\x00",
    b"\x02\x10\x00",
    b"\x03\x08\x00",
    b"\xff\xff\xff\xff",
    b"\x04\x05\x06\x07",
    b"\x08\x09",
];

/// The secret value; a text in base64 has none of its bytes by chance.
const CANARY: &str = "Y2FuYXJ5LTE3Mjk0";

/// Reads the bytes as a file, as edits of one, and as a body of Secrets.
pub fn run(bytes: &[u8]) -> Shape {
    let mut shape = Shape::default();
    read_however_cut(bytes, &mut shape);
    let (mark, mut parts) = frames::taken_apart(sound());
    frames::changed(&mut Draw::new(bytes), &mut parts);
    read_however_cut(&frames::file(mark, &parts), &mut shape);
    hides_secrets(&mut Draw::new(bytes), &mut shape);
    shape
}

fn asked(is_watch: bool) -> Asked {
    match is_watch {
        true => Asked::Watch(WatchOptions::default()),
        false => Asked::List(ListOptions::default()),
    }
}

fn writing(resource: &str, kind: &str) -> Writing {
    let subject = Subject {
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        kind: kind.to_owned(),
        is_namespaced: true,
        ..Subject::default()
    };
    Writing::new(&subject, DigestKey::new([7; 32]))
}

/// A file with two exchanges at once.
fn sound() -> &'static [u8] {
    static FILE: OnceLock<Vec<u8>> = OnceLock::new();
    FILE.get_or_init(|| {
        let mut writing = writing("pods", "Pod");
        let notes = [
            (1, Note::Asked(asked(false))),
            (1, Note::Opened(Encoding::Json)),
            (2, Note::Asked(asked(true))),
            (1, Note::Chunk(b"{\"items\":[],")),
            (2, Note::Opened(Encoding::Json)),
            (1, Note::Chunk(b"\"metadata\":{}}")),
            (1, Note::Ended),
            (2, Note::Chunk(b"{\"type\":\"ADDED\",\"object\":{}}\n")),
            (2, Note::Abandoned),
            (3, Note::Asked(asked(true))),
            (3, Note::Gap),
        ];
        let mut file = Vec::new();
        for (number, (exchange, note)) in (0..).zip(notes) {
            writing.note(exchange, Duration::from_millis(number), note);
            if number % 4 == 3 {
                writing.flush();
                file.extend(writing.take());
            }
        }
        writing.finish();
        file.extend(writing.take());
        file
    })
}

fn read(pieces: &[&[u8]]) -> Result<Recording, Unusable> {
    let mut reading = Reading::new();
    for piece in pieces {
        reading.feed(piece)?;
    }
    reading.finish()
}

fn read_however_cut(file: &[u8], shape: &mut Shape) {
    let mark = Mark::new(file.len());
    let whole = read(&[file]);
    mark.check();
    drop(mark);
    let said = said(&whole);
    for way in cuts::ways(file) {
        assert_eq!(self::said(&read(&way)), said, "cut another way");
    }
    shape.text(&said);
}

/// A reading as a text: every content is where its step says.
fn said(read: &Result<Recording, Unusable>) -> String {
    let recording = match read {
        Ok(recording) => recording,
        Err(unusable) => return unusable.to_string(),
    };
    let mut said = format!("{:?} {:?}", recording.damage(), recording.subject());
    for exchange in recording.exchanges() {
        let _ = write!(said, "\n{:?}", exchange.asked);
        for step in &exchange.answer {
            let _ = write!(said, " {:?} {:?}", step.at(), step.kind);
            if let StepKind::Chunk(span) = &step.kind {
                let block = recording.block(span.block).expect("its block inflates");
                let content = span.of(&block).expect("it is in its block");
                said.push_str(&String::from_utf8_lossy(content));
            }
        }
    }
    said
}

/// Asserts that the secret values of a drawn body are in no byte of its recording.
fn hides_secrets(draw: &mut Draw<'_>, shape: &mut Shape) {
    let is_watch = draw.one_in(2);
    let mut body = String::new();
    for _ in 0..=draw.below(2) {
        match is_watch {
            true => body.push_str("{\"type\":\"MODIFIED\",\"object\":"),
            false => body.push_str("{\"kind\":\"SecretList\",\"items\":["),
        }
        secret(draw, &mut body);
        body.push_str(if is_watch { "}\n" } else { "]}" });
    }
    let mut writing = writing("secrets", "Secret");
    let at = Duration::ZERO;
    writing.note(1, at, Note::Asked(asked(is_watch)));
    writing.note(1, at, Note::Opened(Encoding::Json));
    let mut rest = body.as_bytes();
    let most = 1 + draw.below(40);
    while !rest.is_empty() && !draw.one_in(200) {
        let (piece, behind) = rest.split_at(rest.len().min(1 + draw.below(most)));
        writing.note(1, at, Note::Chunk(piece));
        rest = behind;
    }
    writing.finish();
    let file = writing.take();
    let recording = read(&[&file]).expect("it was written here");
    let mut bytes: Vec<u8> = (0..)
        .map_while(|number| recording.block(number))
        .flatten()
        .collect();
    shape.count(bytes.len());
    bytes.extend(file);
    // A part of it would be as bad: eight of its bytes at any place.
    for part in CANARY.as_bytes().windows(8) {
        let is_part = |window: &[u8]| window == part;
        assert!(!bytes.windows(8).any(is_part), "a secret in {body}");
    }
}

/// Appends a Secret with the canary wherever a value is secret.
fn secret(draw: &mut Draw<'_>, body: &mut String) {
    body.push('{');
    for number in 0..1 + draw.below(6) {
        if number > 0 {
            body.push(',');
        }
        space(draw, body);
        let (name, is_nested) = draw.pick(&[
            ("data", false),
            ("stringData", false),
            ("metadata", true),
            ("kind", true),
            ("type", true),
            ("other", true),
        ]);
        text(draw, name, body);
        space(draw, body);
        body.push(':');
        space(draw, body);
        match (name, is_nested) {
            ("metadata", _) => metadata(draw, body),
            (_, true) => {
                body.push_str(draw.pick(&["\"Secret\"", "[{}]", "7", "null", "{\"a\":\"b\"}"]))
            }
            _ => values(draw, body),
        }
    }
    space(draw, body);
    body.push('}');
}

fn metadata(draw: &mut Draw<'_>, body: &mut String) {
    body.push_str("{\"name\":\"s\",");
    text(draw, "annotations", body);
    body.push(':');
    values(draw, body);
    body.push('}');
}

/// Appends values that are secret: nested ones are, too.
fn values(draw: &mut Draw<'_>, body: &mut String) {
    let key = draw.pick(&[
        "a",
        "kubectl.kubernetes.io/last-applied-configuration",
        "é\\\"",
        "data",
    ]);
    match draw.below(4) {
        0 => {
            body.push_str("{\"k\":");
            text(draw, CANARY, body);
        }
        1 => {
            let _ = write!(body, "{{\"{key}\":[\"x\",");
            text(draw, CANARY, body);
            body.push(']');
        }
        2 => {
            let _ = write!(body, "{{\"{key}\":{{\"metadata\":");
            text(draw, CANARY, body);
            body.push('}');
        }
        _ => {
            let _ = write!(body, "{{\"{key}\":\"{{\\\"data\\\":\\\"");
            escaped(draw, CANARY, body);
            body.push_str("\\\"}\"");
        }
    }
    body.push('}');
}

fn text(draw: &mut Draw<'_>, text: &str, body: &mut String) {
    body.push('"');
    escaped(draw, text, body);
    body.push('"');
}

/// Appends a text of which some letters are escaped.
fn escaped(draw: &mut Draw<'_>, text: &str, body: &mut String) {
    let one_in = draw.pick(&[0, 0, 0, 5]);
    for letter in text.chars() {
        match one_in > 0 && draw.one_in(one_in) {
            true => {
                let _ = write!(body, "\\u{:04x}", u32::from(letter));
            }
            false => body.push(letter),
        }
    }
}

fn space(draw: &mut Draw<'_>, body: &mut String) {
    body.push_str(draw.pick(&["", "", " ", "\n\t"]));
}
