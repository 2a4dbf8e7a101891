//! The answer of a function to an admission request, and its form on the wire.
//!
//! ```text
//! Verdict {allow | deny | fail, warnings, audit annotations, changed object} → AdmissionReview
//! ```
//!
//! Upstream counterpart: `controller-runtime:pkg/webhook/admission/response.go`.

use std::collections::BTreeMap;

use bytes::Bytes;
use k8s_openapi::ByteString;
use serde::Serialize;
use serde_json::{Value, json};

use super::review::{KIND, VERSION};

/// BOUND: characters of all warnings, beyond which each is cut; an API server's own numbers.
const ALL_WARNINGS: usize = 4096;
/// BOUND: characters of one warning if all are too long.
const CUT_WARNING: usize = 256;

/// The answer to an admission request: allow, deny, or fail.
#[derive(Clone, Debug)]
#[must_use]
pub struct Verdict {
    pub(super) decision: Decision,
    warnings: Vec<String>,
    audit_annotations: BTreeMap<String, String>,
    /// The object as the code wants it.
    pub(super) changed: Option<Value>,
}

#[derive(Clone, Debug)]
pub(super) enum Decision {
    Allow,
    Deny {
        message: String,
        code: u16,
        reason: Option<String>,
    },
    Fail(String),
}

impl Verdict {
    fn new(decision: Decision) -> Self {
        Self {
            decision,
            warnings: Vec::new(),
            audit_annotations: BTreeMap::new(),
            changed: None,
        }
    }

    /// Allows the request.
    pub fn allow() -> Self {
        Self::new(Decision::Allow)
    }

    /// Allows the request with the object changed to `object`, for a mutating webhook.
    ///
    /// The patch has only what was changed of the request's object. Fields that the type does not
    /// know stay as they are.
    ///
    /// An object that cannot be serialized makes the verdict a failure.
    pub fn change<K: Serialize>(object: &K) -> Self {
        match serde_json::to_value(object) {
            Ok(changed) => Self {
                changed: Some(changed),
                ..Self::allow()
            },
            Err(error) => Self::fail(format!("the changed object cannot be serialized: {error}")),
        }
    }

    /// Denies the request with code 403 and reason `Forbidden`.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::new(Decision::Deny {
            message: message.into(),
            code: 403,
            reason: Some("Forbidden".to_owned()),
        })
    }

    /// Gives no verdict: the API server does what the `failurePolicy` of the webhook says. An `Err`
    /// of the function means the same.
    pub fn fail(message: impl Into<String>) -> Self {
        Self::new(Decision::Fail(message.into()))
    }

    /// Sets the HTTP code of a denial. A code that is no error (400 to 599) is not used.
    pub fn with_code(mut self, new: u16) -> Self {
        if let Decision::Deny { code, reason, .. } = &mut self.decision
            && (400..600).contains(&new)
        {
            *code = new;
            *reason = None;
        }
        self
    }

    /// Sets the reason of a denial, such as `Invalid`. To be called after [`Self::with_code`].
    pub fn with_reason(mut self, new: impl Into<String>) -> Self {
        if let Decision::Deny { reason, .. } = &mut self.decision {
            *reason = Some(new.into());
        }
        self
    }

    /// Adds a warning, which clients show to their users. At most 120 characters are advised; 4,096
    /// characters of warnings are sent.
    pub fn with_warning(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }

    /// Adds an annotation to the audit event. The API server puts the webhook's name before the key.
    pub fn with_audit_annotation(
        mut self,
        key: impl Into<String>,
        value: impl Into<String>,
    ) -> Self {
        self.audit_annotations.insert(key.into(), value.into());
        self
    }

    /// The review with this verdict. The patch is a list of operations.
    pub(super) fn into_review(self, uid: &str, patch: Option<Vec<u8>>) -> Bytes {
        let mut response = json!({
            "uid": uid,
            "allowed": matches!(self.decision, Decision::Allow),
        });
        if let Decision::Deny {
            message,
            code,
            reason,
        } = self.decision
        {
            response["status"] = json!({
                "metadata": {},
                "status": "Failure",
                "message": message,
                "code": code,
            });
            if let Some(reason) = reason {
                response["status"]["reason"] = reason.into();
            }
        }
        if let Some(patch) = patch {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = json!(ByteString(patch));
        }
        let warnings = bounded(self.warnings);
        if !warnings.is_empty() {
            response["warnings"] = warnings.into();
        }
        if !self.audit_annotations.is_empty() {
            response["auditAnnotations"] = json!(self.audit_annotations);
        }
        let review = json!({ "apiVersion": VERSION, "kind": KIND, "response": response });
        Bytes::from(review.to_string())
    }
}

