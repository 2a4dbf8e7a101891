//! The last values of rates, as lines of blocks.
//!
//! ```text
//! reply ─▶ Trends: name ─▶ 120 points ─▶ ▁▂▃▅█
//! ```
//!
//! BOUND: 120 points of a line, 1,000 lines: the first that are too many have none.
//!
//! Upstream counterpart: the sparklines of the inspector's page.

use std::collections::{HashMap, VecDeque};

use kinform_operator::inspect::{Pipeline, Rate};

const POINTS: usize = 120;
const LINES: usize = 1_000;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A line of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Trend {
    Wire,
    Read,
    Told,
    Runs,
}

/// The lines of a pipeline.
#[derive(Clone, Debug, Default)]
pub(super) struct Trends(HashMap<(Trend, String), VecDeque<f64>>);

impl Trends {
    /// Adds the values of a reply. Lines of informers that are gone go.
    pub(super) fn record(&mut self, reply: &Pipeline) {
        let mut lines = HashMap::new();
        for of in &reply.informers {
            self.add(&mut lines, Trend::Wire, &of.cache, &of.wire_bytes);
            self.add(&mut lines, Trend::Read, &of.cache, &of.deltas);
            self.add(&mut lines, Trend::Told, &of.cache, &of.notifications);
        }
        for of in &reply.controllers {
            self.add(&mut lines, Trend::Runs, &of.controller, &of.runs);
        }
        self.0 = lines;
    }

    fn add(
        &mut self,
        lines: &mut HashMap<(Trend, String), VecDeque<f64>>,
        trend: Trend,
        name: &str,
        rate: &Rate,
    ) {
        if lines.len() >= LINES {
            return;
        }
        let key = (trend, name.to_owned());
        let mut points = self.0.remove(&key).unwrap_or_default();
        if points.len() == POINTS {
            points.pop_front();
        }
        points.push_back(rate.per_second.unwrap_or_default().max(0.0));
        lines.insert(key, points);
    }

    /// The last values, one letter each, the newest on the right.
    pub(super) fn drawn(&self, trend: Trend, name: &str, room: usize) -> String {
        let Some(points) = self.0.get(&(trend, name.to_owned())) else {
            return " ".repeat(room.min(POINTS));
        };
        let room = room.min(POINTS);
        let shown: Vec<f64> = points.iter().rev().take(room).rev().copied().collect();
        let top = shown.iter().copied().fold(1.0, f64::max);
        let block = |value: &f64| {
            let level = (value / top * (BLOCKS.len() - 1) as f64).round();
            BLOCKS[(level as usize).min(BLOCKS.len() - 1)]
        };
        let line: String = shown.iter().map(block).collect();
        " ".repeat(room - shown.len()) + &line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(rate: f64) -> Pipeline {
        let json =
            serde_json::json!({"informers": [{"cache": "pods", "deltas": {"per_second": rate}}]});
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_line_has_the_last_values_and_an_end() {
        let mut trends = Trends::default();
        for rate in [0.0, 5.0, 10.0] {
            trends.record(&reply(rate));
        }
        assert_eq!(trends.drawn(Trend::Read, "pods", 5), "  ▁▅█");
        assert_eq!(trends.drawn(Trend::Read, "pods", 2), "▅█");
        assert_eq!(trends.drawn(Trend::Read, "nodes", 2), "  ");
        (0..500).for_each(|_| trends.record(&reply(1.0)));
        assert!(trends.0.values().all(|points| points.len() == POINTS));
        assert_eq!(
            trends.drawn(Trend::Read, "pods", 500).chars().count(),
            POINTS
        );
        trends.record(&Pipeline::default());
        assert!(trends.0.is_empty());
    }
}
