//! The modules of one crate, and the file that defines each name.
//!
//! ```text
//! outlines by path ──▶ Tree ──resolve(module, path)──▶ the file of the item, through re-exports
//! ```
//!
//! Only files that a `mod` declaration reaches belong to the crate, so test files do not. A name
//! that no item and no import of a module defines (a macro makes it) belongs to the file of that
//! module. A path whose first name is unknown leads outside of the crate.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::outline::{Outline, Scope};
use super::uses::{Import, Reach};

/// BOUND: re-exports that are followed in a row.
const DEPTH_MAX: usize = 32;

/// The name of items that a macro makes.
const MADE: &str = "";

/// One module.
#[derive(Debug)]
struct Module<'o> {
    file: usize,
    parent: Option<usize>,
    children: HashMap<&'o str, usize>,
    scope: &'o Scope,
}

/// The modules of a crate, from one or more roots.
#[derive(Debug)]
pub(crate) struct Tree<'a, 'o> {
    /// Paths from the crate's `src`, in the order of their declaration.
    files: Vec<&'a str>,
    modules: Vec<Module<'o>>,
    macros: HashMap<&'o str, usize>,
}

/// An import that was resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reference<'a> {
    /// The importing file.
    pub(crate) from: &'a str,
    /// The file that defines the item.
    pub(crate) to: &'a str,
    /// Offset in the importing file.
    pub(crate) at: usize,
}

/// The end of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found<'o> {
    /// A module of the crate.
    Module(usize),
    /// An item of a file of the crate, by its own name.
    Item(usize, &'o str),
    /// In another crate, or unknown: the path from there.
    Outside(Vec<String>),
    /// A name that a module does not have.
    Unknown,
}

impl<'a, 'o> Tree<'a, 'o> {
    /// Follows the `mod` declarations from the roots among the files.
    pub(crate) fn new(outlines: &'o BTreeMap<&'a str, Outline>) -> Self {
        let mut tree = Self {
            files: Vec::new(),
            modules: Vec::new(),
            macros: HashMap::new(),
        };
        let is_root = |path: &str| matches!(path, "lib.rs" | "main.rs") || path.starts_with("bin/");
        for path in outlines.keys().filter(|path| is_root(path)) {
            tree.add_file(outlines, path, None);
        }
        tree
    }

