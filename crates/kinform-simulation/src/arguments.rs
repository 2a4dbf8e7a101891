//! The command line: how many seeds, which seed, which script.
//!
//! ```text
//! --seeds N | --seed S | --hours H | --replay FILE ─▶ Arguments, or one line and exit code 2
//! ```

use std::path::PathBuf;

/// The scripts to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arguments {
    /// This many seeds, from the first on, on this many threads.
    Seeds {
        /// The first seed.
        first: u64,
        /// The number of seeds.
        seeds: u64,
        /// The threads; as many as processors without it.
        threads: Option<usize>,
        /// The report is one line.
        is_brief: bool,
    },
    /// One seed, with its trace.
    Seed(u64),
    /// A script, with its trace.
    Replay(PathBuf),
    /// A long run.
    Hours {
        /// The seed.
        seed: u64,
        /// The virtual hours.
        hours: u64,
        /// The writes a second.
        rate: u64,
    },
}

/// The words that explain the command line.
pub const HELP: &str = "\
Plays seeded scripts of trouble against replicas of an operator, servers and a network.

Usage: cargo xtask simulate [--seeds N [--from S] [--threads T] [--brief]] | [--seed S] | [--replay FILE]
       cargo xtask simulate --hours H [--rate R] [--seed S]
       cargo xtask simulate --mutants[=NAMES] [--seeds N ..]

  --seeds N      plays N seeds, and ends at the first that breaks a promise (default 1000)
  --from S       the first of them (default 0)
  --threads T    how many at once (default: one for each processor)
  --brief        reports in one line
  --mutants      puts known bugs back, one at a time: those of a list, as B6,B31, or all
  --seed S       plays one seed, and prints what happened if it breaks a promise
  --replay FILE  plays a script, and prints what happened
  --hours H      plays H virtual hours in one run, on one thread; once an hour everything must agree
  --rate R       the writes a second of these hours (default 20); some change nothing
";

impl Arguments {
    /// Reads the command line, without the program's name. `None`: help is asked for.
    ///
    /// # Errors
    /// It makes no sense: one line.
    pub fn parse(arguments: &[String]) -> Result<Option<Self>, String> {
        let (mut seeds, mut first, mut threads) = (None, None, None);
        let (mut seed, mut replay, mut is_brief) = (None, None, false);
        let (mut hours, mut rate) = (None, None);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, given) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (argument.as_str(), None),
            };
            if matches!(name, "-h" | "--help") {
                return Ok(None);
            }
            if argument == "--brief" {
                is_brief = true;
                continue;
            }
            if !matches!(
                name,
                "--seeds" | "--from" | "--threads" | "--seed" | "--replay" | "--hours" | "--rate"
            ) {
                return Err(format!("simulate: no such argument: {argument}"));
            }
            let value = given.or_else(|| rest.next().cloned());
            let value = value.ok_or_else(|| format!("simulate: {name} needs a value"))?;
            match name {
                "--seeds" => seeds = Some(number(name, &value)?),
                "--from" => first = Some(number(name, &value)?),
                "--threads" => threads = Some(number(name, &value)?),
                "--seed" => seed = Some(number(name, &value)?),
                "--hours" => hours = Some(number(name, &value)?),
                "--rate" => rate = Some(number(name, &value)?),
                _ => replay = Some(PathBuf::from(value)),
            }
        }
        let has_many = seeds.is_some() || first.is_some() || threads.is_some() || is_brief;
        if hours.is_some() || rate.is_some() {
            let is_alone = !has_many && replay.is_none();
            return long(hours, rate, seed)
                .filter(|_| is_alone)
                .map(Some)
                .ok_or_else(|| HOURS.to_owned());
        }
        match (seed, replay) {
            (Some(_), Some(_)) => {
                Err("simulate: --seed and --replay exclude each other".to_owned())
            }
            (Some(_), _) | (_, Some(_)) if has_many => Err(
                "simulate: --seeds, --from, --threads and --brief are for many seeds".to_owned(),
            ),
            (Some(seed), None) => Ok(Some(Self::Seed(seed))),
            (None, Some(file)) => Ok(Some(Self::Replay(file))),
            (None, None) if seeds == Some(0) => {
                Err("simulate: --seeds 0 plays nothing: 1 or more".to_owned())
            }
            (None, None) if threads == Some(0) => {
                Err("simulate: --threads 0 plays nothing: 1 or more".to_owned())
            }
            (None, None) => Ok(Some(Self::Seeds {
                first: first.unwrap_or(0),
                seeds: seeds.unwrap_or(1_000),
                threads: threads.and_then(|threads| usize::try_from(threads).ok()),
                is_brief,
            })),
        }
    }
}

/// The refusal of a long run that makes no sense.
const HOURS: &str = "simulate: --hours is 1 to 1000, --rate is 1 to 1000 and needs --hours; of the others only \
                     --seed goes with them";

fn long(hours: Option<u64>, rate: Option<u64>, seed: Option<u64>) -> Option<Arguments> {
    let hours = hours.filter(|hours| (1..=1_000).contains(hours))?;
    let rate = Some(rate.unwrap_or(20)).filter(|rate| (1..=1_000).contains(rate))?;
    let seed = seed.unwrap_or(0);
    Some(Arguments::Hours { seed, hours, rate })
}

fn number(name: &str, value: &str) -> Result<u64, String> {
    let shown: String = value
        .chars()
        .take(40)
        .flat_map(char::escape_default)
        .collect();
    value
        .parse()
        .map_err(|_| format!("simulate: {name} {shown}: no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Arguments>, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Arguments::parse(&words)
    }

    #[test]
    fn the_command_line_says_what_to_play() {
        let played = |first, seeds, threads, is_brief| {
            Ok(Some(Arguments::Seeds {
                first,
                seeds,
                threads,
                is_brief,
            }))
        };
        let many = |first, seeds, threads| played(first, seeds, threads, false);
        assert_eq!(parse(""), many(0, 1_000, None));
        assert_eq!(parse("--seeds 5"), many(0, 5, None));
        assert_eq!(parse("--seeds=5 --from=7 --threads 1"), many(7, 5, Some(1)));
        assert_eq!(parse("--brief --seeds 5"), played(0, 5, None, true));
        assert_eq!(parse("--seed 3"), Ok(Some(Arguments::Seed(3))));
        assert_eq!(
            parse("--replay a.json"),
            Ok(Some(Arguments::Replay("a.json".into())))
        );
        let long = |seed, hours, rate| Ok(Some(Arguments::Hours { seed, hours, rate }));
        assert_eq!(parse("--hours 72"), long(0, 72, 20));
        assert_eq!(parse("--hours=1 --rate 5 --seed 3"), long(3, 1, 5));
        assert_eq!(parse("--help"), Ok(None));
    }

    #[test]
    fn nonsense_is_refused_in_one_line() {
        for line in [
            "--seeds 0",
            "--seeds",
            "--seeds many",
            "--seed -1",
            "--seed 1.5",
            "--seed 18446744073709551616",
            "--seed 1 --replay a",
            "--seed 1 --seeds 2",
            "--replay a --from 2",
            "--threads 0",
            "--brief --seed 3",
            "--hours 0",
            "--hours 1001",
            "--rate 5",
            "--hours 2 --rate 0",
            "--hours 2 --seeds 3",
            "--hours 2 --replay a",
            "--sedes 5",
            "5",
        ] {
            let refused = parse(line).unwrap_err();
            assert!(
                !refused.contains('\n') && !refused.is_empty(),
                "{line}: {refused}"
            );
        }
    }
}
