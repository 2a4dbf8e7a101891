//! Users can name each type in a crate's public signatures by that crate alone.
//!
//! ```text
//! kinform, kinform-testkit ──signatures──▶ types of other crates of ours ──▶ exported by the crate?
//! ```
//!
//! The check reads the sources, not rustdoc's JSON, which needs a nightly compiler. So it misses
//! signatures inside of inline modules, items that macros make except functions, the methods of
//! items that are exported from other crates, and the type behind an `impl Trait`. Each type counts
//! once.

mod signatures;

use std::collections::BTreeMap;

use super::ceilings::Counted;
use super::finding::Finding;
use crate::map;
use crate::map::public::{Name, World};
use crate::text::file::crate_folder;
use crate::text::source::Source;

const RULE: &str = "exports";

/// The crates that users depend on.
const CRATES: [&str; 2] = ["kinform", "kinform-testkit"];

/// Checks the crates that users depend on.
pub(crate) fn check(sources: &[Source<'_>]) -> Vec<Counted> {
    let outlines = map::outlines(sources);
    let world = World::new(&outlines);
    let mut found = Vec::new();
    for package in CRATES {
        let name = package.replace('-', "_");
        let Some((krate, _)) = outlines.get_key_value(&name) else {
            continue;
        };
        let own = sources.iter().filter(|source| {
            let folder = crate_folder(source.path);
            folder.is_some_and(|folder| folder.trim_start_matches("crates/") == package)
        });
        for (missing, place) in missing(&world, krate, own) {
            let finding = Finding {
                path: place.0,
                line: place.1,
                rule: RULE,
                message: format!(
                    "{package} does not export {}::{}",
                    missing.krate, missing.item
                ),
            };
            found.push(Counted::new(format!("{RULE}.{package}"), finding));
        }
    }
    found
}

/// The items of other crates that public signatures name and the crate does not show, each with
/// its first place.
fn missing<'o, 's>(
    world: &World<'_, 'o>,
    krate: &'o str,
    sources: impl Iterator<Item = &'s Source<'s>>,
) -> BTreeMap<Name<'o>, (String, usize)> {
    let public = world.public(krate);
    let mut missing = BTreeMap::new();
    let Some(tree) = world.tree(krate) else {
        return missing;
    };
    for source in sources {
        let path = source.path.split_once("/src/").map_or("", |(_, path)| path);
        let Some(module) = tree.module_of(path) else {
            continue; // tests
        };
        for signature in signatures::read(source.production()) {
            let owner = world.locate(krate, module, &signature.owner);
            let is_public = owner.is_some_and(|owner| public.contains(&owner));
            if !(is_public || signature.owner.is_empty()) {
                continue;
            }
            for (path, at) in &signature.names {
                let name = world.locate(krate, module, path);
                if let Some(name) = name.filter(|n| n.krate != krate && !public.contains(n)) {
                    let place = || (source.path.to_owned(), source.line(*at));
                    missing.entry(name).or_insert_with(place);
                }
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::file::File;

    /// Checks for the types that a file of `kinform` names and does not export.
    #[track_caller]
    fn check_code(root: &str, code: &str, expected: &[&str]) {
        let file = |path: &str, text: &str| File {
            path: format!("crates/{path}"),
            text: text.to_owned(),
        };
        let files = [
            file(
                "kinform-api/src/lib.rs",
                "mod key; pub use key::{Key, Scope}; pub mod time;",
            ),
            file(
                "kinform-api/src/key.rs",
                "pub struct Key; pub enum Scope {}",
            ),
            file("kinform-api/src/time.rs", "pub struct Instant;"),
            file("kinform/src/lib.rs", root),
            file("kinform/src/store.rs", code),
        ];
        let sources: Vec<Source<'_>> = files.iter().map(Source::new).collect();
        let found: Vec<String> = check(&sources)
            .into_iter()
            .map(|c| c.finding.message)
            .collect();
        let expected: Vec<String> = expected
            .iter()
            .map(|name| format!("kinform does not export kinform_api::{name}"))
            .collect();
        assert_eq!(found, expected, "{root} {code}");
    }

    const ROOT: &str = "mod store; pub use store::Store;";

    #[test]
    fn types_in_public_signatures_are_exported() {
        let get = "use kinform_api::Key; pub struct Store; impl Store { pub fn get(&self, key: &Key) {} }";
        check_code(ROOT, get, &["Key"]);
        check_code(
            "mod store; pub use store::Store; pub use kinform_api::Key;",
            get,
            &[],
        );
        check_code("pub mod store; pub use kinform_api::*;", get, &[]);
        check_code("mod store;", get, &[]); // nobody sees it
        check_code("pub mod store;", get, &["Key"]);
        let at = "pub struct Store { pub at: Option<kinform_api::time::Instant> }";
        check_code(ROOT, at, &["Instant"]);
        check_code(
            "mod store; pub use store::Store; pub use kinform_api::time;",
            at,
            &[],
        );
        let from = "use kinform_api::{Key, Scope}; pub struct Store; impl From<Key> for Store { fn from(k: Key) -> Self { Scope::x() } }";
        check_code(ROOT, from, &["Key"]);
    }

    #[test]
    fn private_parts_name_what_they_like() {
        let code = "use kinform_api::Key; pub struct Store { key: Key } impl Store { fn f(k: Key) {} pub(crate) fn g(k: Key) {} pub fn h() { let k: Key; } }";
        check_code(ROOT, code, &[]);
    }
}