    /// The files that belong to the crate.
    pub(super) fn files(&self) -> BTreeSet<&'a str> {
        self.files.iter().copied().collect()
    }

    /// Adds a file's modules and those of the files that it declares; returns its own module.
    fn add_file(
        &mut self,
        outlines: &'o BTreeMap<&'a str, Outline>,
        path: &'a str,
        parent: Option<usize>,
    ) -> usize {
        let file = self.files.len();
        self.files.push(path);
        let outline = &outlines[path];
        for name in &outline.macros {
            self.macros.insert(name, file);
        }
        let first = self.modules.len();
        for scope in &outline.scopes {
            let parent = scope.parent.map_or(parent, |inner| Some(first + inner));
            let module = self.modules.len();
            if let Some(parent) = scope.parent {
                self.modules[first + parent]
                    .children
                    .insert(&scope.name, module);
            }
            self.modules.push(Module {
                file,
                parent,
                children: HashMap::new(),
                scope,
            });
        }
        for (inner, scope) in outline.scopes.iter().enumerate() {
            let folder = folder(path, &outline.scopes, inner);
            for child in &scope.children {
                let paths = [
                    format!("{folder}{child}.rs"),
                    format!("{folder}{child}/mod.rs"),
                ];
                let known = paths
                    .iter()
                    .find_map(|p| outlines.get_key_value(p.as_str()));
                if let Some((path, _)) = known {
                    let module = self.add_file(outlines, path, Some(first + inner));
                    self.modules[first + inner].children.insert(child, module);
                }
            }
        }
        first
    }

    /// All imports and paths that lead from one file of the crate to another, sorted.
    pub(super) fn references(&self) -> BTreeSet<Reference<'a>> {
        let mut found = BTreeSet::new();
        for (index, module) in self.modules.iter().enumerate() {
            let mut push = |to: Option<usize>, at: usize| {
                if let Some(to) = to.filter(|to| *to != module.file) {
                    let (from, to) = (self.files[module.file], self.files[to]);
                    found.insert(Reference { from, to, at });
                }
            };
            for mention in &module.scope.mentions {
                let to = match mention.path.as_slice() {
                    [name] => self.macros.get(name.as_str()).copied(),
                    path => self.file(self.resolve(index, path, 0)),
                };
                push(to, mention.at);
            }
            let heads = module.scope.mentions.iter().filter(|m| m.path.len() > 1);
            let heads: BTreeSet<&str> = heads.map(|mention| mention.path[0].as_str()).collect();
            for import in &module.scope.imports {
                let is_used = |name: &String| module.scope.words.contains(name);
                if import.reach != Reach::Private && !import.name.as_ref().is_some_and(is_used) {
                    continue; // a re-export
                }
                let target = self.resolve(index, &import.path, 0);
                let is_head = import
                    .name
                    .as_deref()
                    .is_some_and(|name| heads.contains(name));
                if matches!(target, Found::Module(_)) && is_head {
                    continue; // the paths through it say what is used
                }
                push(self.file(target), import.at);
            }
        }
        found
    }

    /// The end of a path in a module.
    pub(crate) fn find(&self, module: usize, path: &[String]) -> Found<'o> {
        self.resolve(module, path, 0)
    }

    /// The contents of a module.
    pub(crate) fn scope(&self, module: usize) -> &'o Scope {
        self.modules[module].scope
    }

    /// A module of a module.
    pub(crate) fn child(&self, module: usize, name: &str) -> Option<usize> {
        self.modules[module].children.get(name).copied()
    }

    /// The number of the file that a module is in.
    pub(crate) fn file_of(&self, module: usize) -> usize {
        self.modules[module].file
    }

    /// The module that a file is.
    pub(crate) fn module_of(&self, path: &str) -> Option<usize> {
        let file = self.files.iter().position(|file| *file == path)?;
        self.modules.iter().position(|module| module.file == file)
    }

    fn file(&self, found: Found<'_>) -> Option<usize> {
        match found {
            Found::Module(module) => Some(self.modules[module].file),
            Found::Item(file, _) => Some(file),
            Found::Outside(_) | Found::Unknown => None,
        }
    }

    /// The item or module that a path in a module leads to; `depth` re-exports were followed
    /// before.
    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Found<'o> {
        let mut rest = path;
        let mut at = Found::Module(from);
        let mut current = from;
        while let Some((first, after)) = rest.split_first() {
            match first.as_str() {
                "crate" => {
                    while let Some(parent) = self.modules[current].parent {
                        current = parent;
                    }
                }
                "super" => current = self.modules[current].parent.unwrap_or(current),
                "self" => {}
                _ => break,
            }
            at = Found::Module(current);
            rest = after;
        }
        let is_anchored = rest.len() < path.len();
        for (index, name) in rest.iter().enumerate() {
            let after = &rest[index + 1..];
            match self.look_up(current, name, after.is_empty(), depth) {
                Found::Unknown if index == 0 && !is_anchored => {
                    return Found::Outside(path.to_vec());
                }
                Found::Unknown => return Found::Item(self.modules[current].file, MADE),
                Found::Outside(path) => return Found::Outside([&path, after].concat()),
                Found::Module(module) => current = module,
                item @ Found::Item(..) => return item,
            }
            at = Found::Module(current);
        }
        at
    }

    /// The meaning of one name in a module.
    fn look_up(&self, module: usize, name: &str, is_last: bool, depth: usize) -> Found<'o> {
        let Module {
            scope,
            children,
            file,
            parent,
        } = &self.modules[module];
        match (children.get(name), scope.items.get(name)) {
            (Some(_), Some(item)) if is_last => return Found::Item(*file, item),
            (Some(child), _) => return Found::Module(*child),
            (None, Some(item)) => return Found::Item(*file, item),
            (None, None) => {}
        }
        if depth == DEPTH_MAX {
            return Found::Unknown;
        }
        let named = scope.imports.iter();
        let named = named.filter(|import| import.name.as_deref() == Some(name));
        let found = self.through(module, named, depth);
        if found != Found::Unknown {
            return found;
        }
        for glob in scope.imports.iter().filter(|import| import.is_glob) {
            if let Found::Module(other) = self.resolve(module, &glob.path, depth + 1)
                && other != module
                && let found @ (Found::Module(_) | Found::Item(..)) =
                    self.look_up(other, name, is_last, depth + 1)
            {
                return found;
            }
        }
        // A macro that is exported stands at the root.
        let exported = self.macros.get_key_value(name).filter(|_| parent.is_none());
        exported.map_or(Found::Unknown, |(name, file)| Found::Item(*file, name))
    }

    /// The first of some imports that leads into the crate, or else out of it.
    fn through(
        &self,
        module: usize,
        imports: impl Iterator<Item = &'o Import>,
        depth: usize,
    ) -> Found<'o> {
        let mut outside = Found::Unknown;
        for import in imports {
            // `use time;` names itself, and means the crate.
            let is_itself = import.path.len() == 1 && import.name.as_ref() == import.path.first();
            if is_itself {
                return Found::Outside(import.path.clone());
            }
            match self.resolve(module, &import.path, depth + 1) {
                Found::Unknown => outside = Found::Outside(import.path.clone()),
                found @ Found::Outside(_) => outside = found,
                found => return found,
            }
        }
        outside
    }
}

