//! A list beside a store gives what it gives alone; what is stored just so is the stored object itself.

use std::cell::Cell;

use kinform_api::ObjectKey;
use kinform_core::store::baseline::RootBaseline;
use kinform_core::store::directory::Seed;
use kinform_core::store::edit::Edit;
use kinform_core::store::root::Root;
use kinform_core::{Encoding, ListPart, ListReader, Object, Projection};
use proptest::prelude::*;

use crate::messages::field;
use crate::protobuf_hostile::list;

/// The outcome of an item.
#[derive(Debug, PartialEq)]
enum Told {
    Object {
        key: ObjectKey,
        bytes: Vec<u8>,
        type_: [String; 2],
        managed: usize,
    },
    Unreadable(String),
}

/// A store that holds these, in this order.
fn filled(objects: Vec<Object>) -> Root {
    let mut edit = Edit::new(&Root::empty(Seed(1)));
    for object in objects {
        edit.insert(object);
    }
    edit.commit(1)
}

/// Reads a list beside a store; also says how many objects are the stored ones.
fn read(
    encoding: Encoding,
    body: &[u8],
    chunk: usize,
    store: &Root,
    projection: &Projection,
) -> (Vec<Told>, Vec<Object>, usize) {
    let (mut told, mut objects, mut known) = (Vec::new(), Vec::new(), 0);
    let mut reader = ListReader::new(encoding);
    let hint = Cell::default();
    let stored = RootBaseline::new(store, &hint);
    for chunk in body.chunks(chunk) {
        let _ = reader.feed_compared(chunk, &stored, &mut |part| {
            let read = match part {
                ListPart::Item(item) => item.checked().and_then(|item| {
                    let object = Object::from_item(&item, projection)?;
                    let type_ = [item.kind().into_owned(), item.api_version().into_owned()];
                    Ok((object, type_, item.managed_fields_bytes()))
                }),
                ListPart::Unreadable(why) => Err(why),
            };
            told.push(match read {
                Ok((object, type_, managed)) => {
                    let stored = store.get(object.key_ref());
                    known += usize::from(stored.is_some_and(|stored| stored.ptr_eq(&object)));
                    let (key, bytes) = (object.key(), object.bytes().to_vec());
                    objects.push(object);
                    Told::Object {
                        key,
                        bytes,
                        type_,
                        managed,
                    }
                }
                Err(why) => Told::Unreadable(why.to_string()),
            });
        });
    }
    (told, objects, known)
}

/// Stores the objects of one list, then reads another: as without a store. Says how many were known.
fn check_with(encoding: Encoding, first: &[u8], then: &[u8], projection: &Projection) -> usize {
    let (_, objects, _) = read(
        encoding,
        first,
        first.len(),
        &filled(Vec::new()),
        projection,
    );
    let stored = filled(objects);
    let expected = read(encoding, then, then.len(), &filled(Vec::new()), projection).0;
    let (told, _, known) = read(encoding, then, then.len(), &stored, projection);
    assert_eq!(told, expected);
    for chunk in [1, 7, 100] {
        assert_eq!(read(encoding, then, chunk, &stored, projection).0, expected);
    }
    known
}

fn check(encoding: Encoding, first: &[u8], then: &[u8]) -> usize {
    let keeps = Projection::new().keep_managed_fields();
    check_with(encoding, first, then, &keeps);
    check_with(encoding, first, then, &Projection::new())
}

const MANAGED: &str = r#""managedFields":[{"manager":"m","fieldsV1":{"f:spec":{"f:a":{}}}}]"#;

