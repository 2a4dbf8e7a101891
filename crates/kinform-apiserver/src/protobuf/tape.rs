//! JSON text as a tree that borrows it, so that an encoder need not build values.
//!
//! ```text
//! text of a stored object ──one pass──▶ [node: key, span, next index] ──▶ Json: members, items
//! ```
//!
//! The text must be one that this server wrote itself. There is one allocation for each object, and
//! a string is unescaped on access. Values that an encoder writes as text have no child nodes:
//! these are the sets of fields in `managedFields`, two fifths of a pod.
//!
//! BOUND: the depth of a stored object. A deeper or malformed text has no tree.
//!
//! Upstream: none; upstream stores protobuf.

use std::borrow::Cow;

/// Larger than the depth that any parser of this server accepts.
const MAX_DEPTH: u32 = 256;

/// The key of the values that the encoder writes as text.
const TAKEN_AS_TEXT: &[u8] = br#""fieldsV1""#;

/// A tree in the order of its text.
#[derive(Debug)]
pub(super) struct Tape<'a> {
    text: &'a [u8],
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// The key with its quotes; empty for a value without a key.
    key: (u32, u32),
    span: (u32, u32),
    /// The index of the first node after this one and its children.
    next: u32,
}

/// A value in the tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Json<'t> {
    tape: &'t Tape<'t>,
    at: u32,
}

impl<'a> Tape<'a> {
    /// Parses a text without white space between its tokens.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let mut reader = Reader {
            text,
            nodes: Vec::with_capacity(text.len() / 16),
        };
        let end = reader.value(0, (0, 0), 0)?;
        let nodes = reader.nodes;
        (end == text.len()).then_some(Self { text, nodes })
    }

    pub(super) fn root(&self) -> Json<'_> {
        Json { tape: self, at: 0 }
    }
}

impl<'t> Json<'t> {
    fn node(self) -> Node {
        self.tape.nodes[self.at as usize]
    }

    /// Returns the text of the value.
    pub(super) fn raw(self) -> &'t [u8] {
        let (start, end) = self.node().span;
        &self.tape.text[start as usize..end as usize]
    }

    fn first(self) -> u8 {
        self.raw().first().copied().unwrap_or_default()
    }

    pub(super) fn is_null(self) -> bool {
        self.first() == b'n'
    }

    pub(super) fn is_string(self) -> bool {
        self.first() == b'"'
    }

    pub(super) fn is_object(self) -> bool {
        self.first() == b'{'
    }

    pub(super) fn is_list(self) -> bool {
        self.first() == b'['
    }

    pub(super) fn is_true(self) -> bool {
        self.first() == b't'
    }

    /// Returns the text of a string, or an empty one if the value is not a string.
    pub(super) fn text(self) -> Cow<'t, [u8]> {
        match self.is_string() {
            true => unquoted(self.raw()),
            false => Cow::Borrowed(b""),
        }
    }

    /// Returns the text of a number, or an empty one if the value is not a number.
    pub(super) fn number(self) -> &'t str {
        match self.first() {
            b'-' | b'0'..=b'9' => std::str::from_utf8(self.raw()).unwrap_or_default(),
            _ => "",
        }
    }

    pub(super) fn int(self) -> i64 {
        self.number().parse().unwrap_or(0)
    }

    /// Returns the key of a member.
    pub(super) fn key(self) -> Cow<'t, [u8]> {
        let (start, end) = self.node().key;
        unquoted(&self.tape.text[start as usize..end as usize])
    }

    /// Returns whether the key of a member is this name, which must not need escapes.
    fn is_called(self, name: &str) -> bool {
        let (start, end) = self.node().key;
        (end - start) as usize == name.len() + 2
            && &self.tape.text[start as usize + 1..end as usize - 1] == name.as_bytes()
    }

    /// Iterates over the members of an object, or the items of a list.
    pub(super) fn parts(self) -> impl Iterator<Item = Self> {
        let node = self.node();
        let is_open = self.is_object() || self.is_list();
        let first = Some(self.at + 1).filter(|at| is_open && *at < node.next);
        let after = move |at: &u32| {
            let next = self.tape.nodes[*at as usize].next;
            (next < node.next).then_some(next)
        };
        std::iter::successors(first, after).map(move |at| Self { at, ..self })
    }

    /// Returns the member of this name.
    pub(super) fn member(self, name: &str) -> Option<Self> {
        let mut parts = self.parts().filter(|_| self.is_object());
        parts.find(|part| part.is_called(name))
    }
}

fn unquoted(raw: &[u8]) -> Cow<'_, [u8]> {
    let inside = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    if !inside.contains(&b'\\') {
        return Cow::Borrowed(inside);
    }
    let text: String = serde_json::from_slice(raw).unwrap_or_default();
    Cow::Owned(text.into_bytes())
}

struct Reader<'a> {
    text: &'a [u8],
    nodes: Vec<Node>,
}

