//! Each example on an embedded server: its lines, and what the server has and was asked.
//!
//! ```text
//! on_embedded(example, lines) ─▶ lines, TestServer ─▶ assertions
//! ```
//!
//! An example has a deadline, in `on_embedded`; no test waits for a time.
#![expect(clippy::unwrap_used, reason = "tests may unwrap")]

mod catalogue;
mod controllers;
mod operators;
#[cfg(unix)]
mod program;
mod reading;
mod testing;

use kinform_examples::ALL;
use kinform_examples::start::{Out, on_embedded};
use kinform_testkit::TestServer;

/// The lines of an example, and its server.
struct Ran {
    lines: Vec<String>,
    server: Option<TestServer>,
}

impl Ran {
    fn api(&self) -> &TestServer {
        self.server.as_ref().expect("it ran on a server")
    }

    /// The position of the first line that is this text.
    #[track_caller]
    fn at(&self, line: &str) -> usize {
        let found = self.lines.iter().position(|found| found == line);
        found.unwrap_or_else(|| panic!("no line is {line:?}: {:#?}", self.lines))
    }

    /// Asserts that these lines came in this order, with any others between them.
    #[track_caller]
    fn has_in_order(&self, lines: &[&str]) {
        let mut rest = self.lines.iter();
        for line in lines {
            let is_there = rest.any(|found| found == line);
            assert!(is_there, "no {line:?} in its place: {:#?}", self.lines);
        }
    }

    /// The number of lines with this text.
    fn count(&self, text: &str) -> usize {
        let lines = self.lines.iter();
        lines.filter(|line| line.contains(text)).count()
    }
}

/// Runs an example.
async fn ran(name: &str) -> Ran {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let example = ALL.iter().find(|example| example.name == name).unwrap();
    let out = Out::to(std::io::sink());
    let server = match on_embedded(example, out.clone()).await {
        Ok(server) => server,
        Err(error) => panic!("{name}: {error}; its lines: {:#?}", out.lines()),
    };
    Ran {
        lines: out.lines(),
        server,
    }
}
