//! Words after `:`.
//!
//! ```text
//! "queues web" ─▶ Command, or a line that says what there is
//! ```
//!
//! Upstream counterpart: the command prompt of k9s.

use super::place::Place;
use crate::args::inspecting::VIEWS;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Go(Place),
    Help,
    Quit,
}

impl Command {
    /// Reads a line: a view or the beginning of its name, and a cache or a controller.
    ///
    /// # Errors
    /// A line for the user.
    pub(super) fn read(line: &str) -> Result<Option<Self>, String> {
        let mut words = line.split_whitespace();
        let Some(word) = words.next() else {
            return Ok(None);
        };
        let of = words.next();
        Ok(Some(match word {
            "q" | "q!" | "quit" | "exit" => Self::Quit,
            "help" | "h" | "?" => Self::Help,
            _ => {
                let place = VIEWS.iter().position(|view| view.starts_with(word));
                let place = place.and_then(Place::of_number);
                let place = place
                    .ok_or_else(|| format!("no command {word:?}: {}, help, q", VIEWS.join(", ")))?;
                Self::Go(match place {
                    Place::Queues { .. } => Place::queues(of),
                    Place::Objects { .. } => Place::objects(of),
                    Place::Memory { .. } => Place::Memory {
                        cache: of.map(str::to_owned),
                    },
                    place => place,
                })
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_view_or_ends() {
        for (line, expected) in [
            ("", Ok(None)),
            ("q", Ok(Some(Command::Quit))),
            ("help", Ok(Some(Command::Help))),
            ("p", Ok(Some(Command::Go(Place::Pipeline)))),
            ("pro", Ok(Some(Command::Go(Place::Problems)))),
            ("qu web", Ok(Some(Command::Go(Place::queues(Some("web")))))),
            (" objects  pods ", Ok(Some(Command::Go(Place::objects(Some("pods")))))),
            (
                "pods",
                Err("no command \"pods\": pipeline, caches, queues, objects, memory, problems, help, q".to_owned()),
            ),
        ] {
            assert_eq!(Command::read(line), expected, "{line}");
        }
    }
}
