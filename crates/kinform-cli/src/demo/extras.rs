//! The demo's additions to the screen: notices of acts, and acts that keys chose.
//!
//! ```text
//! acts ─notice─▶ DemoExtras ─▶ foot of the screen | a line on stderr      key of the screen ─▶ act
//! ```
//!
//! BOUND: notices that are kept, and keys that wait.
//!
//! Upstream counterpart: none.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::acts::Act;
use crate::top::Extras;

/// BOUND: notices kept for the screen.
const NOTICES: usize = 6;
/// BOUND: acts chosen by keys that wait for the one before.
const CHOSEN: usize = 8;

/// The additions. Clones are the same ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct DemoExtras {
    board: Arc<Mutex<Board>>,
    /// Notices are printed as lines.
    is_plain: bool,
}

#[derive(Debug, Default)]
struct Board {
    notices: VecDeque<String>,
    chosen: VecDeque<Act>,
}

impl DemoExtras {
    /// Additions whose notices are lines on stderr.
    pub(crate) fn plain() -> Self {
        Self {
            is_plain: true,
            ..Self::default()
        }
    }

    /// Returns whether there is no screen.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Shows a notice.
    pub(crate) fn notice(&self, notice: &str) {
        if self.is_plain {
            crate::progress!("* {notice}");
            return;
        }
        let mut board = self.board();
        if board.notices.len() == NOTICES {
            board.notices.pop_front();
        }
        board.notices.push_back(notice.to_owned());
    }

    /// The act that a key has chosen, the first of those that wait.
    pub(crate) fn chosen(&self) -> Option<Act> {
        self.board().chosen.pop_front()
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Extras for DemoExtras {
    fn things(&self) -> Vec<String> {
        let acts = Act::ALL.iter();
        acts.map(|act| act.script().title.to_owned()).collect()
    }

    fn choose(&mut self, number: usize) {
        let act = u8::try_from(number).ok().and_then(Act::of_number);
        let mut board = self.board();
        if board.chosen.len() < CHOSEN {
            board.chosen.extend(act);
        }
    }

    fn notices(&self) -> Vec<String> {
        self.board().notices.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_notices_are_shown_and_keys_choose_known_acts_in_order() {
        let extras = DemoExtras::default();
        (0..9).for_each(|number| extras.notice(&format!("n{number}")));
        assert_eq!(extras.notices(), ["n3", "n4", "n5", "n6", "n7", "n8"]);
        let mut screen = extras.clone();
        assert_eq!(screen.things().len(), Act::ALL.len());
        for number in [3, 0, 9, 259, 1] {
            screen.choose(number);
        }
        assert_eq!(
            [extras.chosen(), extras.chosen(), extras.chosen()],
            [Some(Act::SlowHandler), Some(Act::Cut), None]
        );
    }
}
