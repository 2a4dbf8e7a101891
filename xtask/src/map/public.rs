//! The public items of a crate, through the crates of ours that it re-exports.
//!
//! ```text
//! trees of all crates ──▶ World ──public(crate)──▶ { Name { crate, file, item } }
//!                           └──locate(path)──▶ the crate and file that define an item
//! ```
//!
//! An item is public if its modules are all `pub`, or if a `pub use` in such a module names it.

use std::collections::{BTreeMap, BTreeSet};

use super::outline::Outline;
use super::tree::{Found, Tree};
use super::uses::Reach;

/// BOUND: crates that export from each other in a row.
const DEPTH_MAX: usize = 8;

/// An item by the place that defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name<'o> {
    /// Its crate, as in paths: `kinform_core`.
    pub(crate) krate: &'o str,
    /// Its file's number in that crate.
    pub(crate) file: usize,
    /// Its own name.
    pub(crate) item: &'o str,
}

/// The crates of a repository.
#[derive(Debug)]
pub(crate) struct World<'a, 'o> {
    trees: BTreeMap<&'o str, Tree<'a, 'o>>,
}

/// The outlines of each crate's files, by the crate's name in paths.
pub(crate) type Outlines<'a> = BTreeMap<String, BTreeMap<&'a str, Outline>>;

impl<'a, 'o> World<'a, 'o> {
    pub(crate) fn new(outlines: &'o Outlines<'a>) -> Self {
        let trees = outlines.iter();
        Self {
            trees: trees
                .map(|(name, files)| (name.as_str(), Tree::new(files)))
                .collect(),
        }
    }

    /// The modules of a crate, if it is one of these.
    pub(crate) fn tree(&self, krate: &str) -> Option<&Tree<'a, 'o>> {
        self.trees.get(krate)
    }

    /// The definition of the item that a path in a module leads to.
    pub(crate) fn locate(
        &self,
        krate: &'o str,
        module: usize,
        path: &[String],
    ) -> Option<Name<'o>> {
        self.follow(krate, module, path, 0)
    }

    fn follow(
        &self,
        krate: &'o str,
        module: usize,
        path: &[String],
        depth: usize,
    ) -> Option<Name<'o>> {
        let found = self.trees.get(krate)?.find(module, path);
        match found {
            Found::Item(file, item) => Some(Name { krate, file, item }),
            Found::Outside(path) if depth < DEPTH_MAX => {
                let (krate, _) = self.trees.get_key_value(path.first()?.as_str())?;
                self.follow(krate, 0, path.get(1..)?, depth + 1)
            }
            Found::Module(_) | Found::Outside(_) | Found::Unknown => None,
        }
    }

    /// The items that a crate shows.
    pub(crate) fn public(&self, krate: &'o str) -> BTreeSet<Name<'o>> {
        let mut walk = Walk {
            world: self,
            seen: BTreeSet::new(),
            items: BTreeSet::new(),
        };
        walk.module(krate, 0);
        walk.items
    }
}

struct Walk<'w, 'a, 'o> {
    world: &'w World<'a, 'o>,
    seen: BTreeSet<(&'o str, usize)>,
    items: BTreeSet<Name<'o>>,
}

impl<'o> Walk<'_, '_, 'o> {
    /// Adds the public items of a public module.
    fn module(&mut self, krate: &'o str, module: usize) {
        let Some(tree) = self.world.trees.get(krate) else {
            return;
        };
        if !self.seen.insert((krate, module)) {
            return;
        }
        let scope = tree.scope(module);
        for name in &scope.public {
            if let Some(child) = tree.child(module, name) {
                self.module(krate, child);
            }
            if scope.items.contains(name) {
                let file = tree.file_of(module);
                self.items.insert(Name {
                    krate,
                    file,
                    item: name,
                });
            }
        }
        for import in scope.imports.iter().filter(|i| i.reach == Reach::Public) {
            self.target(krate, module, &import.path, 0);
        }
    }

    /// Adds the items that a public import names, or all of its module's.
    fn target(&mut self, krate: &'o str, module: usize, path: &[String], depth: usize) {
        let Some(tree) = self.world.trees.get(krate) else {
            return;
        };
        match tree.find(module, path) {
            Found::Item(file, item) => {
                self.items.insert(Name { krate, file, item });
            }
            Found::Module(module) => self.module(krate, module),
            Found::Outside(path) if depth < DEPTH_MAX => {
                let other = path
                    .first()
                    .and_then(|name| self.world.trees.get_key_value(name.as_str()));
                if let Some((krate, _)) = other {
                    self.target(krate, 0, &path[1..], depth + 1);
                }
            }
            Found::Outside(_) | Found::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the public items of crate `b`, which may export from crate `a`.
    #[track_caller]
    fn check(root: &str, expected: &[&str]) {
        let files = |texts: &[(&'static str, &str)]| -> BTreeMap<&str, Outline> {
            texts
                .iter()
                .map(|(path, code)| (*path, Outline::new(code)))
                .collect()
        };
        let a = files(&[
            (
                "lib.rs",
                "pub mod open; mod shut; pub use shut::S; pub struct A;",
            ),
            (
                "open.rs",
                "pub struct O; struct Inner; pub(crate) struct C;",
            ),
            ("shut.rs", "pub struct S; pub struct Hidden;"),
        ]);
        let b = files(&[("lib.rs", root), ("own.rs", "pub struct B; pub fn f() {}")]);
        let outlines = Outlines::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        let public = World::new(&outlines).public("b");
        let found: Vec<String> = public
            .iter()
            .map(|n| format!("{} {}", n.krate, n.item))
            .collect();
        assert_eq!(found, expected, "{root}");
    }

    #[test]
    fn public_is_what_public_modules_and_exports_show() {
        check("mod own; pub use own::B;", &["b B"]);
        check("pub mod own;", &["b B", "b f"]);
        check("mod own; pub(crate) use own::B; use own::f;", &[]);
        check("pub use a::S; pub use a::A as Other;", &["a A", "a S"]);
        check("pub use a::open;", &["a O"]);
        check("pub use a::open::*;", &["a O"]);
        check("pub use a;", &["a A", "a O", "a S"]);
        check(
            "pub mod own; pub mod x { pub use super::own::B; pub use a::A; }",
            &["a A", "b B", "b f"],
        );
        check("pub use std::fmt::Debug;", &[]);
    }

    #[test]
    fn a_path_is_located_through_crates() {
        let files = |code: &str| BTreeMap::from([("lib.rs", Outline::new(code))]);
        let outlines = Outlines::from([
            ("a".to_owned(), files("pub struct A;")),
            ("b".to_owned(), files("pub use a::A as B;")),
            ("c".to_owned(), files("use b::B as C; mod m {}")),
        ]);
        let world = World::new(&outlines);
        let located = |name: &str| {
            let path = [name.to_owned()];
            let found = world.tree("c").unwrap().find(0, &path);
            (
                found,
                world.locate("c", 0, &path).map(|n| (n.krate, n.item)),
            )
        };
        assert_eq!(located("C").1, Some(("a", "A")));
        assert_eq!(located("Vec").1, None);
        assert_eq!(located("m"), (Found::Module(1), None));
    }
}
