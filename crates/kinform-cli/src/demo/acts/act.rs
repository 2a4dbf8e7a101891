//! The acts: their numbers, and the words about them.
//!
//! ```text
//! key, --act NUMBER ─▶ Act ─▶ Script (title, sentences, time)
//! ```

use std::time::Duration;

/// One act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Every watch is cut.
    Cut,
    /// The history expires.
    Expire,
    /// A handler is too slow for the changes it hears.
    SlowHandler,
    /// An object in the storage cannot be read.
    Poison,
    /// A controller starts itself.
    HotLoop,
    /// Two writers set one field in turns.
    Fight,
    /// The server of a webhook stops.
    Webhook,
    /// The replica that leads is killed.
    Leader,
}

/// The words about an act.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script {
    /// The title, a few words.
    pub(crate) title: &'static str,
    /// The trouble and its end, in a sentence.
    pub(crate) happens: &'static str,
    /// The view of the page that shows it, in a sentence.
    pub(crate) look: &'static str,
    /// The time after which it ends by itself.
    pub(super) lasts: Option<Duration>,
}

impl Act {
    /// All acts, in the order of their numbers.
    pub(crate) const ALL: &'static [Self] = &[
        Self::Cut,
        Self::Expire,
        Self::SlowHandler,
        Self::Poison,
        Self::HotLoop,
        Self::Fight,
        Self::Webhook,
        Self::Leader,
    ];

    /// The number, from 1; it is the key of the act.
    pub(crate) fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The act of this number.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|act| act.number() == number)
    }

    /// The place in [`Act::ALL`].
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Returns whether there is something to undo after it.
    pub(super) fn is_lasting(self) -> bool {
        match self {
            Self::Cut | Self::Expire => false,
            Self::SlowHandler
            | Self::Poison
            | Self::HotLoop
            | Self::Fight
            | Self::Webhook
            | Self::Leader => true,
        }
    }

    /// The words about it.
    pub(crate) fn script(self) -> Script {
        let script = |title, happens, look| Script {
            title,
            happens,
            look,
            lasts: None,
        };
        match self {
            Self::Cut => script(
                "cut every watch",
                "Every watch ends in the middle; informers go on from the version they had.",
                "Caches: watches that were reopened count up, and no list is made.",
            ),
            Self::Expire => script(
                "expire history",
                "The server forgets its history, so informers whose version is gone list again.",
                "Caches: relists count up, with their reason.",
            ),
            Self::SlowHandler => Script {
                lasts: Some(Duration::from_secs(20)),
                ..script(
                    "slow handler",
                    "A handler of pods takes 50 ms for each change; it is removed after 20 s.",
                    "Caches: the lag of act-slow-handler grows, and that of demo-pods does not.",
                )
            },
            Self::Poison => Script {
                lasts: Some(Duration::from_secs(30)),
                ..script(
                    "poisoned object",
                    "A Foo in the server's storage gets a number as its uid; it is mended after 30 s.",
                    "Problems: the object is quarantined, with the path of its fault.",
                )
            },
            Self::HotLoop => script(
                "hot loop",
                "A reconcile writes the time into its own object's status, which starts the next.",
                "Problems: a loop, with the field and its manager.",
            ),
            Self::Fight => script(
                "fight over a field",
                "A controller and an autoscaler set the replicas of one Deployment in turns.",
                "Problems: a fight, with the field and both managers.",
            ),
            Self::Webhook => script(
                "kill the webhook",
                "The server of a validating webhook stops, so that writes of Deployments fail.",
                "Queues: failures and retries of the leader; Problems: keys that fail.",
            ),
            Self::Leader => script(
                "kill the leader",
                "The replica that leads is cut off; the other one leads once the lease expires.",
                "Queues: the runs of the other replica count up.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::demo::DemoArgs;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: DemoArgs,
    }

    #[test]
    fn acts_are_numbered_from_one_and_fit_a_line() {
        for ((act, number), index) in Act::ALL.iter().zip(1..).zip(0..) {
            assert_eq!((act.number(), act.index()), (number, index));
            assert_eq!(Act::of_number(number), Some(*act));
            let script = act.script();
            for sentence in [script.happens, script.look] {
                assert!(
                    sentence.len() <= 90 && sentence.ends_with('.'),
                    "{sentence}"
                );
            }
            assert!(script.title.len() <= 24, "{}", script.title);
        }
    }

    #[test]
    fn the_command_line_takes_the_numbers_of_all_acts_and_no_others() {
        for number in 0..=u8::MAX {
            let line = Line::try_parse_from(["demo", &format!("--act={number}")]);
            let acts = line.ok().map(|line| line.args.acts);
            let known = Act::of_number(number).map(|act| vec![act.number()]);
            assert_eq!(acts, known);
        }
    }
}
