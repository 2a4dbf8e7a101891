//! Errors of a source on their way into a file and out of it.
//!
//! ```text
//! SourceError ──without its cause──▶ Failed ──▶ SourceError
//! ```
//!
//! Upstream counterpart: none.

use std::time::Duration;

use kinform_core::recording::Failed;

use crate::error::{SourceError, SourceErrorKind};

/// The words of the kinds.
const KINDS: [(SourceErrorKind, &str); 7] = [
    (SourceErrorKind::Refused, "Refused"),
    (SourceErrorKind::Certificate, "Certificate"),
    (SourceErrorKind::Status, "Status"),
    (SourceErrorKind::NotKubernetes, "NotKubernetes"),
    (SourceErrorKind::Transport, "Transport"),
    (SourceErrorKind::Deadline, "Deadline"),
    (SourceErrorKind::Request, "Request"),
];

/// The error for a file.
pub(super) fn written(error: &SourceError) -> Failed {
    let word = KINDS.iter().find(|(kind, _)| *kind == error.kind());
    let retry_after = error.retry_after().map(|wait| wait.as_millis());
    Failed {
        kind: word.map_or("Transport", |(_, word)| word).to_owned(),
        message: error.to_string(),
        http_code: error.http_code(),
        status: error.status().cloned(),
        retry_after_ms: retry_after.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX)),
    }
}

/// The error of a file. A word that this release does not know is a broken connection.
pub(super) fn read(failed: &Failed) -> SourceError {
    let kind = KINDS.iter().find(|(_, word)| *word == failed.kind);
    let kind = kind.map_or(SourceErrorKind::Transport, |(kind, _)| *kind);
    let mut error = match (&failed.status, kind) {
        (Some(status), SourceErrorKind::Status) => {
            SourceError::from_status(failed.http_code.unwrap_or(status.code), status.clone())
        }
        _ => SourceError::new(kind, failed.message.as_str()),
    };
    if let Some(code) = failed.http_code {
        error = error.with_http_code(code);
    }
    error.with_retry_after(failed.retry_after_ms.map(Duration::from_millis))
}

#[cfg(test)]
mod tests {
    use kinform_api::Status;

    use super::*;

    #[test]
    fn an_error_is_the_same_to_decisions_after_a_file() {
        let expired = SourceError::from_status(410, Status::expired("too old"));
        let busy = SourceError::from_status(429, Status::failure(429, "TooManyRequests", "later"))
            .with_retry_after(Some(Duration::from_secs(3)));
        let mut errors = vec![expired, busy];
        for (kind, word) in KINDS {
            errors.push(SourceError::new(kind, format!("it is {word}")));
        }
        for error in errors {
            let again = read(&written(&error));
            assert_eq!(format!("{again:?}"), format!("{error:?}"));
            assert_eq!(again.status(), error.status());
            assert_eq!(again.is_expired(), error.is_expired());
        }
        let unknown = Failed {
            kind: "Tomorrow".to_owned(),
            ..Failed::default()
        };
        assert_eq!(read(&unknown).kind(), SourceErrorKind::Transport);
    }
}
