//! The order in which recorded exchanges answer the requests of a replay.
//!
//! ```text
//! request ──the next of its kind, or one near that asks the same──▶ number of an exchange │ none left
//! ```
//!
//! Lists and watches have an order each. A reader that behaves as the recorded one gets one answer after
//! the other. One that asks otherwise gets the next answer of its kind; one that leaves requests out
//! (a controller's questions, for example) finds its own within [`AHEAD`] requests.
//!
//! Upstream counterpart: none.

use kinform_core::recording::{Asked, Exchange};

/// BOUND: recorded requests that are passed over to find one that asks the same.
const AHEAD: usize = 16;
/// BOUND: passed over requests that are still found.
const BEHIND: usize = 64;

/// The exchanges that have not been asked for.
#[derive(Debug)]
pub(super) struct Turns {
    lists: Turn,
    watches: Turn,
}

#[derive(Debug, Default)]
struct Turn {
    /// All exchanges of the kind.
    order: Vec<usize>,
    next: usize,
    passed: Vec<usize>,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// This exchange asked for the same.
    Same(usize),
    /// This exchange asked for something else.
    Other(usize),
    /// There is none of this kind any more.
    NoneLeft,
}

impl Turns {
    pub(super) fn new(exchanges: &[Exchange]) -> Self {
        let of = |is_watch: bool| {
            let numbers = exchanges.iter().enumerate();
            let kind = numbers.filter(|(_, exchange)| exchange.asked.is_watch() == is_watch);
            Turn {
                order: kind.map(|(number, _)| number).collect(),
                ..Turn::default()
            }
        };
        Self {
            lists: of(false),
            watches: of(true),
        }
    }

    /// Takes the exchange that answers `asked`.
    pub(super) fn take(&mut self, exchanges: &[Exchange], asked: &Asked) -> Found {
        let turn = match asked.is_watch() {
            true => &mut self.watches,
            false => &mut self.lists,
        };
        let is_same = |number: &usize| exchanges[*number].asked.is_like(asked);
        let ahead = &turn.order[turn.next..];
        if let Some(place) = ahead.iter().take(AHEAD).position(is_same) {
            turn.passed.extend_from_slice(&ahead[..place]);
            let surplus = turn.passed.len().saturating_sub(BEHIND);
            turn.passed.drain(..surplus);
            turn.next += place + 1;
            return Found::Same(ahead[place]);
        }
        if let Some(place) = turn.passed.iter().position(is_same) {
            return Found::Same(turn.passed.remove(place));
        }
        match ahead.first() {
            Some(number) => {
                turn.next += 1;
                Found::Other(*number)
            }
            None => Found::NoneLeft,
        }
    }

    /// Returns whether a watch is left that was not asked for.
    pub(super) fn has_watch(&self) -> bool {
        self.watches.next < self.watches.order.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kinform_api::{ListOptions, WatchOptions};

    use super::*;

    fn watch(version: &str, seconds: u64) -> Asked {
        Asked::Watch(WatchOptions {
            resource_version: Some(version.into()),
            timeout: Some(Duration::from_secs(seconds)),
            ..WatchOptions::default()
        })
    }

    fn list(limit: u32) -> Asked {
        Asked::List(ListOptions {
            limit: Some(limit),
            ..ListOptions::default()
        })
    }

    #[test]
    fn a_request_gets_the_answer_of_its_kind_that_was_asked_alike() {
        let asked = [
            watch("1", 5),
            list(500),
            list(1),
            watch("2", 9),
            watch("4", 1),
            list(500),
        ];
        let exchange = |asked: &Asked| Exchange {
            asked: asked.clone(),
            at: Duration::ZERO,
            answer: Vec::new(),
        };
        let exchanges: Vec<Exchange> = asked.iter().map(exchange).collect();
        let mut turns = Turns::new(&exchanges);
        let mut check = |asked: Asked, expected: Found| {
            assert_eq!(turns.take(&exchanges, &asked), expected, "{asked:?}");
        };
        check(list(500), Found::Same(1));
        // The timeout is drawn at random.
        check(watch("1", 7), Found::Same(0));
        // The list of one object is passed over, and found later.
        check(list(500), Found::Same(5));
        check(list(1), Found::Same(2));
        check(list(1), Found::NoneLeft);
        check(watch("3", 1), Found::Other(3));
        check(watch("4", 1), Found::Same(4));
        assert!(!turns.has_watch());
    }
}
