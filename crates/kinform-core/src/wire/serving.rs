//! How well a template serves: when the next item is compared with it, when another takes its place.
//!
//! ```text
//! item ─▶ turn ─▶ compared with the template │ checked alone ─▶ served: bytes that were the same ─▶ is to be learnt?
//! ```
//!
//! Lists come in the order of keys, in which replicas are neighbours: a template serves until theirs end. Where items
//! are not alike, that is found out, and seldom tried again, so that lists of strangers cost what they did.
//!
//! Upstream: none.

/// Of so many bytes of an item, one at least is only compared, or it is a stranger.
const ONE_OF: usize = 32;
/// After so many strangers in a row, some items are checked alone.
const STRANGERS: u32 = 2;
/// How many are, before it is tried again.
pub(super) const ALONE: u32 = 100;

/// How a template served.
#[derive(Debug, Default)]
pub(super) struct Serving {
    /// The most bytes that were compared with it at once.
    pub(super) best: usize,
    /// So many items in a row were strangers.
    pub(super) strangers: u32,
    /// So many more are checked alone.
    pub(super) alone: u32,
}

/// What is done with the next item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Compare,
    Alone,
    /// It is the next template.
    AloneAndLearn,
}

impl Serving {
    #[inline]
    pub(super) fn turn(&mut self) -> Turn {
        match self.alone {
            0 => return Turn::Compare,
            1 => self.best = 0,
            _ => {}
        }
        self.alone -= 1;
        match self.alone {
            0 => Turn::AloneAndLearn,
            _ => Turn::Alone,
        }
    }

    /// So many bytes of an item were only compared: whether it is to take the template's place.
    #[inline]
    pub(super) fn served(&mut self, compared: usize, length: usize) -> bool {
        self.strangers = match compared * ONE_OF < length {
            true => self.strangers + 1,
            false => 0,
        };
        if self.strangers > STRANGERS {
            // One try more is granted after that.
            (self.strangers, self.alone) = (STRANGERS, ALONE);
            return false;
        }
        let is_worse = self.strangers > 0 || 2 * compared < self.best;
        self.best = match is_worse {
            true => 0,
            false => self.best.max(compared),
        };
        is_worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_seldom_compared_and_those_who_are_alike_always() {
        let mut serving = Serving::default();
        let mut round = |compared: usize| match serving.turn() {
            Turn::Compare => Some(serving.served(compared, 1_000)),
            _ => None,
        };
        // The first is learnt; the others are compared with it.
        assert_eq!(round(0), Some(true));
        assert!((0..100).all(|_| round(500) == Some(false)));
        // Half as well is too little.
        assert_eq!([round(300), round(200)], [Some(false), Some(true)]);
        assert_eq!([round(90), round(90)], [Some(false); 2]);
        let strangers: Vec<_> = (0..1_000).map(|_| round(1)).collect();
        let compared = strangers.iter().flatten().count();
        assert!((8..16).contains(&compared), "{compared}");
        // Whoever comes then is known soon.
        let alike = (0..2 * ALONE).filter(|_| round(800).is_some()).count();
        assert!(alike >= ALONE as usize - 1, "{alike}");
    }
}
