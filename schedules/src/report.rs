//! A stand-in for the reports that listeners make.

use kinform_api::ObjectKey;

/// A report that nobody reads.
#[derive(Debug)]
#[expect(dead_code, reason = "no scenario reads a report")]
pub(crate) enum ReportEvent {
    HandlerPanicked {
        handler: String,
        key: Option<ObjectKey>,
    },
}
