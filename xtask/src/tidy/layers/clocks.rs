//! Clocks and random numbers enter a crate in one file.
//!
//! ```text
//! kinform: env.rs        kinform-apiserver: clock.rs (clocks alone)        api, schema, core: nowhere
//! ```
//!
//! Findings in the server count against a ceiling in `tidy.toml`.

use super::super::ceilings::Counted;
use super::super::finding::Finding;
use crate::text::source::{Source, words};

const RULE: &str = "clocks";

/// Reads of a clock.
const CLOCKS: [&str; 3] = ["Instant::now", "SystemTime::now", "Timestamp::now"];
/// Sources of random numbers.
const RANDOM: [&str; 4] = ["rand::", "getrandom", "new_v4", "fastrand"];
/// Crates that read neither, and the file where they enter.
const CLOCKLESS: [(&str, Option<&str>); 4] = [
    ("crates/kinform-api/src/", None),
    ("crates/kinform-schema/src/", None),
    ("crates/kinform-core/src/", None),
    ("crates/kinform/src/", Some("env.rs")),
];
const SERVER: &str = "crates/kinform-apiserver/src/";
const SERVER_CLOCK: &str = "clock.rs";

/// The name of the server's ceiling.
pub(crate) const KEY: &str = "clocks.apiserver";

/// Checks one source; findings without a ceiling, then those with one.
pub(crate) fn check(source: &Source<'_>) -> (Vec<Finding>, Vec<Counted>) {
    let library = CLOCKLESS.iter().find_map(|(root, entry)| {
        let inside = source.path.strip_prefix(root)?;
        (Some(inside) != *entry).then_some(())
    });
    if library.is_some() {
        let found = CLOCKS.iter().chain(&RANDOM);
        let found = found.flat_map(|word| find(source, word, "env.rs"));
        return (found.collect(), Vec::new());
    }
    let server = source.path.strip_prefix(SERVER);
    if server.is_some_and(|inside| inside != SERVER_CLOCK) {
        let found = CLOCKS
            .iter()
            .flat_map(|word| find(source, word, SERVER_CLOCK));
        let found = found.map(|finding| Counted::new(KEY, finding));
        return (Vec::new(), found.collect());
    }
    (Vec::new(), Vec::new())
}

fn find(source: &Source<'_>, word: &str, entry: &str) -> Vec<Finding> {
    let code = source.production();
    words(code, word)
        .map(|at| Finding {
            path: source.path.to_owned(),
            line: source.line(at),
            rule: RULE,
            message: format!("{word}: it enters by {entry} only"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::file::File;

    /// Checks how many findings there are without and with a ceiling.
    #[track_caller]
    fn check_code(path: &str, code: &str, expected: (usize, usize)) {
        let file = File {
            path: format!("crates/{path}"),
            text: code.to_owned(),
        };
        let (free, counted) = check(&Source::new(&file));
        assert_eq!((free.len(), counted.len()), expected, "{path}: {code}");
    }

    #[test]
    fn clocks_are_read_in_one_place() {
        let code = "fn f() { std::time::Instant::now(); let x = rand::random(); }";
        check_code("kinform/src/factory.rs", code, (2, 0));
        check_code("kinform/src/env.rs", code, (0, 0));
        check_code("kinform-core/src/env.rs", code, (2, 0));
        check_code("kinform-cli/src/main.rs", code, (0, 0));
        check_code("kinform-apiserver/src/write/handle.rs", code, (0, 1));
        check_code("kinform-apiserver/src/clock.rs", code, (0, 0));
        check_code("kinform/src/a.rs", "fn brand::x() {}", (0, 0));
        check_code(
            "kinform/src/a.rs",
            "#[cfg(test)] mod tests { fn f() { Instant::now() } }",
            (0, 0),
        );
    }
}