/// One object in a list, with its managedFields where they are.
fn json(item: &str) -> Vec<u8> {
    let item = item.replace("MANAGED", MANAGED);
    format!(r#"{{"kind":"List","items":[{item},{{"metadata":{{"name":"last"}}}}]}}"#).into_bytes()
}

const PLAIN: &str = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7",MANAGED},"spec":{"x":[1,"é"]}}"#;
const TYPED: &str = r#"{"apiVersion":"g/v1","kind":"Foo","metadata":{"annotations":{},MANAGED,"name":"a","namespace":"n"},"spec":{}}"#;

#[test]
fn json_items_that_are_stored_just_so_are_the_stored_objects() {
    let nested =
        r#"{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"metadata":{"b":1,MANAGED}}}"#;
    for (item, expected) in [
        (PLAIN, 2),
        (TYPED, 2),
        (r#"{"metadata":{"name":"a"}}"#, 2),
        (
            r#"{"kind":"Foo","metadata":{"name":"a","uid":"u",MANAGED}}"#,
            2,
        ),
        (
            r#"{"metadata":{"generateName":"a-","name":"a",MANAGED,"finalizers":["x"]}}"#,
            2,
        ),
        (nested, 2),
        // What looks unusual is read again.
        (r#"{"metadata":{MANAGED,"name":"a"}}"#, 1),
        (r#"{"metadata":{"name":"a" ,MANAGED}}"#, 1),
        (r#"{"metadata":{"name":"\u0061",MANAGED}}"#, 1),
        (r#"{"spec":{},"metadata":{"name":"a"}}"#, 1),
    ] {
        let body = json(item);
        assert_eq!(check(Encoding::Json, &body, &body), expected, "{item}");
    }
}

#[test]
fn managed_fields_may_change_without_a_new_object_and_nothing_else() {
    let changes = [
        (
            "\"manager\":\"m\"",
            "\"manager\":\"kubelet\",\"time\":null",
            2,
        ),
        (
            "\"f:a\":{}",
            "\"f:a\":{},\"k:{\\\"b\\\":[]}\":{\".\":{}}",
            2,
        ),
        (MANAGED, "\"managedFields\":[]", 2),
        (",MANAGED", "", 2),
        (MANAGED, "\"managedFields\":null", 1),
        ("\"f:a\":{}", "\"f:a\":tru", 1),
        ("\"f:a\":{}", "\"f:a\":{},", 1),
        ("\"uid\":\"u\"", "\"uid\":\"v\"", 1),
        ("[1,\"é\"]", "[1,\"è\"]", 1),
        ("}}", "},\"status\":{}}", 1),
    ];
    for (from, to, expected) in changes {
        let with = PLAIN.replace("MANAGED", MANAGED);
        let from = from.replace("MANAGED", MANAGED);
        let changed = match from == "}}" {
            true => with.replace(r#""é"]}}"#, r#""é"]},"status":{}}"#),
            false => with.replace(&from, to),
        };
        assert_ne!(changed, with);
        let found = check_with(
            Encoding::Json,
            &json(PLAIN),
            &json(&changed),
            &Projection::new(),
        );
        assert_eq!(found, expected, "{from} {to}");
    }
    // Those of a template are the object's own.
    let template = r#"{"metadata":{"name":"a"},"template":{"metadata":{"b":1,MANAGED}}}"#;
    let without = template.replace(",MANAGED", "");
    assert_eq!(check(Encoding::Json, &json(&without), &json(template)), 1);
}

/// A config map: its metadata's fields, and one value.
fn message(managed: usize, version: &[u8], value: &[u8]) -> Vec<u8> {
    let managed: Vec<u8> = (0..managed)
        .flat_map(|_| field(17, &field(1, &[b'm'; 90])))
        .collect();
    let metadata = [
        field(1, b"a"),
        field(3, b"n"),
        field(6, version),
        field(11, &[field(1, b"k"), field(2, b"v")].concat()),
        managed,
    ];
    let entry = [field(1, b"key"), field(2, value)].concat();
    [field(1, &metadata.concat()), field(2, &entry)].concat()
}

#[test]
fn messages_that_are_stored_just_so_are_the_stored_objects() {
    let value = [b'x'; 200];
    let of = |items: &[Vec<u8>]| list(items);
    for (old, new, expected) in [
        (0, 0, 1),
        (1, 1, 1),
        (0, 2, 1),
        (3, 0, 1),
        // The length before the metadata gets longer.
        (1, 200, 1),
    ] {
        let (old, new) = (message(old, b"7", &value), message(new, b"7", &value));
        assert_eq!(
            check_with(
                Encoding::Protobuf,
                &of(&[old]),
                &of(&[new]),
                &Projection::new()
            ),
            expected
        );
    }
    let old = message(1, b"7", &value);
    for new in [
        message(1, b"8", &value),
        message(1, b"7", b"y"),
        [message(1, b"7", &value), field(2, b"")].concat(),
    ] {
        assert_eq!(
            check(
                Encoding::Protobuf,
                &of(std::slice::from_ref(&old)),
                &of(&[new])
            ),
            0
        );
    }
    // A deletion between two managers is no part of managedFields.
    let metadata = |middle: &[u8]| {
        let manager = field(17, &field(1, b"m"));
        field(
            1,
            &[&field(1, b"a")[..], &manager, middle, &manager].concat(),
        )
    };
    let (old, new) = (metadata(b""), metadata(&field(9, &[8, 1])));
    assert_eq!(check(Encoding::Protobuf, &of(&[old]), &of(&[new])), 0);
}

#[test]
fn where_managed_fields_are_kept_an_item_with_others_is_another_object() {
    let keeps = Projection::new().keep_managed_fields();
    let without = PLAIN.replace(",MANAGED", "");
    for (old, new, expected) in [
        (PLAIN, PLAIN, 2),
        (&*without, &*without, 2),
        // The last item is the same each time.
        (&*without, PLAIN, 1),
        (PLAIN, &*without, 1),
    ] {
        let (old, new) = (json(old), json(new));
        assert_eq!(check_with(Encoding::Json, &old, &new, &keeps), expected);
    }
    for (old, new, expected) in [(0, 0, 1), (2, 2, 1), (0, 2, 0), (2, 0, 0)] {
        let body = |managed| list(&[message(managed, b"7", b"x")]);
        let known = check_with(Encoding::Protobuf, &body(old), &body(new), &keeps);
        assert_eq!(known, expected, "{old} {new}");
    }
}

/// Bytes of which some are others, or gone, or more.
fn edited(bytes: &[u8], edits: Vec<(prop::sample::Index, u8, usize)>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, byte, how) in edits {
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            _ => _ = bytes.remove(at),
        }
    }
    bytes
}

/// Objects by number, each in one of two states, in both orders of members that servers write.
fn numbered(items: &[(usize, usize)]) -> Vec<u8> {
    let items = items.iter().map(|(number, state)| match number % 3 {
        0 => format!(
            r#"{{"metadata":{{"labels":{{"x":"{state}"}},MANAGED,"name":"n{number}","uid":"u"}}}}"#
        ),
        1 => format!(
            r#"{{"metadata":{{"name":"n{number}","resourceVersion":"{state}",MANAGED}},"spec":{{"x":1}}}}"#
        ),
        _ => format!(r#"{{"metadata":{{"name":"n{number}"}},"spec":{{"state":{state}}}}}"#),
    });
    json(&items.collect::<Vec<_>>().join(","))
}

/// The same as messages.
fn numbered_messages(items: &[(usize, usize)]) -> Vec<u8> {
    let items = items.iter().map(|(number, state)| {
        let managed = field(17, &field(1, &vec![b'm'; 9 * state]));
        let name = field(1, format!("n{number}").as_bytes());
        let metadata = [name, field(6, state.to_string().as_bytes()), managed];
        field(1, &metadata.concat())
    });
    list(&items.collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn whatever_changes_a_list_beside_a_store_reads_as_one_alone(
        item in proptest::sample::select(vec![PLAIN, TYPED]),
        edits in proptest::collection::vec(
            (any::<prop::sample::Index>(), proptest::sample::select(&b"{}[]\",:\\ 0m\xffn"[..]), 0..3usize), 0..3),
    ) {
        let first = json(item);
        let then = edited(&first, edits);
        check(Encoding::Json, &first, &then);
    }

    #[test]
    fn items_in_any_order_read_as_they_do_alone(
        stored in proptest::collection::vec((0..9usize, 0..2usize), 1..9),
        listed in proptest::collection::vec((0..9usize, 0..2usize), 1..12),
        encoding in proptest::sample::select(vec![Encoding::Json, Encoding::Protobuf]),
    ) {
        let body = |items: &[(usize, usize)]| match encoding {
            Encoding::Protobuf => numbered_messages(items),
            _ => numbered(items),
        };
        let (stored, mut sorted) = (body(&stored), listed.clone());
        check(encoding, &stored, &body(&listed));
        sorted.sort_unstable();
        check(encoding, &body(&sorted), &body(&sorted));
    }

    #[test]
    fn whatever_changes_a_list_of_messages_reads_as_one_alone(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3usize), 0..3),
    ) {
        let first = list(&[message(2, b"7", b"x"), field(1, &field(1, b"last"))]);
        let then = edited(&first, edits);
        check(Encoding::Protobuf, &first, &then);
    }
}
