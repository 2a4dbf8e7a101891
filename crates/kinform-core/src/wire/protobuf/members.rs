//! The members of a validated message, as its JSON has them, one by one.
//!
//! ```text
//! fields left, plan of the type ─▶ usual: a text, a number, a message, a time ─▶ name, Node
//!                                └▶ unusual: lists, maps, inline, all others; at the end the nulls
//! ```
//!
//! Inline structs are flattened, zero values are omitted where Go omits them, and absent fields are
//! null where Go writes null. A message has a hundred fields, most of them texts, and many of these
//! are empty: `usual` handles the fields for which one look at their step suffices, `unusual` all
//! others.
//!
//! INVARIANT: the message was validated and is in the usual order; on other bytes every function is
//! total and ends early.
//! Upstream: the `json` tags of `kubernetes/api` with `encoding/json`. Complexity: one look at each
//! field.

use kinform_api::mutant;
use smallvec::SmallVec;

use super::fields::{BYTES, Fields, Split, VARINT, first};
use super::plan::{Form, LeftOut, Plan, Shown, Stands, Step, plans};
use super::texts::{self, Texts};
use super::value::{Node, node};

/// The choice to emit nulls where a server does. Hidden for an object that a projection has removed
/// fields from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    Shown,
    Hidden,
}

/// The members of an object.
pub(crate) struct Members<'a> {
    top: Level<'a>,
    outer: SmallVec<[Level<'a>; 1]>,
    nulls: Nulls,
    /// The texts of the whole message, or `texts::NONE`.
    pub(super) texts: &'a Texts,
}

/// A message whose fields are members of the object: the object's own message, or an inline one.
struct Level<'a> {
    plan: &'static Plan,
    /// The fields that were not passed yet.
    rest: &'a [u8],
    /// The positions of fields that are null if absent, and were neither seen nor emitted yet.
    absent: u64,
}

impl<'a> Level<'a> {
    #[inline(always)]
    fn new(plan: &'static Plan, bytes: &'a [u8], nulls: Nulls) -> Self {
        Self {
            plan,
            rest: bytes,
            absent: match nulls {
                Nulls::Shown => plan.nulls,
                Nulls::Hidden => 0,
            },
        }
    }

    /// Passes a field.
    #[inline(always)]
    fn pass(&mut self, step: Step, rest: &'a [u8]) {
        self.rest = rest;
        self.absent &= !(1 << (step.position % 64));
    }

    /// Returns the next field that is absent in protobuf and null in JSON.
    fn null(&mut self) -> Option<&'static str> {
        let position = self.absent.trailing_zeros();
        self.absent &= self.absent.checked_sub(1)?;
        self.plan.name(position as u8)
    }
}

impl<'a> Members<'a> {
    #[inline(always)]
    pub(crate) fn of(plan: &'static Plan, bytes: &'a [u8], nulls: Nulls) -> Self {
        Self {
            top: Level::new(plan, bytes, nulls),
            outer: SmallVec::new(),
            nulls,
            texts: &texts::NONE,
        }
    }

