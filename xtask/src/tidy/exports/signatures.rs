//! The public signatures in a file: which item each belongs to, and the names in it.
//!
//! ```text
//! impl From<Key> for Store { pub fn get(&self, key: &Key) {..} } ──▶ Store: [From, Key, Store], Store: [Key]
//! ```
//!
//! Bodies of functions, private fields and inline modules are not read. Of an `impl` of a trait the
//! head and the associated types count: its functions are the trait's. The `pub fn`s that a macro
//! makes have no owner here.

use crate::text::tokens::{Kind, Token, tokens};

/// A public signature.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signature {
    /// The path of the item that it belongs to, as written; empty in a macro.
    pub(super) owner: Vec<String>,
    /// Paths and lone words in it, with their offsets.
    pub(super) names: Vec<(Vec<String>, usize)>,
}

/// Words between `pub` and the keyword of an item.
const QUALIFIERS: [&str; 4] = ["async", "unsafe", "const", "extern"];

/// Reads code without tests.
pub(super) fn read(code: &str) -> Vec<Signature> {
    let mut reader = Reader {
        tokens: tokens(code),
        found: Vec::new(),
    };
    reader.items(0, reader.tokens.len(), None);
    reader.found
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    found: Vec<Signature>,
}

impl<'a> Reader<'a> {
    fn word(&self, at: usize) -> Option<&'a str> {
        self.tokens.get(at)?.word()
    }

    fn is(&self, at: usize, sign: char) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(sign))
    }

    /// Reads items up to an index; those of an `impl` belong to its owner.
    fn items(&mut self, mut at: usize, end: usize, owner: Option<&[String]>) {
        while at < end {
            at = match self.tokens[at].kind {
                Kind::Sign('#') => self.attribute(at),
                Kind::Sign('{') => self.close(at),
                Kind::Word("pub") if self.is(at + 1, '(') => self.close(at + 1),
                Kind::Word("pub") => self.item(at + 1, owner),
                Kind::Word("macro_rules") if self.is(at + 1, '!') => self.made(at + 3),
                Kind::Word("impl") if owner.is_none() => self.implementation(at),
                _ => at + 1,
            };
        }
    }

    /// Reads a public item whose visibility ends before an index; returns the index of the next
    /// one.
    fn item(&mut self, mut at: usize, owner: Option<&[String]>) -> usize {
        while self.is(at, '"') || self.word(at).is_some_and(|w| QUALIFIERS.contains(&w)) {
            // `const X: T` is an item, `const fn` is not.
            if self.word(at) == Some("const") && !self.word(at + 1).is_some_and(is_qualified) {
                break;
            }
            at += 1;
        }
        let (Some(keyword), Some(name)) = (self.word(at), self.word(at + 1)) else {
            return at + 1;
        };
        let owner = owner.map_or_else(|| vec![name.to_owned()], <[String]>::to_vec);
        let head = self.head(at);
        match keyword {
            "fn" | "type" => self.push(owner, at + 2, head),
            "const" | "static" => {
                let type_end = (at..head)
                    .find(|index| self.is(*index, '='))
                    .unwrap_or(head);
                self.push(owner, at + 2, type_end);
            }
            "struct" | "union" => return self.structure(owner, at, head),
            "enum" => {
                let end = self.close(head);
                self.push(owner, at + 2, end);
                return end;
            }
            "trait" => return self.interface(owner, at, head),
            _ => {}
        }
        if self.is(head, '{') {
            self.close(head)
        } else {
            head + 1
        }
    }

    /// The index of the `{` or `;` that ends an item's head.
    fn head(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        for index in at..self.tokens.len() {
            match self.tokens[index].kind {
                Kind::Sign('{' | ';') if depth == 0 => return index,
                Kind::Sign('(' | '[' | '{') => depth += 1,
                Kind::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// The index after the bracket that closes the one at an index.
    fn close(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        for index in at..self.tokens.len() {
            match self.tokens[index].kind {
                Kind::Sign('(' | '[' | '{') => depth += 1,
                Kind::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index + 1;
            }
        }
        self.tokens.len()
    }

    fn attribute(&self, at: usize) -> usize {
        let open = at + 1 + usize::from(self.is(at + 1, '!'));
        if self.is(open, '[') {
            self.close(open)
        } else {
            at + 1
        }
    }

    /// Reads the public functions in the body of a macro that begins at an index.
    fn made(&mut self, at: usize) -> usize {
        let end = self.close(at);
        for index in at..end {
            if self.word(index) == Some("pub") && self.word(index + 1) == Some("fn") {
                self.push(Vec::new(), index + 2, self.head(index + 1));
            }
        }
        end
    }

    /// Reads a struct: generics, and the fields that are public.
    fn structure(&mut self, owner: Vec<String>, at: usize, head: usize) -> usize {
        let tuple = (at..head).find(|index| self.is(*index, '('));
        let fields = tuple.unwrap_or(head);
        self.push(owner.clone(), at + 2, fields);
        if !(self.is(fields, '(') || self.is(fields, '{')) {
            return fields + 1;
        }
        let end = self.close(fields);
        let mut index = fields + 1;
        while index < end {
            let field = self.field_end(index, end);
            let mut start = index;
            while self.is(start, '#') {
                start = self.attribute(start);
            }
            if self.word(start) == Some("pub") && !self.is(start + 1, '(') {
                self.push(owner.clone(), start + 1, field);
            }
            index = field + 1;
        }
        end
    }

    /// The index of the comma after a field, or the end.
    fn field_end(&self, at: usize, end: usize) -> usize {
        let (mut depth, mut angles) = (0_usize, 0_usize);
        for index in at..end {
            match self.tokens[index].kind {
                Kind::Sign('(' | '[' | '{') => depth += 1,
                Kind::Sign(')' | ']' | '}') => depth = depth.saturating_sub(1),
                Kind::Sign('<') => angles += 1,
                Kind::Sign('>') if !self.is(index - 1, '-') => angles = angles.saturating_sub(1),
                Kind::Sign(',') if depth == 0 && angles == 0 => return index,
                _ => {}
            }
        }
        end
    }

    /// Reads a trait: its head, and its items without bodies.
    fn interface(&mut self, owner: Vec<String>, at: usize, head: usize) -> usize {
        self.push(owner.clone(), at + 2, head);
        let end = self.close(head);
        let mut index = head + 1;
        while index + 1 < end {
            let item = self.head(index).min(end - 1);
            self.push(owner.clone(), index, item);
            index = if self.is(item, '{') {
                self.close(item)
            } else {
                item + 1
            };
        }
        end
    }

    /// Reads an `impl`: its head, then its public items, or its associated types.
    fn implementation(&mut self, at: usize) -> usize {
        let head = self.head(at);
        let of = (at..head).find(|i| self.word(*i) == Some("for") && !self.is(i + 1, '<'));
        let subject = of.map_or_else(|| self.after_generics(at + 1), |of| of + 1);
        let owner = self.path(subject, head);
        let end = self.close(head);
        let Some(owner) = owner else {
            return end;
        };
        self.push(owner.clone(), at + 1, head);
        if of.is_none() {
            self.items(head + 1, end.saturating_sub(1), Some(&owner));
            return end;
        }
        let mut index = head + 1;
        while index + 1 < end {
            let item = self.head(index).min(end - 1);
            if (index..item).any(|i| self.word(i) == Some("type")) {
                self.push(owner.clone(), index, item);
            }
            index = if self.is(item, '{') {
                self.close(item)
            } else {
                item + 1
            };
        }
        end
    }

    /// The index after `<..>`, if that stands at an index.
    fn after_generics(&self, at: usize) -> usize {
        if !self.is(at, '<') {
            return at;
        }
        let mut angles = 0_usize;
        for index in at..self.tokens.len() {
            match self.tokens[index].kind {
                Kind::Sign('<') => angles += 1,
                Kind::Sign('>') if !self.is(index - 1, '-') => angles -= 1,
                _ => {}
            }
            if angles == 0 {
                return index + 1;
            }
        }
        self.tokens.len()
    }

    /// The first path between two indices, after references.
    fn path(&self, at: usize, end: usize) -> Option<Vec<String>> {
        let skipped = ["dyn", "mut"];
        let is_lifetime = |index: usize| index > 0 && self.is(index - 1, '\'');
        let start = (at..end).find(|index| {
            let word = self.word(*index);
            word.is_some_and(|word| !skipped.contains(&word)) && !is_lifetime(*index)
        })?;
        Some(self.path_from(start).0)
    }

    /// The path at an index, and the index after it.
    fn path_from(&self, start: usize) -> (Vec<String>, usize) {
        let mut path = Vec::from_iter(self.word(start).map(str::to_owned));
        let mut at = start + 1;
        while self.tokens.get(at).is_some_and(|t| t.kind == Kind::Path) {
            let Some(word) = self.word(at + 1) else {
                break;
            };
            path.push(word.to_owned());
            at += 2;
        }
        (path, at)
    }

    fn push(&mut self, owner: Vec<String>, mut at: usize, end: usize) {
        let mut names = Vec::new();
        while at < end {
            if self.word(at).is_none() {
                at += 1;
                continue;
            }
            let place = self.tokens[at].at;
            let (path, next) = self.path_from(at);
            names.push((path, place));
            at = next;
        }
        self.found.push(Signature { owner, names });
    }
}

fn is_qualified(word: &str) -> bool {
    word == "fn" || QUALIFIERS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the signatures, each as `Owner: A b::C`; words that begin in lower case are left out.
    #[track_caller]
    fn check(code: &str, expected: &[&str]) {
        let is_type = |path: &&Vec<String>| {
            path.last()
                .is_some_and(|name| name.starts_with(char::is_uppercase))
        };
        let found: Vec<String> = read(code)
            .iter()
            .map(|signature| {
                let names: Vec<String> = signature
                    .names
                    .iter()
                    .map(|(path, _)| path)
                    .filter(is_type)
                    .map(|p| p.join("::"))
                    .collect();
                format!("{}: {}", signature.owner.join("::"), names.join(" "))
            })
            .collect();
        assert_eq!(found, expected, "{code}");
    }

    #[test]
    fn functions_types_and_constants_are_read_to_their_bodies() {
        check(
            "pub async fn f<T: A>(a: b::C) -> [D; 2] where T: E { F }",
            &["f: T A b::C D T E"],
        );
        check(
            "pub type A = B<C>; pub const D: E = F::G; pub static H: I = J;",
            &["A: B C", "D: E", "H: I"],
        );
        check(
            "pub const fn f() -> A { B } pub unsafe extern \" \" fn g(b: B);",
            &["f: A", "g: B"],
        );
        check(
            "fn f(a: A) {} pub(crate) fn g(b: B) {} mod m { pub fn h(c: C) {} }",
            &[],
        );
    }

    #[test]
    fn of_structs_the_public_fields_count() {
        check(
            "pub struct A<T: B> { #[c] pub d: D<T, E>, f: F, pub(crate) g: G }",
            &["A: T B", "A: D T E"],
        );
        check(
            "pub struct A(pub B, C); pub struct D;",
            &["A: ", "A: B", "D: "],
        );
        check(
            "pub enum A { B(C), D { e: E } } struct F { pub g: G }",
            &["A: B C D E"],
        );
    }

    #[test]
    fn implementations_belong_to_their_type() {
        check(
            "impl<K> Obj<K> { pub fn a(b: B) {} fn c(d: D) {} pub const E: F = G; }",
            &["Obj: K Obj K", "Obj: B", "Obj: F"],
        );
        let of_trait =
            "impl<F: Fn(A) -> B> Trait<C> for &'a mut x::Obj { type Item = D; fn f(e: E) {} }";
        check(
            of_trait,
            &["x::Obj: F Fn A B Trait C x::Obj", "x::Obj: Item D"],
        );
        check(
            "pub trait A: B { type C: D; fn f(e: E) { F } fn g() -> G; }",
            &["A: B", "A: C D", "A: E", "A: G"],
        );
    }
}