/// The folder of the files of a module's children, with a slash at its end.
fn folder(path: &str, scopes: &[Scope], inner: usize) -> String {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(f, n)| (f, n));
    let mut parts = Vec::new();
    let mut scope = &scopes[inner];
    while let Some(parent) = scope.parent {
        parts.push(scope.name.as_str());
        scope = &scopes[parent];
    }
    let is_hub = matches!(name, "mod.rs" | "lib.rs" | "main.rs") || folder == "bin";
    parts.extend((!is_hub).then(|| name.trim_end_matches(".rs")));
    parts.extend((!folder.is_empty()).then_some(folder));
    parts.iter().rev().map(|part| format!("{part}/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the references of a crate, each as `from -> to`.
    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let outlines = files.iter().map(|(path, code)| (*path, Outline::new(code)));
        let outlines: BTreeMap<&str, Outline> = outlines.collect();
        let mut found: Vec<String> = Tree::new(&outlines)
            .references()
            .iter()
            .map(|r| format!("{} -> {}", r.from, r.to))
            .collect();
        found.dedup();
        assert_eq!(found, expected);
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b;");

    #[test]
    fn an_import_leads_to_the_file_that_defines_the_item() {
        let hub = (
            "b/mod.rs",
            "pub(crate) mod c; mod d; pub(crate) use d::*; pub use c::C;",
        );
        let c = ("b/c.rs", "pub struct C; pub fn f() {}");
        let d = ("b/d.rs", "pub struct D;");
        for (code, to) in [
            ("use crate::b::C;", "a.rs -> b/c.rs"),
            ("use super::b::{C as E};", "a.rs -> b/c.rs"),
            ("fn f() { crate::b::C::new() }", "a.rs -> b/c.rs"),
            (
                "use crate::b; fn f() { b::C::new(); b::c::f() }",
                "a.rs -> b/c.rs",
            ),
            ("use crate::b::D;", "a.rs -> b/d.rs"),
            ("use crate::b::made_by_a_macro;", "a.rs -> b/mod.rs"),
            ("use crate::b;", "a.rs -> b/mod.rs"),
            ("use crate::b::*;", "a.rs -> b/mod.rs"),
            ("use crate::b::{self, C}; type X = b::D;", "a.rs -> b/c.rs"),
        ] {
            let mut expected = vec![to];
            if code.contains("{self") {
                expected.push("a.rs -> b/d.rs");
            }
            check(&[ROOT, ("a.rs", code), hub, c, d], &expected);
        }
    }

    #[test]
    fn a_re_export_is_an_import_only_where_its_name_is_used() {
        let a = ("a.rs", "pub struct A; pub struct B;");
        let root = |code| [("lib.rs", code), a];
        check(&root("mod a; pub use a::A;"), &[]);
        check(
            &root("mod a; pub use a::A; fn f(a: A) {}"),
            &["lib.rs -> a.rs"],
        );
        check(&root("mod a; use a::A;"), &["lib.rs -> a.rs"]);
    }

    #[test]
    fn other_crates_and_the_file_itself_are_no_edges() {
        let b = ("b.rs", "pub struct B;");
        let a = "use std::fmt; use b_crate::X; mod inner { use super::Y; } struct Y; fn f() { fmt::x(); serde::y() }";
        check(&[ROOT, ("a.rs", a), b], &[]);
        check(&[ROOT, ("a.rs", "use crate::B;"), b], &["a.rs -> lib.rs"]);
    }

    #[test]
    fn a_child_sees_what_its_parent_imports() {
        let hub = ("a/mod.rs", "mod c; use crate::b::B; fn f(b: B) {}");
        let files = [
            ROOT,
            hub,
            ("a/c.rs", "use super::B;"),
            ("b.rs", "pub struct B;"),
        ];
        check(&files, &["a/c.rs -> b.rs", "a/mod.rs -> b.rs"]);
    }

    #[test]
    fn modules_beside_their_folder_and_inside_of_files_are_followed() {
        let files = [
            ROOT,
            (
                "a.rs",
                "mod c; mod inner { pub fn f() { super::c::g(); super::super::b::h() } }",
            ),
            ("a/c.rs", "pub fn g() { super::inner::f() }"),
            ("b.rs", "pub fn h() {}"),
            ("stray.rs", "use crate::b::h;"),
        ];
        check(
            &files,
            &["a.rs -> a/c.rs", "a.rs -> b.rs", "a/c.rs -> a.rs"],
        );
    }

    #[test]
    fn macros_are_found_by_name_and_at_the_root() {
        let b = ("b.rs", "macro_rules! told { () => {} }");
        check(
            &[ROOT, ("a.rs", "fn f() { told!() }"), b],
            &["a.rs -> b.rs"],
        );
        check(
            &[ROOT, ("a.rs", "fn f() { crate::told!() }"), b],
            &["a.rs -> b.rs"],
        );
        check(&[ROOT, ("a.rs", "fn f() { println!() }"), b], &[]);
        // `write!` is no module.
        let write = [("lib.rs", "mod a; mod write;"), ("write.rs", "")];
        check(
            &[
                ("a.rs", "use crate::write; fn f() { write!(x); write::g() }"),
                write[0],
                write[1],
            ],
            &["a.rs -> write.rs"],
        );
        check(
            &[
                ("a.rs", "use super::*; fn f() { write!(x) }"),
                write[0],
                write[1],
            ],
            &["a.rs -> lib.rs"],
        );
    }

    #[test]
    fn imports_in_a_circle_end() {
        let files = [
            ROOT,
            ("a.rs", "use super::b::X; use super::b::*;"),
            ("b.rs", "use super::a::X; use super::a::*;"),
        ];
        check(&files, &["a.rs -> b.rs", "b.rs -> a.rs"]);
    }
}
