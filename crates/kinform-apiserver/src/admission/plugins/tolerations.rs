//! DefaultTolerationSeconds: a pod stays for five minutes on a node that is lost.
//!
//! ```text
//! tolerations ──not-ready, unreachable: tolerated already?──▶ tolerations of 300 s
//! ```
//!
//! Upstream: `kubernetes:plugin/pkg/admission/defaulttolerationseconds`.

use kinform_api::Status;
use serde_json::{Value, json};

use crate::admission::Question;
use crate::object::text;

const TAINTS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];
const SECONDS: u64 = 300;

/// Adds the tolerations that a new pod lacks.
pub(super) fn add(_: &Question<'_>, pod: &mut Value) -> Result<(), Box<Status>> {
    let Some(spec) = pod["spec"].as_object_mut() else {
        return Ok(());
    };
    let given = spec.get("tolerations").and_then(Value::as_array);
    let mut tolerations = given.cloned().unwrap_or_default();
    for taint in TAINTS {
        let is_tolerated = tolerations.iter().any(|of| {
            let (key, effect) = (text(of, &["key"]), text(of, &["effect"]));
            (key == taint || key.is_empty()) && matches!(effect, "" | "NoExecute")
        });
        if !is_tolerated {
            tolerations.push(
                json!({"key": taint, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": SECONDS}),
            );
        }
    }
    spec.insert("tolerations".to_owned(), Value::from(tolerations));
    Ok(())
}
