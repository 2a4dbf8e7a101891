//! Pods cut from a template: the encoded form of a real one with `@slot@`s.
//!
//! ```text
//! pod.json ──once──▶ pieces ──app, node, dice──▶ encoded pod
//! ```

use std::fmt::Write;

use super::dice::Dice;
use super::{App, ZONES};
use crate::builtin::names::LETTERS;
use crate::storage::{Draft, SelectableField};

const TEXT: &str = include_str!("pod.json");
/// Source of the values of environment variables.
const FILLING: &str = "postgres://ledger.bank.svc.cluster.local:5432/accounts?sslmode=require&pool=32 \
    --cache-size=256Mi --flush-interval=5s --peers=cart.shop.svc,lobby.game.svc --trace=0.01 --zone-aware";

/// The parsed template.
pub(super) struct Template {
    /// Text and the slot after it; the last one has no slot.
    pieces: Vec<(&'static str, &'static str)>,
    /// The template as an object: its members are at the same places in pods, except for the
    /// content of slots.
    shape: Draft,
}

/// Number of a pod, and the place where it runs.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) number: usize,
    pub(super) node: usize,
}

impl Template {
    /// Returns `None` if the template is not an object.
    pub(super) fn new(fields: &[SelectableField]) -> Option<Self> {
        let shape = Draft::from_encoded(fields, Box::default(), TEXT.trim_end().into())?;
        let mut pieces = Vec::new();
        let mut parts = TEXT.trim_end().split('@');
        while let Some(text) = parts.next() {
            pieces.push((text, parts.next().unwrap_or_default()));
        }
        Some(Self { pieces, shape })
    }

    /// A pod.
    pub(super) fn fill(&self, app: &App, at: Place, dice: &mut Dice) -> Draft {
        let name = format!("{}-{}-{}", app.name, app.hash, suffix(at.number));
        let created = dice.moment();
        let minor = dice.below(20).to_string();
        let pending = dice.below(50) == 0;
        let mut pod = String::with_capacity(TEXT.len() + 2048);
        // Where each slot ends, in the template and in the pod.
        let (mut ends, mut end) = (Vec::with_capacity(self.pieces.len()), 0);
        for (text, slot) in &self.pieces {
            pod.push_str(text);
            end += text.len() + slot.len() + 2;
            match *slot {
                "name" => pod.push_str(&name),
                "namespace" => pod.push_str(app.namespace),
                "app" => pod.push_str(&app.name),
                "hash" => pod.push_str(&app.hash),
                "owner" => pod.push_str(&app.owner),
                "tier" => pod.push_str(app.tier),
                "created" => pod.push_str(&created),
                "minor" => pod.push_str(&minor),
                "uid" => pod.push_str(&dice.uid()),
                "digest" => pod.push_str(&dice.hex(64)),
                "text" => pod.push_str(&FILLING[..20 + dice.below(FILLING.len() - 20)]),
                "phase" => pod.push_str(if pending { "Pending" } else { "Running" }),
                // Writing to a string does not fail.
                "node" => drop(write!(pod, "node-{}", at.node)),
                "zone" => drop(write!(pod, "z{}", at.node % ZONES)),
                "podIP" => pod.push_str(&address(at.number)),
                "hostIP" => pod.push_str(&host(at.node)),
                _ => {}
            }
            ends.push((end, pod.len()));
        }
        pod.shrink_to_fit();
        let key = format!("{}/{name}", app.namespace).into();
        self.shape.recut(key, pod.into_bytes(), |place| {
            let passed = ends.partition_point(|(end, _)| *end <= place);
            let (from, to) = passed.checked_sub(1).map_or((0, 0), |last| ends[last]);
            place - from + to
        })
    }
}

/// Five letters, different for every pod below 27^5.
fn suffix(number: usize) -> String {
    let mut rest = number.wrapping_mul(7_654_321) % 27usize.pow(5);
    let mut letters = [0; 5];
    for letter in &mut letters {
        *letter = LETTERS[rest % 27];
        rest /= 27;
    }
    letters.iter().map(|letter| char::from(*letter)).collect()
}

fn address(number: usize) -> String {
    format!(
        "10.{}.{}.{}",
        number >> 16 & 255,
        number >> 8 & 255,
        number & 255
    )
}

/// The address of a node.
pub(super) fn host(number: usize) -> String {
    format!("192.168.{}.{}", number >> 8 & 255, number & 255)
}

/// The addresses of a node's pods.
pub(super) fn range(number: usize) -> String {
    format!("10.{}.{}.0/24", number >> 8 & 255, number & 255)
}
