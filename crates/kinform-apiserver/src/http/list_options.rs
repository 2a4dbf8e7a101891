//! The options of a list or a watch, validated as upstream does.
//!
//! ```text
//! Query ──decode (400)──▶ defaults ──validate (422)──▶ ReadOptions ──fields known? (400)──▶ Selection
//! ```
//!
//! The order of the checks is upstream's, since it decides which error a client sees. Versions are
//! parsed later, because a malformed one has different errors in lists (400) and watches (500).
//!
//! Upstream: `apimachinery:pkg/apis/meta/internalversion/{defaults.go,validation}`.

use kinform_api::selector::{FieldSelector, LabelSelector};
use kinform_api::{FieldError, Status};

use crate::http::query::Query;

/// `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Exact,
    NotOlderThan,
}

/// `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    Unset,
    Any,
    At(u64),
}

/// The options of a list or a watch.
#[derive(Clone, Debug)]
pub(crate) struct ReadOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    pub(crate) version: String,
    pub(crate) version_match: Option<Match>,
    pub(crate) limit: usize,
    pub(crate) continue_token: String,
    pub(crate) timeout_seconds: u64,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    /// `shardSelector` as it was sent.
    pub(crate) shards: String,
}

impl ReadOptions {
    /// Decodes and validates the options. `watch` states the kind of request, which its path may
    /// decide.
    pub(crate) fn read(query: &Query, watch: bool) -> Result<Self, Status> {
        let labels = query.text("labelSelector");
        let labels: LabelSelector = labels.parse().map_err(bad_selector)?;
        let fields = query.text("fieldSelector");
        let fields: FieldSelector = fields.parse().map_err(bad_selector)?;
        let timeout_seconds = query.number("timeoutSeconds")?;
        let limit = query.number("limit")?;
        let mut options = Self {
            labels,
            fields,
            version: query.text("resourceVersion").to_owned(),
            version_match: None,
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: query.text("continue").to_owned(),
            timeout_seconds: u64::try_from(timeout_seconds).unwrap_or(0),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            initial_events: query.flag("sendInitialEvents"),
            shards: query.text("shardSelector").to_owned(),
        };
        let mut matched = query.text("resourceVersionMatch");
        let from_any = matches!(&*options.version, "" | "0");
        if watch && from_any && options.initial_events.is_none() && matched.is_empty() {
            // A legacy watch gets the same initial events as a streaming list.
            options.initial_events = Some(true);
            matched = "NotOlderThan";
        }
        let errors = options.errors(watch, matched);
        if !errors.is_empty() {
            return Err(Status::invalid_list_options(&errors));
        }
        options.version_match = match matched {
            "Exact" => Some(Match::Exact),
            "NotOlderThan" => Some(Match::NotOlderThan),
            _ => None,
        };
        Ok(options)
    }

    fn errors(&self, watch: bool, matched: &str) -> Vec<FieldError> {
        let forbidden = |what: &str| FieldError::forbidden("resourceVersionMatch", what);
        let mut errors = Vec::new();
        if !watch {
            if !matched.is_empty() {
                if self.version.is_empty() {
                    errors.push(forbidden(
                        "resourceVersionMatch is forbidden unless resourceVersion is provided",
                    ));
                }
                if !self.continue_token.is_empty() {
                    errors.push(forbidden(
                        "resourceVersionMatch is forbidden when continue is provided",
                    ));
                }
                if !matches!(matched, "Exact" | "NotOlderThan") {
                    let known = ["Exact", "NotOlderThan", ""];
                    errors.push(FieldError::not_supported(
                        "resourceVersionMatch",
                        matched,
                        &known,
                    ));
                }
                if matched == "Exact" && self.version == "0" {
                    errors.push(forbidden(
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                    ));
                }
            }
            if self.initial_events.is_some() {
                let what = "sendInitialEvents is forbidden for list";
                errors.push(FieldError::forbidden("sendInitialEvents", what));
            }
            return errors;
        }
        if self.initial_events.is_some() && matched != "NotOlderThan" {
            errors.push(forbidden(
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
        }
        if !matched.is_empty() {
            if self.initial_events.is_none() {
                errors.push(forbidden(
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if matched != "NotOlderThan" {
                let known = ["NotOlderThan"];
                errors.push(FieldError::not_supported(
                    "resourceVersionMatch",
                    matched,
                    &known,
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(forbidden(
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
        }
        errors
    }
}

fn bad_selector(error: kinform_api::Error) -> Status {
    Status::bad_request(error.to_string())
}

/// Parses a version. The error is Go's, for the verb to wrap.
pub(crate) fn version(text: &str) -> Result<Version, String> {
    match text {
        "" => Ok(Version::Unset),
        "0" => Ok(Version::Any),
        _ => match text.parse::<u64>() {
            Ok(0) => Ok(Version::Any),
            Ok(number) if !text.starts_with('+') => Ok(Version::At(number)),
            Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => {
                Err(go_error(text, "value out of range"))
            }
            _ => Err(go_error(text, "invalid syntax")),
        },
    }
}

fn go_error(text: &str, why: &str) -> String {
    format!("resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: {why}")
}
