//! `cargo xtask e2e shards`: replicas of sharded operators in trouble, for as long as one likes.
//!
//! ```text
//! shards [--minutes N] [--seed N] [PART] ──▶ e2e/tests/shards/, one run at a time ──▶ a row of figures each
//! ```
//!
//! The replicas need a machine of their own for the figures to mean something: nothing else is to run.
//! Upstream has no counterpart.

use std::process::Command;

use clap::{Args, ValueEnum};

/// The runs to make.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The duration of the troubles of each run.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    minutes: u64,
    /// The seed of troubles and changes.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// One run; all by default.
    #[arg(value_enum)]
    part: Option<Part>,
}

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Replicas whose writes tell their terms, on the embedded server.
    Embedded,
    /// The same on a real server.
    Real,
    /// The same behind two embedded servers of which one lacks the gate.
    MixedEmbedded,
    /// The same behind two real ones.
    MixedReal,
    /// The sample controller on the embedded server.
    SampleEmbedded,
    /// The sample controller on a real server.
    SampleReal,
    /// Replicas without a guard, which must be noticed.
    Careless,
    /// The bytes that a replica reads from a server that knows shards, and from one that does not.
    Wire,
}

impl Part {
    /// The name of its test.
    fn test(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Real => "real",
            Self::MixedEmbedded => "mixed_embedded",
            Self::MixedReal => "mixed_real",
            Self::SampleEmbedded => "sample_embedded",
            Self::SampleReal => "sample_real",
            Self::Careless => "careless",
            Self::Wire => "wire",
        }
    }
}

impl Arguments {
    /// The tests, to be run by this cargo.
    pub(crate) fn command(&self, mut cargo: Command) -> Command {
        cargo
            .args(["test", "--locked", "--test", "shards", "--", "--nocapture"])
            .arg("--test-threads=1");
        if let Some(part) = self.part {
            cargo.args(["--exact", part.test()]);
        }
        cargo
            .env("KINFORM_SHARDS_SECONDS", (self.minutes * 60).to_string())
            .env("KINFORM_SEED", self.seed.to_string());
        cargo
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that no test has would be a run that succeeds.
    #[test]
    fn each_part_has_a_test() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/tests/shards/main.rs");
        let tests = std::fs::read_to_string(path).unwrap();
        for part in Part::value_variants() {
            let test = format!("\n#[test]\nfn {}() {{", part.test());
            assert!(tests.contains(&test), "{part:?}");
        }
    }

    #[test]
    fn a_run_takes_a_minute_at_least() {
        #[derive(Debug, clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: Arguments,
        }
        let line = |text: &str| <Line as clap::Parser>::try_parse_from(text.split(' '));
        assert!(line("shards --minutes 0").is_err());
        assert_eq!(line("shards --minutes 1").unwrap().arguments.minutes, 1);
    }

    #[test]
    fn a_run_is_one_test_after_another() {
        let arguments = Arguments {
            minutes: 2,
            seed: 9,
            part: Some(Part::MixedReal),
        };
        let command = arguments.command(Command::new("cargo"));
        let given: Vec<_> = command
            .get_args()
            .filter_map(|text| text.to_str())
            .collect();
        assert!(given.ends_with(&["--test-threads=1", "--exact", "mixed_real"]));
        let seconds = command
            .get_envs()
            .find(|(name, _)| *name == "KINFORM_SHARDS_SECONDS");
        assert_eq!(seconds.and_then(|(_, value)| value?.to_str()), Some("120"));
    }
}
