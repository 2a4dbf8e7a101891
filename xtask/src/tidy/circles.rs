//! Members of circles that the house forbids.
//!
//! ```text
//! map of a crate ──circles──▶ each folder and file in one, counted by crate
//! ```

use super::ceilings::Counted;
use super::exceptions::Exceptions;
use super::finding::Finding;
use crate::map::{Map, RULE};

/// Checks the imports of a crate.
pub(crate) fn check(map: &Map<'_>, excused: &Exceptions) -> Vec<Counted> {
    let mut found = Vec::new();
    for circle in map.circles(&|key| excused.has(RULE, key)) {
        let what = if circle.folder.is_some() {
            "folders"
        } else {
            "files"
        };
        let count = circle.members.len();
        for member in &circle.members {
            let finding = Finding {
                path: format!("{}/src/{member}", map.folder),
                line: 1,
                rule: RULE,
                message: format!("in a circle of {count} {what} (cargo xtask map --circles)"),
            };
            found.push(Counted::new(format!("{RULE}.{}", map.package()), finding));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::maps;
    use crate::text::file::File;
    use crate::text::settings::parse;

    #[test]
    fn each_member_of_a_circle_counts_and_two_files_may_be_excused() {
        let file = |path: &str, text: &str| File {
            path: format!("crates/x/src/{path}"),
            text: text.to_owned(),
        };
        let files = [
            file("lib.rs", "mod a; mod b;"),
            file("a.rs", "use crate::b::B; pub struct A;"),
            file("b.rs", "use crate::a::A; pub struct B;"),
        ];
        let maps = maps(&files);
        let found = check(&maps[0], &Exceptions::default());
        let paths: Vec<&str> = found.iter().map(|c| c.finding.path.as_str()).collect();
        assert_eq!(paths, ["crates/x/src/a.rs", "crates/x/src/b.rs"]);
        assert!(found.iter().all(|c| c.key == "circles.x"));
        let text = "[circles]\n\"crates/x/src: a.rs b.rs\" = \"one idea\"\n";
        let excused = Exceptions::new(&parse(text).unwrap()).unwrap();
        assert_eq!(check(&maps[0], &excused), []);
        assert_eq!(excused.unused(), []);
    }
}