    /// Returns the name of the next member, and sets `value` to its value.
    #[inline(never)]
    pub(crate) fn read(&mut self, value: &mut Node<'a>) -> Option<&'static str> {
        match self.usual(value) {
            Some(name) => Some(name),
            None if self.is_over() => None,
            None => self.unusual(value),
        }
    }

    /// Returns whether all is read: no field, no null and no outer level is left.
    #[inline(always)]
    fn is_over(&self) -> bool {
        self.top.rest.is_empty() && self.top.absent == 0 && self.outer.is_empty()
    }

    /// Reads a member of a usual form: one text, message, time or number that JSON shows. For any
    /// other, `None`, and `unusual` reads the field from its start.
    #[inline(always)]
    fn usual(&mut self, value: &mut Node<'a>) -> Option<&'static str> {
        let level = &mut self.top;
        let (step, rest) = loop {
            let (tag, behind) = first(level.rest)?;
            let step = level.plan.step(tag >> 3)?;
            if step.stands != Stands::Alone {
                return None;
            }
            let (number, behind) = first(behind)?;
            let rest = match tag & 7 {
                BYTES => {
                    let length = usize::try_from(number).ok()?;
                    let (bytes, rest) = behind.split_at_checked(length)?;
                    match step.shown {
                        // Go encodes zero and empty values in protobuf, too: these are many.
                        Shown::Text
                            if length == 0
                                && (step.left_out != LeftOut::Never || mutant!("K11")) =>
                        {
                            level.pass(step, rest);
                            continue;
                        }
                        Shown::Text => *value = Node::Text(self.texts.text(bytes)),
                        Shown::Message => *value = Node::Object(plans().plan(step.of)?, bytes),
                        Shown::Time if length > 0 => *value = Node::Time(bytes),
                        _ => return None,
                    }
                    rest
                }
                VARINT => {
                    *value = match step.shown {
                        Shown::Bool => Node::Bool(number != 0),
                        // Go keeps the low bits of a number that does not fit.
                        Shown::Int32 => Node::Int(i64::from(number as i32)),
                        Shown::Int64 => Node::Int(number as i64),
                        _ => return None,
                    };
                    if is_left_out(step, *value) {
                        level.pass(step, behind);
                        continue;
                    }
                    behind
                }
                _ => return None,
            };
            break (step, rest);
        };
        level.pass(step, rest);
        level.plan.name(step.position)
    }

    #[inline(never)]
    fn unusual(&mut self, value: &mut Node<'a>) -> Option<&'static str> {
        loop {
            let level = &mut self.top;
            if let Some(field) = Split::of(level.rest) {
                if let Some(name) = self.other(field, value) {
                    return Some(name);
                }
            } else if let Some(name) = level.null() {
                *value = Node::Null;
                return Some(name);
            } else {
                self.top = self.outer.pop()?;
            }
        }
    }

    /// Reads the next field, of any form; `None` if it is not a member.
    #[inline(always)]
    fn other(&mut self, field: Split<'a>, value: &mut Node<'a>) -> Option<&'static str> {
        let level = &mut self.top;
        let step = level.plan.step(field.number.into());
        let Some(step) = step.filter(|step| step.form != Form::Unknown) else {
            level.rest = field.rest;
            return None;
        };
        *value = match step.stands {
            Stands::Alone => {
                level.pass(step, field.rest);
                node(step, field.wire(), self.texts)
            }
            Stands::Inline => {
                level.pass(step, field.rest);
                if let Node::Object(plan, bytes) = node(step, field.wire(), self.texts) {
                    let inside = Level::new(plan, bytes, self.nulls);
                    self.outer.push(std::mem::replace(level, inside));
                }
                return None;
            }
            Stands::InList | Stands::InMap => {
                let (node, rest) = several(step, level.rest, field.number);
                level.pass(step, rest);
                node
            }
        };
        if is_left_out(step, *value) {
            return None;
        }
        level.plan.name(step.position)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'static str, Node<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut value = Node::Null;
        let name = self.read(&mut value)?;
        Some((name, value))
    }
}

/// Returns the list or map whose fields the bytes begin with, and the bytes after it.
#[inline]
fn several(step: Step, bytes: &[u8], number: u32) -> (Node<'_>, &[u8]) {
    let (mut rest, mut count) = (bytes, 0);
    while let Some(field) = Split::of(rest)
        && field.number == number
    {
        (rest, count) = (field.rest, count + 1);
    }
    let run = &bytes[..bytes.len() - rest.len()];
    let node = match step.stands {
        Stands::InMap => Node::Map(step, run, count),
        _ => Node::List(step, run, count),
    };
    (node, rest)
}

/// Returns whether Go's JSON omits the value.
#[inline(always)]
fn is_left_out(step: Step, node: Node<'_>) -> bool {
    let is_zero = match node {
        Node::Null => return step.left_out == LeftOut::ZeroOrNull,
        Node::Text(text) => text.is_empty(),
        Node::Bool(value) => !value,
        Node::Int(number) => number == 0,
        Node::Float(number) => number == 0.0,
        Node::Bytes(bytes) => bytes.is_empty(),
        _ => false,
    };
    is_zero && step.left_out != LeftOut::Never
}

/// Returns a member of an object by its name, with the value that [`Members`] yields.
pub(crate) fn member<'a>(plan: &'static Plan, bytes: &'a [u8], name: &str) -> Option<Node<'a>> {
    let first = |number| Fields::of(bytes).find(|field| field.number == number);
    let fields = plan.of.fields();
    let own = fields
        .iter()
        .find(|spec| spec.name() == name && !spec.is_inline());
    let Some(spec) = own else {
        let inline = fields.iter().filter(|spec| spec.is_inline());
        return inline
            .filter_map(|spec| Some((spec.number(), spec.message()?)))
            .filter(|(_, of)| of.field(name).is_some())
            .find_map(|(number, of)| member(Plan::of(of), first(number)?.value.bytes()?, name));
    };
    let (step, field) = (plan.step(spec.number().into())?, first(spec.number())?);
    let node = match step.stands.is_repeated() {
        true => several(step, &bytes[field.start..], field.number).0,
        false => node(step, field.value, &texts::NONE),
    };
    Some(node).filter(|node| !is_left_out(step, *node))
}

#[cfg(test)]
mod tests {
    use kinform_schema::builtin;
    use proptest::prelude::*;

    use super::super::fields::field;
    use super::*;

    /// The plan of the type at a path of a kind.
    fn plan(group: &str, kind: &str, path: &str) -> &'static Plan {
        let of = builtin(group, "v1", kind).unwrap();
        let names = path.split('.').filter(|name| !name.is_empty());
        Plan::of(names.fold(of, |of, name| of.field(name).unwrap().message().unwrap()))
    }

    fn volume() -> &'static Plan {
        plan("", "Pod", "spec.volumes")
    }

