//! The outline of one file: its modules, and for each the items, imports and paths in it.
//!
//! ```text
//! code without tests ──tokens──▶ Outline [ Scope { children, items, imports, mentions, words } ]
//! ```
//!
//! Items are those of module level; an import inside of a function counts as one of its module.
//! Names that only a macro's expansion defines are unknown here. Restrictions of visibility
//! (`pub(in crate::a)`) are not paths. Linear in the code.

use std::collections::HashSet;

use super::uses::{Import, Reach, tree};
use crate::text::tokens::{Kind, Token, tokens};

/// Keywords before the name of an item.
const ITEMS: [&str; 8] = [
    "fn", "struct", "enum", "union", "trait", "type", "static", "const",
];
/// Words between a keyword and the name of its item.
const QUALIFIERS: [&str; 6] = ["mut", "fn", "unsafe", "async", "extern", "impl"];

/// Words between a visibility and the keyword of an item.
const BEFORE: [&str; 5] = ["async", "unsafe", "const", "extern", "auto"];

/// A path in code: `super::x::f` is `["super", "x", "f"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Segments; a single one is the name of a macro that is called.
    pub(crate) path: Vec<String>,
    /// Offset in the code.
    pub(crate) at: usize,
}

/// One module of a file; the first is the file itself.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Index of the module around it, in the same file.
    pub(crate) parent: Option<usize>,
    /// Its name; empty for the file itself.
    pub(crate) name: String,
    /// Modules in files of their own: `mod x;`.
    pub(crate) children: Vec<String>,
    /// Names that it defines.
    pub(crate) items: HashSet<String>,
    /// Names of items and modules that are `pub`.
    pub(crate) public: HashSet<String>,
    /// Its `use` declarations, flattened.
    pub(crate) imports: Vec<Import>,
    /// Paths outside of `use` declarations.
    pub(crate) mentions: Vec<Mention>,
    /// Words outside of `use` declarations.
    pub(crate) words: HashSet<String>,
}

/// The modules of one file.
#[derive(Debug)]
pub(crate) struct Outline {
    /// The file's own module, then those inside of it.
    pub(crate) scopes: Vec<Scope>,
    /// Macros that it defines, at any depth.
    pub(crate) macros: Vec<String>,
}

impl Outline {
    /// Reads masked code that has no tests in it.
    pub(crate) fn new(code: &str) -> Self {
        let mut reader = Reader {
            tokens: tokens(code),
            scopes: vec![Scope::default()],
            macros: Vec::new(),
            braces: Vec::new(),
        };
        let mut at = 0;
        while at < reader.tokens.len() {
            at = reader.step(at);
        }
        Self {
            scopes: reader.scopes,
            macros: reader.macros,
        }
    }
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    scopes: Vec<Scope>,
    macros: Vec<String>,
    /// For each open brace the module that it opens, if it is a module's.
    braces: Vec<Option<usize>>,
}

impl<'a> Reader<'a> {
    /// Reads the item at a token; returns the index of the next one.
    fn step(&mut self, at: usize) -> usize {
        let token = self.tokens[at];
        match token.kind {
            Kind::Sign('{') => self.braces.push(None),
            Kind::Sign('}') => {
                self.braces.pop();
            }
            Kind::Word("pub") if self.is_restricted(at) => return self.after(at, ')'),
            Kind::Word("use") if !self.is(at + 1, '<') => return self.import(at),
            Kind::Word("mod") if self.is_module_level() => return self.module(at),
            Kind::Word("macro_rules") if self.is(at + 1, '!') => return self.macro_rules(at),
            Kind::Word(_) => return self.word(at),
            Kind::Path | Kind::Sign(_) => {}
        }
        at + 1
    }

