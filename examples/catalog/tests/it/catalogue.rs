//! The list of examples, their files and their lines in the README.

use std::collections::BTreeSet;
use std::path::Path;

use kinform_examples::ALL;

/// BOUND: the lines of an example.
const LINES: usize = 120;

#[test]
fn each_example_has_one_short_file_and_a_line_in_the_readme() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(folder.join("../README.md")).unwrap();
    for example in ALL {
        let (name, about) = (example.name, example.about);
        let file = folder.join(format!("src/{name}.rs"));
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.lines().count() < LINES, "{name}");
        assert!(text.contains("//! Upstream counterpart: "), "{name}");
        let row = format!("| [`{name}`](catalog/src/{name}.rs) | {about} |");
        assert!(page.lines().any(|line| line == row), "{row}");
    }
}

#[test]
fn each_name_is_there_once() {
    let names: BTreeSet<&str> = ALL.iter().map(|example| example.name).collect();
    assert_eq!(names.len(), ALL.len());
}
