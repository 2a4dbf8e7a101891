//! A `use` declaration, flattened into its leaves.
//!
//! ```text
//! a::{b, c::{self, d as e}, f::*} ──▶ a::b, a::c, a::c::d as e, a::f::*
//! ```

use crate::text::tokens::{Kind, Token};

/// The part of the code that sees an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In its module and those below.
    Private,
    /// In a part of the crate: `pub(crate)`.
    Crate,
    /// Wherever its module is: `pub`.
    Public,
}

/// One leaf of a `use` declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    /// Segments, without the `*` of a glob.
    pub(crate) path: Vec<String>,
    /// The name that it brings into scope; `None` for `as _` and globs.
    pub(crate) name: Option<String>,
    /// Set for a glob.
    pub(crate) is_glob: bool,
    /// The reach of the imported name.
    pub(crate) reach: Reach,
    /// Offset of its last segment.
    pub(crate) at: usize,
}

/// Reads the tokens between `use` and `;`.
pub(super) fn tree(tokens: &[Token<'_>], reach: Reach) -> Vec<Import> {
    let mut leaves = Vec::new();
    // The prefixes of the groups that are open.
    let mut prefixes: Vec<Vec<String>> = vec![Vec::new()];
    let mut leaf = Leaf::default();
    for token in tokens {
        let prefix = prefixes.last().map_or(&[][..], Vec::as_slice);
        match token.kind {
            Kind::Word("as") => leaf.renames = true,
            Kind::Word(word) if leaf.renames => leaf.alias = Some(word.to_owned()),
            Kind::Word(word) => {
                leaf.path.push(word.to_owned());
                leaf.at = token.at;
            }
            Kind::Sign('*') => (leaf.is_glob, leaf.at) = (true, token.at),
            Kind::Sign('{') => {
                let inner = [prefix, &leaf.path].concat();
                prefixes.push(inner);
                leaf = Leaf::default();
            }
            Kind::Sign(',') => leaves.extend(std::mem::take(&mut leaf).end(prefix, reach)),
            Kind::Sign('}') => {
                leaves.extend(std::mem::take(&mut leaf).end(prefix, reach));
                prefixes.pop();
            }
            Kind::Path | Kind::Sign(_) => {}
        }
    }
    leaves.extend(leaf.end(&[], reach));
    leaves
}

#[derive(Default)]
struct Leaf {
    path: Vec<String>,
    alias: Option<String>,
    renames: bool,
    is_glob: bool,
    at: usize,
}

impl Leaf {
    fn end(self, prefix: &[String], reach: Reach) -> Option<Import> {
        if self.path.is_empty() && !self.is_glob {
            return None; // after a group or a trailing comma
        }
        let mut path = [prefix, &self.path].concat();
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = self.alias.or_else(|| path.last().cloned());
        Some(Import {
            name: name.filter(|name| !self.is_glob && name != "_"),
            path,
            is_glob: self.is_glob,
            reach,
            at: self.at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokens::tokens;

    #[track_caller]
    fn check(code: &str, expected: &[&str]) {
        let leaves = tree(&tokens(code), Reach::Private);
        let shown: Vec<String> = leaves
            .iter()
            .map(|leaf| {
                let glob = if leaf.is_glob { "::*" } else { "" };
                let name = leaf.name.as_deref().unwrap_or("_");
                format!("{}{glob} {name}", leaf.path.join("::"))
            })
            .collect();
        assert_eq!(shown, expected, "{code}");
    }

    #[test]
    fn groups_are_flattened() {
        check("a::b", &["a::b b"]);
        check("a::b as c", &["a::b c"]);
        check("a::B as _", &["a::B _"]);
        check("super::*", &["super::* _"]);
        check(
            "a::{b, c::{self, d as e}, f::*,}",
            &["a::b b", "a::c c", "a::c::d e", "a::f::* _"],
        );
        check("{a::b, c}", &["a::b b", "c c"]);
        check("crate::{a::{B}, d::E}", &["crate::a::B B", "crate::d::E E"]);
        check("::std::fmt", &["std::fmt fmt"]);
        check("self", &["self self"]);
    }
}