    fn condition() -> &'static Plan {
        plan("", "Pod", "status.conditions")
    }

    fn shown(plan: &'static Plan, bytes: &[u8], nulls: Nulls) -> Vec<String> {
        let members = Members::of(plan, bytes, nulls);
        let told = members.map(|(name, node)| match node {
            Node::Null => format!("{name}: null"),
            Node::Text(text) => format!("{name}: {text}"),
            Node::Int(number) => format!("{name}: {number}"),
            Node::Object(of, _) => format!("{name}: {of:?}"),
            _ => format!("{name}: .."),
        });
        told.collect()
    }

    /// Checks the members with nulls and without, and that each member is found by its name.
    fn check(plan: &'static Plan, bytes: &[u8], expected: &[&str], nulls: &[&str]) {
        assert_eq!(shown(plan, bytes, Nulls::Hidden), expected, "{plan:?}");
        let all = [expected, nulls].concat();
        assert_eq!(shown(plan, bytes, Nulls::Shown), all, "{plan:?}");
        for (name, node) in Members::of(plan, bytes, Nulls::Hidden) {
            let found = member(plan, bytes, name);
            assert_eq!(format!("{found:?}"), format!("{:?}", Some(node)), "{name}");
        }
    }

    #[test]
    fn inline_members_are_those_of_the_message() {
        let directory = field(2, &[&field(1, &[b"Memory"])]);
        let bytes = [field(1, &[b"tmp"]), field(2, &[&directory])].concat();
        let empty_dir = "emptyDir: k8s.io/api/core/v1.EmptyDirVolumeSource";
        check(volume(), &bytes, &["name: tmp", empty_dir], &[]);
        assert!(member(volume(), &bytes, "hostPath").is_none());

        let socket = field(1, &[&field(3, &[&field(2, &[b"host"])])]);
        let probe = plan("", "Pod", "spec.containers.livenessProbe");
        let tcp = "tcpSocket: k8s.io/api/core/v1.TCPSocketAction";
        let bytes = [&socket[..], b"\x10\x05"].concat();
        check(probe, &bytes, &[tcp, "initialDelaySeconds: 5"], &[]);
    }

    #[test]
    fn inline_members_of_inline_members_are_too() {
        let rules = plan(
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy",
            "spec.matchConstraints.resourceRules",
        );
        let rule = field(2, &[&field(1, &[b"apps"])]);
        let operations = field(2, &[&field(1, &[b"CREATE"]), &rule]);
        let bytes = [field(1, &[b"web"]), operations].concat();
        let members = ["resourceNames: ..", "operations: ..", "apiGroups: .."];
        check(rules, &bytes, &members, &[]);
    }

    #[test]
    fn k11_what_is_empty_is_told_where_go_tells_it_and_what_is_null_comes_last() {
        let parts: [(u32, &[u8]); 4] = [(1, b"Ready"), (2, b""), (5, b""), (6, b"none")];
        let bytes = parts.map(|(number, text)| field(number, &[text])).concat();
        let members = ["type: Ready", "status: ", "message: none"];
        let nulls = ["lastProbeTime: null", "lastTransitionTime: null"];
        check(condition(), &bytes, &members, &nulls);
        assert!(member(condition(), &bytes, "reason").is_none());
        assert!(member(condition(), &bytes, "lastProbeTime").is_none());
        let met = [&bytes[..], &field(3, &[b"\x08\x05"])].concat();
        let nulls = &nulls[1..];
        let members = [
            "type: Ready",
            "status: ",
            "message: none",
            "lastProbeTime: ..",
        ];
        check(condition(), &met, &members, nulls);
    }

    #[test]
    fn unknown_fields_are_passed_and_broken_ones_end_the_members() {
        let unknown = [field(99, &[b"x"]), vec![0xf8, 0x7f, 1]].concat();
        let ready = field(1, &[b"Ready"]);
        let nulls = ["lastProbeTime: null", "lastTransitionTime: null"];
        let bytes = [&unknown[..], &ready, &unknown].concat();
        check(condition(), &bytes, &["type: Ready"], &nulls);
        let bytes = [&ready[..], b"\x32\x05", &[0; 3]].concat();
        check(condition(), &bytes, &["type: Ready"], &nulls);
    }

    proptest! {
        #[test]
        fn any_bytes_come_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            for plan in [plan("", "Pod", ""), volume(), condition()] {
                // Each field is at most one member, and so is each null.
                let most = bytes.len() / 2 + plan.nulls.count_ones() as usize;
                prop_assert!(Members::of(plan, &bytes, Nulls::Shown).take(most + 1).count() <= most);
                for name in ["name", "emptyDir", "metadata", "lastProbeTime"] {
                    member(plan, &bytes, name);
                }
            }
        }
    }
}
