//! Words that do not belong in a product: about its authors, places and machines.
//!
//! ```text
//! any text file ──▶ "session", "/home/me/..", a registry's host name
//! ```
//!
//! Compared without case, as whole words. The recordings under `testdata` and the lock file are
//! skipped.

use super::finding::Finding;
use crate::text::file::File;

const RULE: &str = "words";

/// The words, and the reason against each.
const BANNED: [(&str, &str); 24] = [
    ("session", WORK),
    ("sessions", WORK),
    ("helper agent", WORK),
    ("helper agents", WORK),
    ("sub-agent", WORK),
    ("subagent", WORK),
    ("sub-helper", WORK),
    ("worktree", WORK),
    ("claude", WORK),
    ("anthropic", WORK),
    ("chatgpt", WORK),
    ("openai", WORK),
    ("../shared", WORK),
    ("/work/", MACHINE),
    ("/root/", MACHINE),
    ("/home/", MACHINE),
    ("/Users/", MACHINE),
    ("artifactory", REGISTRY),
    ("jfrog", REGISTRY),
    ("index.crates.io", REGISTRY),
    ("static.crates.io", REGISTRY),
    ("proxy.golang.org", REGISTRY),
    ("registry.npmjs.org", REGISTRY),
    ("files.pythonhosted.org", REGISTRY),
];

const WORK: &str = "tells how the work was done, not what it is";
const MACHINE: &str = "is a path of one machine";
const REGISTRY: &str = "is a registry's host";

/// Checks one text of any kind.
pub(crate) fn check(file: &File) -> Vec<Finding> {
    if file.path.ends_with("Cargo.lock") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let line = line.to_ascii_lowercase();
        for (word, why) in BANNED.iter().filter(|(word, _)| holds(&line, word)) {
            let message = format!("{word:?} {why}");
            findings.push(Finding {
                path: file.path.clone(),
                line: number,
                rule: RULE,
                message,
            });
        }
    }
    findings
}

/// Returns whether a line in lower case holds a word that no letter, digit or path continues.
fn holds(line: &str, word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let open = |edge: Option<char>| !edge.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(&word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        if word.starts_with('/') {
            // The start of a path, not the middle of one.
            open(before) && !before.is_some_and(|c| matches!(c, '.' | '-' | '}' | '~' | ')' | '*'))
        } else {
            open(before) && open(after)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(line: &str, found: usize) {
        let file = File {
            path: "README.md".into(),
            text: line.into(),
        };
        assert_eq!(check(&file).len(), found, "{line}");
    }

    #[test]
    fn banned_words_are_found_whole() {
        check_line("made in a Session.", 1);
        check_line("obsessions are fine, session_id is not ours", 0);
        check_line("see `/home/me/x` and /work/plan", 2);
        check_line("$HOME/work/x, api.example.com/home/x, ~/work/", 0);
        check_line("read ../shared/reference", 1);
        check_line("on https://crates.io/crates/kinform", 0);
        check_line("https://index.crates.io/", 1);
    }

    #[test]
    fn the_lock_file_is_not_ours() {
        let file = File {
            path: "Cargo.lock".into(),
            text: "index.crates.io".into(),
        };
        assert_eq!(check(&file), []);
    }
}
