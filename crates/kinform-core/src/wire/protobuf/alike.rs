//! The item of a list with which later items are compared: replicas are neighbours, and mostly
//! equal.
//!
//! ```text
//! items of a list ─▶ Alike::check ─▶ Order | Fault, as for each item alone
//!                      └─ template: a previous item, while it serves
//! ```
//!
//! The result of a check depends only on a message's type, its bytes and its nesting depth. So the
//! parts of an item that equal those of a validated item are only compared; of parts that differ in
//! values only, just these values are validated. When items turn out not to be alike, they are
//! compared again only once in a while.
//!
//! INVARIANT: the template was validated, except its managedFields, and is in the usual order.
//! BOUND: one template of at most 64 KiB a list, and its outline. Upstream: none.

use kinform_schema::Type;

use super::check::{self, Fault, Order};
use super::outline::Outline;
use crate::wire::serving::{Serving, Turn};

/// BOUND: the largest template. In larger items, validating the common parts is a small share of
/// the cost.
const MOST_BYTES: usize = 64 << 10;

/// A previous item, and the record of its comparisons.
#[derive(Debug, Default)]
pub(crate) struct Alike {
    template: Vec<u8>,
    outline: Outline,
    /// The number of its type.
    of: u16,
    serving: Serving,
}

impl Alike {
    /// Checks an item except its managedFields.
    pub(crate) fn check(&mut self, of: &Type, bytes: &[u8]) -> Result<Order, Fault> {
        let turn = self.serving.turn();
        let template = match turn == Turn::Compare && self.of == of.number() {
            true => &self.template[..],
            false => &[],
        };
        let (order, compared) = check::with_template(of, bytes, template, &self.outline)?;
        let learns = match turn {
            Turn::Compare => self.serving.served(compared, bytes.len()),
            turn => turn == Turn::AloneAndLearn,
        };
        if learns && order == Order::Usual && bytes.len() <= MOST_BYTES {
            self.template.clear();
            self.template.extend_from_slice(bytes);
            self.outline.learn(of, bytes);
            self.of = of.number();
        }
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fields::{field, put_varint};
    use super::super::types::type_of;
    use super::*;
    use crate::wire::layout::ManagedFields;
    use crate::wire::serving::ALONE;
    use proptest::prelude::*;

    fn number(number: u32, value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        put_varint(&mut out, u64::from(number) << 3);
        put_varint(&mut out, value);
        out
    }

    fn container(name: &[u8], port: u64) -> Vec<u8> {
        let port = field(6, &[&field(1, &[b"http"]), &number(3, port)]);
        let quantity = field(2, &[&field(1, &[b"250m"])]);
        let limits = field(1, &[&field(1, &[b"cpu"]), &quantity]);
        let resources = field(8, &[&limits]);
        field(2, &[&field(1, &[name]), &port, &resources, &number(16, 1)])
    }

    fn metadata(name: &[u8], managed: &[u8]) -> Vec<u8> {
        let created = field(8, &[&number(1, 1_767_225_599), &number(2, 0)]);
        let label = field(11, &[&field(1, &[b"app"]), &field(2, &[b"web"])]);
        let owner = field(13, &[&field(1, &[b"ReplicaSet"]), &field(3, &[b"web"])]);
        let managed = field(17, &[managed]);
        let parts = [&field(1, &[name])[..], &created, &label, &owner, &managed];
        field(1, &parts)
    }

    fn pod(name: &[u8], second: &[u8]) -> Vec<u8> {
        let volume = field(1, &[&field(1, &[b"tmp"]), &field(2, &[&field(2, &[])])]);
        let spec = field(2, &[&volume, &container(b"main", 8080), second]);
        let condition = field(2, &[&field(1, &[b"Ready"]), &field(2, &[b"True"])]);
        let status = field(3, &[&field(1, &[b"Running"]), &condition]);
        [metadata(name, b"\x0a\x01m"), spec, status].concat()
    }

    /// Each item has the result that it has alone.
    fn check(kind: &str, items: &[&[u8]]) -> Alike {
        let of = type_of("v1", kind).or_else(|| type_of("apiextensions.k8s.io/v1", kind));
        let of = of.unwrap();
        let mut alike = Alike::default();
        for item in items {
            let alone = check::message(of, item, ManagedFields::Drop);
            assert_eq!(alike.check(of, item), alone, "{items:?}");
            if !alike.template.is_empty() {
                let template = check::message(of, &alike.template, ManagedFields::Drop);
                assert_eq!(template, Ok(Order::Usual));
            }
            assert!(alike.template.len() <= MOST_BYTES);
        }
        alike
    }

    #[test]
    fn what_neighbours_have_in_common_is_compared() {
        let (one, two) = (
            pod(b"web-1", &container(b"proxy", 80)),
            pod(b"web-2", &container(b"log", 81)),
        );
        let alike = check("Pod", &[&one, &two]);
        assert_eq!((&alike.template, alike.serving.misses), (&one, 0));
        // At least the owner, a volume, a container and the status are only compared.
        assert!(
            alike.serving.best > container(b"main", 8080).len() && alike.serving.best < one.len()
        );
    }

    #[test]
    fn a_neighbour_with_any_byte_changed_is_what_it_is_alone() {
        let one = pod(b"web-1", &container(b"proxy", 80));
        // The same fields, some values longer.
        let two = pod(b"web-10", &container(b"log", 8080));
        let longest = pod(&[b'x'; 200], &container("\u{e9}".as_bytes(), 1));
        for other in [&one, &two, &longest] {
            check("Pod", &[&one, other, &one]);
            for at in 0..other.len() {
                for bits in [0x00, 0x01, 0x02, 0x08, 0x7f, 0x80, 0xff] {
                    let mut changed = other.clone();
                    changed[at] ^= bits;
                    check("Pod", &[&one, &changed, &one, &changed]);
                    check("ConfigMap", &[&changed, &one]);
                }
                check("Pod", &[&one, &other[..at], &one]);
                let more = [&other[..at], &container(b"more", 1), &other[at..]].concat();
                check("Pod", &[&one, &more, &one]);
            }
        }
    }

    #[test]
    fn what_differs_in_values_only_is_compared_but_for_these() {
        let one = pod(b"web-1", &container(b"proxy", 80));
        for name in [&b"web-2"[..], b"web-10", b"", &[b'x'; 300]] {
            for port in [81, 1, 8080] {
                let two = pod(name, &container(b"log", port));
                let best = check("Pod", &[&one, &two]).serving.best;
                // Names, a port, and the lengths of the messages that contain them.
                let differing = name.len() + "log".len() + 24;
                assert!(best + differing >= two.len(), "{best} of {}", two.len());
            }
        }
    }

    #[test]
    fn a_length_that_does_not_fit_is_noticed_as_it_is_alone() {
        let status = |phase: &[u8], reason: &[u8]| {
            let condition = field(2, &[&field(1, &[b"Ready"]), &field(6, &[b"because"])]);
            field(3, &[&field(1, &[phase]), &condition, &field(4, &[reason])])
        };
        let one = status(b"Running", b"for a reason");
        // One text gains the bytes that another one loses, so that the messages around them keep
        // their length.
        check("Pod", &[&one, &status(b"Runnin", b"for a reasons")]);
        check("Pod", &[&one, &status(b"Run", b"for a reason and")]);
        for at in 0..one.len() {
            for other in 0..one.len() {
                for more in 1..4 {
                    let mut changed = one.clone();
                    changed[at] = changed[at].wrapping_add(more);
                    changed[other] = changed[other].wrapping_sub(more);
                    check("Pod", &[&one, &changed]);
                }
            }
        }
        // Lengths and numbers encoded in more bytes than necessary.
        for at in 0..one.len() {
            let long = [&one[..at], &[one[at] | 0x80, 0], &one[at + 1..]].concat();
            check("Pod", &[&one, &long, &one]);
            let inside = field(2, &[&long]);
            check("Pod", &[&field(2, &[&one]), &inside]);
        }
    }

    #[test]
    fn managed_fields_are_skipped_in_the_first_metadata_only() {
        let broken = |name: &[u8]| metadata(name, b"\x0a\x7f");
        let spec = |inside: &[u8]| field(2, &[inside]);
        let (one, two) = (broken(b"a"), broken(b"b"));
        let twice = [&one[..], &one].concat();
        let late = [&spec(&container(b"main", 1))[..], &one].concat();
        let behind_nothing = |metadata: &[u8]| [&field(1, &[])[..], metadata].concat();
        let (second, other) = (behind_nothing(&one), behind_nothing(&two));
        check("Pod", &[&one, &two, &twice, &one, &twice, &late, &one]);
        check("Pod", &[&one, &second, &one, &other, &second]);
        check("ConfigMap", &[&one, &one, &twice]);
        // The managedFields of a pod template are validated.
        let template = spec(&field(3, &[&one]));
        check("ReplicationController", &[&template, &template, &one]);
    }

    #[test]
    fn what_is_in_another_order_is_no_template() {
        let one = pod(b"web-1", &container(b"proxy", 80));
        let metadata = metadata(b"web-1", b"");
        let turned = [&one[metadata.len()..], &metadata].concat();
        let alike = check("Pod", &[&turned, &turned, &turned]);
        assert!(alike.template.is_empty());
        check("Pod", &[&one, &turned, &one, &turned]);
    }

    #[test]
    fn nesting_is_limited_with_a_template_as_without() {
        // A definition's schema, nested in `depth` others.
        let schemas = |depth: usize, text: &[u8]| {
            let schema = (0..depth).fold(field(1, &[text]), |inside, _| {
                field(7, &[&inside]) // not
            });
            let version = field(7, &[&field(4, &[&field(1, &[&schema])])]);
            field(2, &[&version])
        };
        let deep: Vec<_> = [118, 119, 120, 121, 122, 123, 124, 125, 126, 200]
            .map(|depth| [schemas(depth, b"one"), schemas(depth, b"two")])
            .concat();
        let items: Vec<_> = deep.iter().map(|item| &item[..]).collect();
        check("CustomResourceDefinition", &items);
        let turned: Vec<_> = items.iter().rev().copied().collect();
        check("CustomResourceDefinition", &turned);
    }

    #[test]
    fn items_that_differ_are_seldom_compared_and_large_ones_never_kept() {
        let stranger = |at: usize| pod(&[b'a' + at as u8; 20_000], &[]);
        let many: Vec<_> = (0..26).map(stranger).collect();
        let items: Vec<_> = many.iter().map(|item| &item[..]).collect();
        assert!(check("Pod", &items).serving.alone > 0);
        // Items that are alike are noticed after them.
        let one = pod(b"web", &container(b"proxy", 80));
        let then = [items, vec![&one; 2 * ALONE as usize]].concat();
        let alike = check("Pod", &then);
        assert_eq!((alike.serving.alone, alike.serving.misses), (0, 0));
        let large = pod(
            b"large",
            &field(2, &[&field(1, &[&vec![b'x'; MOST_BYTES]])]),
        );
        assert!(check("Pod", &[&large, &large]).template.is_empty());
    }

    /// Fields of a pod, valid and malformed, to be put together in any order.
    fn pieces() -> Vec<Vec<u8>> {
        let spec = |inside: &[&[u8]]| field(2, inside);
        let (one, two) = (container(b"main", 80), container(b"main", 8080));
        vec![
            metadata(b"a", b""),
            metadata(b"b", b"\x0a\x7f"),
            metadata(b"\xff", b""),
            field(1, &[]),
            spec(&[&one]),
            spec(&[&one, &two]),
            spec(&[&two, &one]),
            spec(&[&one, &container(b"\xff", 1)]),
            spec(&[&one, &field(2, &[&field(6, &[&field(3, &[b"80"])])])]),
            spec(&[&one, &field(2, &[b"\x80"])]),
            spec(&[&one, &number(2, 1)]),
            spec(&[&field(99, &[b"new"]), &one]),
            spec(&[
                &number(4, 30),
                &field(7, &[&field(1, &[b"disk"]), &field(2, &[b"ssd"])]),
            ]),
            field(3, &[&field(7, &[&number(1, 1 << 40)])]),
            field(3, &[&field(7, &[&number(1, 5)]), &field(1, &[b"Running"])]),
            number(1, 1),
            number(77, 1),
        ]
    }

    proptest! {
        #[test]
        fn items_are_what_they_are_alone(
            items in proptest::collection::vec(
                proptest::collection::vec(proptest::sample::select(pieces()), 0..4), 1..8),
        ) {
            let items: Vec<_> = items.iter().map(|pieces| pieces.concat()).collect();
            let items: Vec<_> = items.iter().map(|item| &item[..]).collect();
            check("Pod", &items);
        }
    }
}
