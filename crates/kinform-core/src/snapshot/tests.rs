//! Snapshots are read again as they were written; everything else is refused.

use super::*;
use crate::delta::QuarantineOrigin;
use crate::object::projection::Projection;
use crate::store::directory::Seed;
use crate::store::edit::Edit;
use crate::store::root::Root;

const IDENTITY: &str = "cluster: a\nuser: b\nresource: pods";

fn root(objects: usize) -> Root {
    let mut edit = Edit::new(&Root::empty(Seed(7)));
    for number in 0..objects {
        let padding = "x".repeat(number % 700);
        let json = format!(
            r#"{{"metadata":{{"name":"p{number}","namespace":"n{}","uid":"u{number}","resourceVersion":"{}"}},"spec":{{"a":"{padding}"}}}}"#,
            number % 9,
            number + 100,
        );
        edit.insert(Object::from_json(json.as_bytes(), &Projection::default()).unwrap());
    }
    let key: ObjectKey = "n1/broken".parse().unwrap();
    let quarantine = Quarantine {
        key: Some(key.clone()),
        version: Some("99".to_owned()),
        path: "spec".to_owned(),
        reason: "no object".to_owned(),
        origin: QuarantineOrigin::Watch,
    };
    edit.quarantined_mut().insert(key, quarantine);
    edit.reach("5000");
    edit.commit(0)
}

fn written(root: &Root) -> Vec<u8> {
    let mut writing = Writing::new(root.clone(), IDENTITY);
    let mut bytes = Vec::new();
    while writing.next_piece(&mut bytes) {}
    assert_eq!(writing.objects(), root.len() as u64);
    bytes
}

fn read(bytes: &[u8], identity: &str, piece: usize) -> Result<Snapshot, Refused> {
    let mut reading = Reading::new(identity);
    for piece in bytes.chunks(piece) {
        reading.feed(piece)?;
    }
    reading.finish()
}

#[test]
fn everything_that_was_written_is_read_again_however_it_is_cut() {
    let root = root(3_000);
    let bytes = written(&root);
    for piece in [1 << 20, 4_096, 13] {
        let snapshot = read(&bytes, IDENTITY, piece).unwrap();
        assert_eq!(snapshot.version, "5000");
        assert_eq!(&snapshot.quarantined, root.quarantined());
        assert_eq!(snapshot.objects.len(), root.len());
        for object in &snapshot.objects {
            let stored = root.get(object.key_ref()).unwrap();
            assert!(stored.same_content(object) && stored.uid() == object.uid());
        }
        let newest = snapshot.newest(3);
        let versions: Vec<_> = newest.iter().map(Object::resource_version).collect();
        assert_eq!(versions, ["3099", "3098", "3097"]);
        assert_eq!(snapshot.newest(10_000).len(), 3_000);
    }
    assert!(
        read(&written(&Root::empty(Seed(1))), IDENTITY, 99)
            .unwrap()
            .objects
            .is_empty()
    );
}

#[test]
fn a_snapshot_of_something_else_is_refused_by_the_name_of_what_differs() {
    let bytes = written(&root(10));
    let check = |identity: &str, expected: &str| {
        let refused = read(&bytes, identity, 4_096).unwrap_err();
        assert!(refused.is_of_other());
        assert_eq!(refused.to_string(), expected);
    };
    let of = |part: &str| format!("the snapshot is of another {part}");
    check("cluster: x\nuser: b\nresource: pods", &of("cluster"));
    check("cluster: a\nuser: x\nresource: pods", &of("user"));
    check("cluster: a\nuser: b\nresource: nodes", &of("resource"));
    check("cluster: a\nuser: b", &of("identity"));
}

#[test]
fn what_is_cut_off_or_changed_is_no_snapshot() {
    let bytes = written(&root(200));
    for end in (0..bytes.len()).step_by(7) {
        assert!(
            read(&bytes[..end], IDENTITY, 1_000).is_err(),
            "cut at {end}"
        );
    }
    for at in (0..bytes.len()).step_by(5) {
        let mut bad = bytes.clone();
        bad[at] ^= 0x40;
        assert!(read(&bad, IDENTITY, 1_000).is_err(), "changed at {at}");
    }
    let twice = [&bytes[..], &bytes[8..]].concat();
    assert!(read(&twice, IDENTITY, 1_000).unwrap_err().is_torn());
    let older = [b"kinform\x00", &bytes[8..]].concat();
    let refused = read(&older, IDENTITY, 1_000).unwrap_err();
    assert_eq!(refused.to_string(), "the snapshot has format 0, not 1");
    assert!(
        !read(b"{\"kind\":\"PodList\"}", IDENTITY, 99)
            .unwrap_err()
            .is_torn()
    );
}
