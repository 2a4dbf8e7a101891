//! Families of metrics as plain values, and their way into the text formats.
//!
//! ```text
//! sources → Family {name, kind, samples} → prometheus-client → OpenMetrics → text.rs: classic
//! ```
//!
//! Sources are asked at each scrape: there is no copy of a number to keep up to date, and the series
//! of something that has ended are gone.
//!
//! Upstream counterpart: `client_golang`'s `Collector`.

use std::fmt;
use std::time::Duration;

use kinform_core::stats::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel as _, EncodeLabelSet, LabelSetEncoder, MetricEncoder,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

/// Names and values of labels, in order.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// A family of samples.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family {
    /// The name, with `_total` for a counter.
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) samples: Vec<(Labels, Value)>,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Count(u64),
    /// A counter of seconds.
    Seconds(f64),
    Gauge(f64),
    Histogram {
        sum: f64,
        count: u64,
        /// Upper bounds and the numbers of observations in each, not cumulated.
        buckets: Vec<(f64, u64)>,
    },
}

/// The source of families, asked at each scrape.
pub(crate) trait Source: Send + Sync {
    fn families(&self) -> Vec<Family>;
}

impl<F: Fn() -> Vec<Family> + Send + Sync> Source for F {
    fn families(&self) -> Vec<Family> {
        self()
    }
}

impl Family {
    pub(crate) fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Counter)
    }

    pub(crate) fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Gauge)
    }

    pub(crate) fn histogram(name: &'static str, help: &'static str) -> Self {
        Self::new(name, help, Kind::Histogram)
    }

    fn new(name: &'static str, help: &'static str, kind: Kind) -> Self {
        Self {
            name,
            help,
            samples: Vec::new(),
            kind,
        }
    }

    pub(crate) fn count(&mut self, labels: &Labels, count: u64) {
        self.samples.push((labels.clone(), Value::Count(count)));
    }

    pub(crate) fn count_seconds(&mut self, labels: &Labels, seconds: f64) {
        self.samples.push((labels.clone(), Value::Seconds(seconds)));
    }

    pub(crate) fn set(&mut self, labels: &Labels, value: f64) {
        self.samples.push((labels.clone(), Value::Gauge(value)));
    }

    pub(crate) fn observe(&mut self, labels: &Labels, observed: Value) {
        self.samples.push((labels.clone(), observed));
    }

    /// Writes the family. One without samples is left out, as its descriptor says nothing.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.samples.is_empty() {
            return Ok(());
        }
        let (name, kind) = match self.kind {
            Kind::Counter => (self.name.trim_end_matches("_total"), MetricType::Counter),
            Kind::Gauge => (self.name, MetricType::Gauge),
            Kind::Histogram => (self.name, MetricType::Histogram),
        };
        let mut family = encoder.encode_descriptor(name, self.help, None, kind)?;
        for (labels, value) in &self.samples {
            if labels.is_empty() {
                value.encode(&mut family)?;
            } else {
                let labels = Written(labels);
                value.encode(&mut family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Value {
    fn encode(&self, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => metric.encode_counter(count, None::<&Exemplar<Written<'_>, f64>>),
            Self::Seconds(seconds) => {
                metric.encode_counter(seconds, None::<&Exemplar<Written<'_>, f64>>)
            }
            Self::Gauge(value) => metric.encode_gauge(value),
            Self::Histogram {
                sum,
                count,
                buckets,
            } => metric.encode_histogram::<Written<'_>>(*sum, *count, buckets, None),
        }
    }
}

#[derive(Debug)]
struct Written<'a>(&'a [(&'static str, String)]);

impl EncodeLabelSet for Written<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        for (name, value) in self.0 {
            (*name, value.as_str()).encode(encoder.encode_label())?;
        }
        Ok(())
    }
}

/// Sorts the observations of a histogram into buckets with these upper bounds, in seconds.
///
/// The histogram's own buckets are 6 % wide: an observation counts for the first bound that is not
/// below the end of its bucket.
pub(crate) fn buckets(histogram: &Histogram, bounds: &[f64]) -> Value {
    let mut buckets: Vec<_> = bounds.iter().map(|bound| (*bound, 0)).collect();
    buckets.push((f64::INFINITY, 0));
    for (end, count) in histogram.buckets() {
        let seconds = end.as_secs_f64();
        let at = buckets.partition_point(|(bound, _)| *bound < seconds);
        let at = at.min(buckets.len() - 1);
        buckets[at].1 += count;
    }
    Value::Histogram {
        sum: histogram.total().as_secs_f64(),
        count: histogram.count(),
        buckets,
    }
}

/// Seconds of a duration, as gauges have them.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// All sources of a process.
pub(crate) struct Sources(pub(crate) Vec<std::sync::Arc<dyn Source>>);

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sources", self.0.len())
    }
}

impl Collector for Sources {
    /// Writes each family once: those of one name from several sources become one.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families: Vec<Family> = Vec::new();
        for family in self.0.iter().flat_map(|source| source.families()) {
            match families.iter_mut().find(|known| known.name == family.name) {
                Some(known) => known.samples.extend(family.samples),
                None => families.push(family),
            }
        }
        families.iter().try_for_each(|f| f.encode(&mut encoder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_fall_into_the_bucket_that_holds_them() {
        let mut histogram = Histogram::new();
        for micros in [0, 900, 5_000, 70_000, 90_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let found = buckets(&histogram, &[0.001, 0.01, 0.1, 60.0]);
        let Value::Histogram { count, buckets, .. } = found else {
            panic!("a histogram")
        };
        assert_eq!(count, 5);
        let counts: Vec<_> = buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1, 1, 0, 1]);
    }
}
