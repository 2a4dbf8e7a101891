//! Metrics of webhooks, named as upstream's.
//!
//! ```text
//! Webhooks (counters by path), Certificates → controller_runtime_webhook_*, kinform_webhook_*
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/webhook/internal/metrics`.

use super::controllers::QUEUE;
use super::family::{Family, Labels, buckets};
use crate::webhook::{Certificates, Webhooks};

/// The families of these webhooks.
pub(crate) fn families(webhooks: &Webhooks, certificates: &Certificates) -> Vec<Family> {
    let mut requests = Family::counter(
        "controller_runtime_webhook_requests_total",
        "Calls by their HTTP code; a denial is 200.",
    );
    let mut latency = Family::histogram(
        "controller_runtime_webhook_latency_seconds",
        "Duration of calls.",
    );
    let mut in_flight = Family::gauge(
        "controller_runtime_webhook_requests_in_flight",
        "Calls under way.",
    );
    let stats = webhooks.stats();
    for (path, stats) in &stats.paths {
        let labels: Labels = vec![("webhook", path.clone())];
        for (code, count) in &stats.replies {
            let mut labels = labels.clone();
            labels.push(("code", code.to_string()));
            requests.count(&labels, *count);
        }
        latency.observe(&labels, buckets(&stats.latency, &QUEUE));
        in_flight.set(&labels, stats.in_flight as f64);
    }
    let none = Labels::new();
    let mut panics = Family::counter(
        "controller_runtime_webhook_panics_total",
        "Panics of admission webhooks.",
    );
    panics.count(&none, stats.admission_panics);
    let mut conversions = Family::counter(
        "controller_runtime_conversion_webhook_panics_total",
        "Panics of conversion webhooks.",
    );
    conversions.count(&none, stats.conversion_panics);
    let mut expiry = Family::gauge(
        "kinform_webhook_certificate_expiry_seconds",
        "End of the certificate in use, in seconds since 1970.",
    );
    if let Some(end) = certificates.expires_at() {
        expiry.set(&none, end.as_second() as f64);
    }
    vec![requests, latency, in_flight, panics, conversions, expiry]
}
