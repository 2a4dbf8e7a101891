//! Protobuf in an order that no Kubernetes writer makes, or with other lengths around what is not kept: the
//! object is the same, byte by byte.

use kinform_core::{Encoding, ListPart, ListReader, Object, Projection};
use kinform_schema::{Container, FieldType, Type, builtin};

use crate::messages::field;
use crate::protobuf::recorded;
use crate::protobuf_hostile::ask_everything;

/// The same message with fields in the opposite order, messages in two parts, numbers packed.
fn unusual(of: &Type, bytes: &[u8]) -> Vec<u8> {
    let mut parts: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut rest = bytes;
    let number = |rest: &mut &[u8]| {
        let mut value = 0_u64;
        for shift in (0..).step_by(7) {
            let byte = rest[0];
            *rest = &rest[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return value;
            }
        }
        value
    };
    while !rest.is_empty() {
        let start = rest;
        let tag = number(&mut rest);
        let spec = of.field_by_number((tag >> 3) as u32).unwrap();
        match tag & 7 {
            2 => {
                let length = number(&mut rest) as usize;
                let (inside, after) = rest.split_at(length);
                rest = after;
                let field = match (spec.message(), spec.container()) {
                    (Some(of), Container::Single) => {
                        let inside = unusual(of, inside);
                        let of_half = field(tag >> 3, &inside);
                        // Nothing, then all of it: both are merged.
                        [field(tag >> 3, b""), of_half].concat()
                    }
                    (Some(of), Container::List) => field(tag >> 3, &unusual(of, inside)),
                    _ => field(tag >> 3, inside),
                };
                parts.push((spec.number(), field));
            }
            wire => {
                let packed = match wire {
                    0 => {
                        let before = rest;
                        number(&mut rest);
                        let is_packed = spec.container() == Container::List
                            && matches!(spec.field_type(), FieldType::Int32 | FieldType::Int64);
                        let value = &before[..before.len() - rest.len()];
                        is_packed.then(|| field(tag >> 3, value))
                    }
                    _ => {
                        rest = &rest[8..];
                        None
                    }
                };
                let plain = start[..start.len() - rest.len()].to_vec();
                parts.push((spec.number(), packed.unwrap_or(plain)));
            }
        }
    }
    parts.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    parts.into_iter().flat_map(|(_, part)| part).collect()
}

#[test]
fn k9_the_order_of_fields_does_not_matter() {
    let mut seen = 0;
    for recorded in recorded() {
        let kind = match &*recorded.file {
            "list/pages-pb/page-1.pb" => "Pod",
            "list/services.pb" => "Service",
            "list/nodes.pb" => "Node",
            _ => continue,
        };
        let of = builtin("", "v1", kind).unwrap();
        let mut splitter = ListReader::new(Encoding::Protobuf);
        let fed = splitter.feed(&recorded.bytes, &mut |part| {
            let ListPart::Item(item) = part else {
                panic!("{part:?}")
            };
            let usual = Object::from_item(&item, &Projection::new()).unwrap();
            let other = unusual(of, item.bytes());
            assert!(other != item.bytes());
            let other = Object::from_protobuf(of, &other, &Projection::new()).unwrap();
            assert_eq!(other.key(), usual.key());
            assert!(other.bytes() == usual.bytes(), "{}", usual.key());
            ask_everything(&usual);
            seen += 1;
        });
        fed.unwrap();
    }
    assert!(seen > 50, "{seen}");
}

// protobuf: the encodings of two messages, one after the other, are that of both merged.
#[test]
fn k10_a_message_that_comes_in_parts_is_merged_and_the_last_value_counts() {
    let of = builtin("", "v1", "ConfigMap").unwrap();
    let parts = [
        field(1, &[field(1, b"a"), field(3, b"n")].concat()),
        field(2, &[field(1, b"k"), field(2, b"v")].concat()),
        field(1, &[field(6, b"7"), field(1, b"b")].concat()),
    ];
    let object = Object::from_protobuf(of, &parts.concat(), &Projection::new()).unwrap();
    assert_eq!(object.key().to_string(), "n/b");
    assert_eq!(object.resource_version(), "7");
    let whole = [
        field(
            1,
            &[field(1, b"b"), field(3, b"n"), field(6, b"7")].concat(),
        ),
        parts[1].clone(),
    ];
    let whole = Object::from_protobuf(of, &whole.concat(), &Projection::new()).unwrap();
    assert_eq!(object.bytes(), whole.bytes());
}

#[test]
fn a_version_apart_from_which_all_is_the_same_is_found_whatever_its_length() {
    let of = builtin("", "v1", "ConfigMap").unwrap();
    let make = |version: &[u8], managed: usize, value: &[u8]| {
        let managed = field(17, &field(1, &vec![b'm'; managed]));
        let metadata = [
            field(1, b"a"),
            field(3, b"n"),
            field(6, version),
            field(14, b"f"),
            managed,
        ];
        let entry = field(2, &[field(1, b"k"), field(2, value)].concat());
        let bytes = [field(1, &metadata.concat()), entry].concat();
        Object::from_protobuf(of, &bytes, &Projection::new()).unwrap()
    };
    let object = make(b"99", 1, b"v");
    assert!(
        object.same_but_version(&make(b"100", 1, b"v"))
            && !object.same_content(&make(b"100", 1, b"v"))
    );
    assert!(!object.same_but_version(&make(b"100", 1, b"w")));
    // What managedFields weighed leaves no trace, in the length before it neither.
    for weight in [1, 100, 127, 128, 20_000] {
        assert_eq!(object.bytes(), make(b"99", weight, b"v").bytes());
        assert_eq!(
            object.resource_version(),
            make(b"99", weight, b"v").resource_version()
        );
    }
    assert!(object.bytes().len() < 40);
}