/// Warnings as an API server passes them on: if all are too long each is cut, and those beyond the
/// limit are dropped.
fn bounded(mut warnings: Vec<String>) -> Vec<String> {
    warnings.retain(|warning| !warning.is_empty());
    let total: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    if total <= ALL_WARNINGS {
        return warnings;
    }
    let mut left = ALL_WARNINGS;
    let cut = warnings.into_iter().map(|warning| {
        let cut: String = warning.chars().take(CUT_WARNING).collect();
        cut
    });
    cut.take_while(|warning| {
        let length = warning.chars().count();
        let fits = length <= left;
        left = left.saturating_sub(length);
        fits
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(verdict: Verdict) -> Value {
        let review: Value = serde_json::from_slice(&verdict.into_review("u", None)).unwrap();
        assert_eq!(review["apiVersion"], "admission.k8s.io/v1");
        assert_eq!(review["kind"], "AdmissionReview");
        assert_eq!(review["response"]["uid"], "u");
        review["response"].clone()
    }

    #[test]
    fn a_verdict_is_sent_as_a_server_reads_it() {
        // controller-runtime: "should return an 'allowed' response" and its neighbours
        let allow = json!({ "uid": "u", "allowed": true });
        assert_eq!(sent(Verdict::allow()), allow);
        // They are a denial's.
        assert_eq!(
            sent(Verdict::allow().with_code(422).with_reason("x")),
            allow
        );
        let status = |code: u16, reason: Value| {
            let mut status = json!({
                "metadata": {}, "status": "Failure", "message": "no", "code": code,
            });
            if !reason.is_null() {
                status["reason"] = reason;
            }
            json!({ "uid": "u", "allowed": false, "status": status })
        };
        let deny = || Verdict::deny("no");
        assert_eq!(sent(deny()), status(403, json!("Forbidden")));
        assert_eq!(sent(deny().with_code(200)), status(403, json!("Forbidden")));
        assert_eq!(sent(deny().with_code(409)), status(409, Value::Null));
        let invalid = deny().with_code(422).with_reason("Invalid");
        assert_eq!(sent(invalid), status(422, json!("Invalid")));
        let more = deny()
            .with_warning("w")
            .with_warning("")
            .with_audit_annotation("k", "v");
        let more = sent(more);
        assert_eq!(more["warnings"], json!(["w"]));
        assert_eq!(more["auditAnnotations"], json!({ "k": "v" }));
    }

    #[test]
    fn warnings_are_cut_as_a_server_would_cut_them() {
        let lengths = |given: &[usize]| -> Vec<usize> {
            let warnings = given.iter().map(|length| "ä".repeat(*length)).collect();
            let bounded = bounded(warnings);
            bounded
                .iter()
                .map(|warning| warning.chars().count())
                .collect()
        };
        assert_eq!(lengths(&[4096]), [4096]);
        assert_eq!(lengths(&[4097]), [256]);
        assert_eq!(lengths(&[4000, 96, 0]), [4000, 96]);
        assert_eq!(lengths(&[300; 17]), [256; 16]);
        assert_eq!(lengths(&[5000, 100]), [256, 100]);
    }
}
