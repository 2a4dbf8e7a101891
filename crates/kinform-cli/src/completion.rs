//! `kinform completion`, and the name under which the program was called.
//!
//! ```text
//! argv[0] → kinform | kubectl kinform → parsed words, help        shell → a script on stdout
//! ```
//!
//! kubectl runs a program `kubectl-kinform` for `kubectl kinform`: help and messages of usage then
//! have that name, since it is the one that was typed.
//!
//! Upstream counterpart: `kubectl completion`; the plugins of kubectl.

use std::ffi::OsStr;
use std::path::Path;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::Cli;
use crate::args::checking::CompletionArgs;
use crate::exit::{Ending, Failure};
use crate::terminal::Out;

/// The name of the program that kubectl runs.
const PLUGIN: &str = "kubectl-kinform";

/// Parses the words of this process; help and wrong usage end it.
pub(crate) fn parse() -> Cli {
    let called = std::env::args_os().next().unwrap_or_default();
    let mut command = named(&called);
    let matches = command.get_matches_mut();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// The command line under the name of a call.
fn named(called: &OsStr) -> clap::Command {
    let command = Cli::command();
    let file = Path::new(called).file_name().and_then(OsStr::to_str);
    match file.is_some_and(|file| file.starts_with(PLUGIN)) {
        true => command
            .bin_name("kubectl kinform")
            .after_help("This is a plugin of kubectl: it uses kubectl's kubeconfig, context and namespace."),
        false => command.bin_name("kinform").after_help(
            "A copy or a link of this program with the name kubectl-kinform in the PATH is a plugin: `kubectl kinform`.",
        ),
    }
}

/// Prints the script.
pub(crate) fn run(args: &CompletionArgs) -> Result<Ending, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kinform", &mut script);
    let mut out = Out::stdout();
    out.text(&String::from_utf8_lossy(&script))?;
    out.flush()?;
    Ok(Ending::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_the_name_that_was_typed() {
        for (called, usage, other) in [
            ("/usr/bin/kinform", "Usage: kinform ", "kubectl kinform"),
            (
                "kubectl-kinform",
                "Usage: kubectl kinform ",
                "plugin of kubectl",
            ),
            (
                "/opt/kubectl-kinform.exe",
                "Usage: kubectl kinform ",
                "plugin of kubectl",
            ),
        ] {
            let help = named(OsStr::new(called)).render_help().to_string();
            assert!(
                help.contains(usage) && help.contains(other),
                "{called}: {help}"
            );
        }
        let words = ["kubectl-kinform", "get", "--nope"];
        let error = named(OsStr::new(words[0]))
            .try_get_matches_from(words)
            .unwrap_err();
        assert!(error.to_string().contains("kubectl kinform get"), "{error}");
    }
}