    fn is(&self, at: usize, sign: char) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(sign))
    }

    fn word_at(&self, at: usize) -> Option<&'a str> {
        self.tokens.get(at)?.word()
    }

    fn is_path(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|t| t.kind == Kind::Path)
    }

    fn is_module_level(&self) -> bool {
        self.braces.iter().all(Option::is_some)
    }

    fn scope(&mut self) -> &mut Scope {
        let inner = self.braces.iter().rev().find_map(|brace| *brace);
        &mut self.scopes[inner.unwrap_or(0)]
    }

    /// Returns whether a `pub` is restricted, as `pub(crate)` is.
    fn is_restricted(&self, at: usize) -> bool {
        let to = self.word_at(at + 2);
        self.is(at + 1, '(') && matches!(to, Some("crate" | "super" | "self" | "in"))
    }

    /// The index after the next such sign.
    fn after(&self, at: usize, sign: char) -> usize {
        let rest = self.tokens[at..].iter().position(|token| token.is(sign));
        rest.map_or(self.tokens.len(), |found| at + found + 1)
    }

    /// The reach of the item whose keyword this is.
    fn reach(&self, at: usize) -> Reach {
        let is_qualifier =
            |t: &&Token<'_>| t.word().is_some_and(|w| BEFORE.contains(&w)) || t.is('"');
        match self.tokens[..at].iter().rev().find(|t| !is_qualifier(t)) {
            Some(token) if token.word() == Some("pub") => Reach::Public,
            Some(token) if token.is(')') => Reach::Crate,
            _ => Reach::Private,
        }
    }

    fn import(&mut self, at: usize) -> usize {
        let end = self.after(at, ';');
        let reach = self.reach(at);
        let imports = tree(
            &self.tokens[at + 1..end.saturating_sub(1).max(at + 1)],
            reach,
        );
        self.scope().imports.extend(imports);
        end
    }

    fn module(&mut self, at: usize) -> usize {
        let Some(name) = self.word_at(at + 1).map(str::to_owned) else {
            return at + 1;
        };
        if self.reach(at) == Reach::Public {
            self.scope().public.insert(name.clone());
        }
        if !self.is(at + 2, '{') {
            self.scope().children.push(name);
            return at + 2;
        }
        let parent = self
            .braces
            .iter()
            .rev()
            .find_map(|brace| *brace)
            .unwrap_or(0);
        self.braces.push(Some(self.scopes.len()));
        self.scopes.push(Scope {
            parent: Some(parent),
            name,
            ..Scope::default()
        });
        at + 3
    }

    fn macro_rules(&mut self, at: usize) -> usize {
        self.macros.extend(self.word_at(at + 2).map(str::to_owned));
        at + 3
    }

    /// Reads an item's keyword and name, a path, or a lone word.
    fn word(&mut self, at: usize) -> usize {
        let word = self.word_at(at).unwrap_or_default();
        if self.is_module_level() && ITEMS.contains(&word) {
            let mut name = at + 1;
            while self.word_at(name).is_some_and(|w| QUALIFIERS.contains(&w)) {
                name += 1;
            }
            if let Some(name) = self.word_at(name).map(str::to_owned) {
                if self.reach(at) == Reach::Public {
                    self.scope().public.insert(name.clone());
                }
                self.scope().items.insert(name);
            }
            return name;
        }
        let place = self.tokens[at].at;
        let continues = at.checked_sub(1).is_some_and(|before| self.is_path(before));
        let (mut path, mut end) = (vec![word.to_owned()], at + 1);
        while self.is_path(end) {
            let Some(word) = self.word_at(end + 1) else {
                break;
            };
            path.push(word.to_owned());
            end += 2;
        }
        let is_call = self.is(end, '!') && !self.is(end + 1, '=');
        let scope = self.scope();
        scope.words.insert(word.to_owned());
        if !continues && (path.len() > 1 || is_call) {
            scope.mentions.push(Mention { path, at: place });
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(code: &str) -> Vec<String> {
        let outline = Outline::new(code);
        let paths = outline.scopes.iter().flat_map(|scope| &scope.mentions);
        paths.map(|mention| mention.path.join("::")).collect()
    }

    #[test]
    fn paths_are_found_in_bodies_and_signatures() {
        let code = "impl super::Read for X { fn f(a: crate::b::C) { d::e::<T>(1); ::std::f(); } }";
        assert_eq!(paths(code), ["super::Read", "crate::b::C", "d::e"]);
        assert_eq!(paths("pub(in crate::a::b) fn f() { told!(x) }"), ["told"]);
        assert_eq!(paths("fn f() { <A as B>::Out::c(); a != b }"), [""; 0]);
        assert_eq!(
            paths("macro_rules! m { () => { $crate::x::f() } }"),
            ["crate::x::f"]
        );
    }

    #[test]
    fn items_are_those_of_module_level() {
        let code = "pub(crate) const fn a() { struct Inner; } enum B {} const C: u8 = 1; \
                    static mut D: u8 = 1; pub async unsafe fn e() {} const _: () = (); \
                    impl B { fn method() {} } macro_rules! f { () => {} }";
        let outline = Outline::new(code);
        let mut items: Vec<&str> = outline.scopes[0].items.iter().map(String::as_str).collect();
        items.sort_unstable();
        assert_eq!(items, ["B", "C", "D", "_", "a", "e"]);
        assert_eq!(outline.macros, ["f"]);
    }

    #[test]
    fn modules_are_children_or_scopes() {
        let outline =
            Outline::new("mod a; pub mod b { use super::a::X; mod c { fn d() {} } } fn e() {}");
        assert_eq!(outline.scopes[0].children, ["a"]);
        let inner: Vec<_> = outline
            .scopes
            .iter()
            .map(|s| (s.name.as_str(), s.parent))
            .collect();
        assert_eq!(inner, [("", None), ("b", Some(0)), ("c", Some(1))]);
        assert_eq!(outline.scopes[1].imports.len(), 1);
        assert!(outline.scopes[2].items.contains("d"));
        assert!(outline.scopes[0].items.contains("e"));
    }

    #[test]
    fn reach_is_read_before_keywords() {
        let code = "pub use a::A; pub(crate) use b::B; use c::C; pub const unsafe fn d() -> impl X + use<'_> {} \
                    pub(crate) async fn e() {} pub mod f; pub extern \" \" fn g() {} struct H;";
        let outline = Outline::new(code);
        let scope = &outline.scopes[0];
        let reach: Vec<Reach> = scope.imports.iter().map(|i| i.reach).collect();
        assert_eq!(reach, [Reach::Public, Reach::Crate, Reach::Private]);
        let mut public: Vec<&str> = scope.public.iter().map(String::as_str).collect();
        public.sort_unstable();
        assert_eq!(public, ["d", "f", "g"]);
    }
}