impl Reader<'_> {
    /// Parses a value and returns the offset of its end.
    fn value(&mut self, start: usize, key: (u32, u32), depth: u32) -> Option<usize> {
        let index = self.nodes.len();
        self.nodes.push(Node {
            key,
            span: (u32::try_from(start).ok()?, 0),
            next: 0,
        });
        let key = self.text.get(key.0 as usize..key.1 as usize)?;
        let end = match self.text.get(start)? {
            b'"' => self.string(start)?,
            b'{' if key == TAKEN_AS_TEXT => self.skipped(start)?,
            open @ (b'{' | b'[') if depth < MAX_DEPTH => self.parts(start, *open, depth)?,
            b'{' | b'[' => return None,
            _ => {
                let rest = self.text.get(start..)?;
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']');
                start + rest.iter().position(ends).unwrap_or(rest.len())
            }
        };
        let next = u32::try_from(self.nodes.len()).ok()?;
        let node = self.nodes.get_mut(index)?;
        node.span.1 = u32::try_from(end).ok()?;
        node.next = next;
        (end > start).then_some(end)
    }

    fn parts(&mut self, start: usize, open: u8, depth: u32) -> Option<usize> {
        // The codes of `{` and `}`, and those of `[` and `]`, differ by two.
        let close = open + 2;
        let mut at = start + 1;
        if *self.text.get(at)? == close {
            return Some(at + 1);
        }
        loop {
            let mut key = (0, 0);
            if open == b'{' {
                let end = self.string(at)?;
                key = (u32::try_from(at).ok()?, u32::try_from(end).ok()?);
                at = Some(end + 1).filter(|_| self.text.get(end) == Some(&b':'))?;
            }
            at = self.value(at, key, depth + 1)?;
            match *self.text.get(at)? {
                b',' => at += 1,
                byte if byte == close => return Some(at + 1),
                _ => return None,
            }
        }
    }

    /// Returns the end of the object that begins here, looking only at brackets and strings.
    fn skipped(&self, start: usize) -> Option<usize> {
        let mut at = start;
        let mut open = 0_u32;
        loop {
            match *self.text.get(at)? {
                b'"' => at = self.string(at)?,
                byte => {
                    at += 1;
                    match byte {
                        b'{' => open += 1,
                        b'}' => open -= 1,
                        _ => {}
                    }
                    if open == 0 {
                        return Some(at);
                    }
                }
            }
        }
    }

    /// Returns the end of the string that begins here.
    fn string(&self, start: usize) -> Option<usize> {
        let mut at = Some(start + 1).filter(|_| self.text.get(start) == Some(&b'"'))?;
        loop {
            let rest = self.text.get(at..)?;
            at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            match self.text[at] {
                b'"' => return Some(at + 1),
                _ => at += 2,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn built(json: Json<'_>) -> Value {
        if json.is_object() {
            let member =
                |part: Json<'_>| (String::from_utf8(part.key().into()).unwrap(), built(part));
            return json.parts().map(member).collect();
        }
        if json.is_list() {
            return json.parts().map(built).collect();
        }
        if json.is_string() {
            return String::from_utf8(json.text().into()).unwrap().into();
        }
        serde_json::from_slice(json.raw()).unwrap()
    }

    #[test]
    fn the_tree_is_the_value_that_was_written() {
        for value in [
            json!({}),
            json!([]),
            json!({"a": {"b": [1, -2.5, true, false, null, "x", [], {}]}, "ä\"\\\n": "\u{1}é\"", "": [[[]]]}),
            json!({"metadata": {"labels": {"a/b": "c"}}, "spec": [{"n": 1}, {"n": 2}]}),
        ] {
            let text = value.to_string();
            let tape = Tape::read(text.as_bytes()).unwrap();
            assert_eq!(built(tape.root()), value);
        }
        let tape = Tape::read(br#"{"a":{"x":1},"b":2,"x":3}"#).unwrap();
        assert_eq!(tape.root().member("x").unwrap().int(), 3);
        assert!(tape.root().member("y").is_none());
    }

    #[test]
    fn what_is_taken_as_text_has_one_node() {
        let text = br#"{"fieldsV1":{"f:a":{"k:{\"b\":\"}\"}":{}}},"then":1}"#;
        let tape = Tape::read(text).unwrap();
        assert_eq!(tape.nodes.len(), 3);
        let sets = tape.root().member("fieldsV1").unwrap();
        assert_eq!(sets.raw(), br#"{"f:a":{"k:{\"b\":\"}\"}":{}}}"#);
        assert_eq!(sets.parts().count(), 0);
        assert_eq!(tape.root().member("then").unwrap().int(), 1);
    }

    #[test]
    fn a_broken_text_has_no_tree() {
        let text = r#"{"a":[1,{"b":"\"x"}],"c":null}"#;
        for end in 0..text.len() {
            assert!(Tape::read(&text.as_bytes()[..end]).is_none(), "{end}");
        }
        let deep = "[".repeat(100_000);
        for text in [
            "{\"a\"1}",
            "{a:1}",
            "[1}",
            "{}x",
            "[1,]",
            r#"{"fieldsV1":{{}"#,
            &deep,
        ] {
            assert!(Tape::read(text.as_bytes()).is_none(), "{text:.20}");
        }
    }
}
