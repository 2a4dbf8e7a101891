//! Figures of cost: a section that has one has a command that makes figures, too.
//!
//! ```text
//! pages of cost ──▶ sections ──a number of bytes or of time, outside of code──▶ `cargo ..` or `kinform measure`, else a finding
//! ```
//!
//! The pages are those whose numbers of bytes and of time are measured. Elsewhere most are limits and
//! defaults, which no command makes. Binary units (`KiB`) are limits here, too.

use super::finding::Finding;
use crate::text::file::File;

/// The pages of cost, and the folder of decisions.
const PAGES: [&str; 5] = [
    "README.md",
    "bench/README.md",
    "docs/book/src/memory.md",
    "docs/book/src/performance.md",
    "docs/memory.md",
];
const DECISIONS: &str = "docs/decisions/";

/// The units in which cost is measured.
const UNITS: [&str; 8] = ["ns", "µs", "us", "ms", "s", "KB", "MB", "GB"];

/// The words with which a command begins.
const COMMANDS: [&str; 5] = [
    "cargo xtask ",
    "cargo bench",
    "cargo build ",
    "cargo test ",
    "kinform measure",
];

/// Finds sections of a page of cost that have a figure and no command.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let is_decision = file.path.starts_with(DECISIONS) && file.path.ends_with(".md");
    if !is_decision && !PAGES.contains(&file.path.as_str()) {
        return Vec::new();
    }
    let sections = match is_decision {
        true => vec![Section::default().with(&file.text)],
        false => sections(&file.text),
    };
    let bare = sections.iter().filter(|section| !section.has_command());
    bare.filter_map(|section| {
        let figure = figure(&section.prose)?;
        Some(Finding {
            path: file.path.clone(),
            line: section.line,
            rule: "figures",
            message: format!("no command of this section makes {figure:?}"),
        })
    })
    .collect()
}

/// A heading with the text up to the next one.
#[derive(Default)]
struct Section {
    line: usize,
    /// All of it, its white space as single spaces.
    text: String,
    /// The part that is no code.
    prose: String,
}

impl Section {
    fn with(mut self, text: &str) -> Self {
        let mut is_fenced = false;
        for (line, code) in (1..).zip(text.lines()) {
            self.push(line, code, &mut is_fenced);
        }
        self
    }

    fn push(&mut self, line: usize, text: &str, is_fenced: &mut bool) {
        self.line = if self.line == 0 { line } else { self.line };
        self.text.push_str(text.trim());
        self.text.push(' ');
        if text.trim_start().starts_with("```") {
            *is_fenced = !*is_fenced;
        } else if !*is_fenced {
            let prose = text.split('`').step_by(2);
            self.prose.extend(prose.flat_map(|part| [part, " "]));
            self.prose.push('\n');
        }
    }

    fn has_command(&self) -> bool {
        COMMANDS.iter().any(|command| self.text.contains(command))
    }
}

fn sections(text: &str) -> Vec<Section> {
    let mut found = vec![Section::default()];
    let mut is_fenced = false;
    for (line, text) in (1..).zip(text.lines()) {
        if text.starts_with('#') && !is_fenced {
            found.push(Section::default());
        }
        let last = found.last_mut().expect("there is a first section");
        last.push(line, text, &mut is_fenced);
    }
    found
}

/// The first number with a unit of cost.
fn figure(prose: &str) -> Option<String> {
    let words: Vec<&str> = prose.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let pairs = words.windows(2);
    let figures = pairs.filter(|pair| {
        let (number, unit) = (bare(pair[0]), bare(pair[1]));
        is_number(&number) && UNITS.contains(&unit.as_str()) && !pair[0].ends_with(['.', ';'])
    });
    figures
        .map(|pair| format!("{} {}", bare(pair[0]), bare(pair[1])))
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_with_a_figure_names_a_command() {
        let check = |text: &str, expected: &[usize]| {
            let page = File {
                path: "docs/memory.md".to_owned(),
                text: text.to_owned(),
            };
            let found: Vec<usize> = check(&page).iter().map(|found| found.line).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("# A\nIt takes 3.3 µs.\n", &[1]);
        check("# A\nIt takes 3.3 µs (`cargo\nxtask bench`).\n", &[]);
        check("# A\n`cargo test`\n## B\n| a | 12.8 MB |\n", &[3]);
        check(
            "# A\n```text\n3 ms\n```\nas `5 ms`, 64 KiB, 3 objects\n",
            &[],
        );
        check("# A\nIn version 3. s is a letter.\n", &[]);
        check("```sh\n# no heading: 3 ms\n```\n", &[]);
    }

    #[test]
    fn pages_of_limits_are_left_alone_and_a_decision_is_one_section() {
        let check = |path: &str, expected: usize| {
            let page = File {
                path: path.to_owned(),
                text: "# A\n3 ms\n# B\n`cargo bench`\n".to_owned(),
            };
            assert_eq!(check(&page).len(), expected, "{path}");
        };
        check("docs/cli.md", 0);
        check("docs/decisions/001-a.md", 0);
        check("README.md", 1);
    }
}
