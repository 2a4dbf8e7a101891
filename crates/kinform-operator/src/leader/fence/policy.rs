//! The server's side of a hard fence: an admission policy whose parameter is the lease.
//!
//! ```text
//! write of the operator's account ──▶ annotation = namespace/name, uid, transitions, holder of the Lease?
//!                                         └─ no: 403
//! ```
//!
//! The stamp must be equal to the lease, not only as new: a server that has admitted a write of a term
//! has seen its lease, and admits no write of an older term any more.
//!
//! Without the Lease everything is admitted. The server looks for a parameter before it looks at
//! conditions: to deny then would stop the writes of all accounts.
//!
//! Upstream counterpart: none; `kubernetes:staging/src/k8s.io/apiserver/pkg/admission/plugin/policy`
//! evaluates it.

use serde_json::{Value, json};

/// The annotation with the term of the last write under a hard fence: `namespace/name` of the lease,
/// its uid, `leaseTransitions` and holder.
pub const TERM_ANNOTATION: &str = "kinform.dev/term";

/// Returns whether a message of the server is a refusal by the policy.
pub(super) fn is_refusal(message: &str) -> bool {
    message.contains("ValidatingAdmissionPolicy") && message.contains(TERM_ANNOTATION)
}

/// The admission policy of a hard fence, and its binding.
///
/// It looks at every write of one account to the resources that are named, whichever client sends it:
/// roll the operator out with its hard fence first, then apply the policy. Other accounts are free.
///
/// ```
/// use kinform_operator::leader::FencePolicy;
/// let account = "system:serviceaccount:operators:foo-operator";
/// let policy = FencePolicy::new("foo-operator-fence", "operators/foo-operator", account)
///     .resource("example.com", "foos")
///     .resource("apps", "deployments");
/// assert_eq!(policy.objects().len(), 2);
/// ```
///
/// Upstream has no counterpart.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a policy does nothing before it is applied"]
pub struct FencePolicy {
    name: String,
    lease: String,
    account: String,
    resources: Vec<(String, String)>,
}

impl FencePolicy {
    /// A policy for the writes of `account`, as the server names it, and the lease `namespace/name`.
    pub fn new(
        name: impl Into<String>,
        lease: impl Into<String>,
        account: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            lease: lease.into(),
            account: account.into(),
            resources: Vec::new(),
        }
    }

    /// Adds a resource and its subresources: those that the operator writes as a leader. Leases,
    /// events, and what all replicas write must not be among them. The group of core is empty.
    pub fn resource(mut self, group: impl Into<String>, plural: impl Into<String>) -> Self {
        self.resources.push((group.into(), plural.into()));
        self
    }

    /// The `ValidatingAdmissionPolicy` and its `ValidatingAdmissionPolicyBinding`, of
    /// `admissionregistration.k8s.io/v1`.
    pub fn objects(&self) -> [Value; 2] {
        let (namespace, lease) = self.lease.split_once('/').unwrap_or(("", &self.lease));
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": { "name": self.name },
            "spec": {
                "failurePolicy": "Fail",
                "paramKind": { "apiVersion": "coordination.k8s.io/v1", "kind": "Lease" },
                "matchConstraints": { "resourceRules": self.rules() },
                "matchConditions": [
                    { "name": "account", "expression":
                        format!("request.userInfo.username == {}", quoted(&self.account)) },
                    { "name": "not-dry-run", "expression": "!(has(request.dryRun) && request.dryRun)" },
                ],
                "variables": [
                    { "name": "term", "expression": TERM },
                    { "name": "target", "expression":
                        "request.operation == 'DELETE' ? oldObject : object" },
                    { "name": "stamp", "expression": STAMP },
                ],
                "validations": [
                    { "expression": "variables.stamp == variables.term", "reason": "Forbidden",
                      "messageExpression": MESSAGE },
                    { "expression": VERSIONED, "reason": "Forbidden", "message":
                        "a delete must name the version that kinform.dev/term was written at" },
                ],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": { "name": self.name },
            "spec": {
                "policyName": self.name,
                "paramRef": {
                    "namespace": namespace, "name": lease, "parameterNotFoundAction": "Allow",
                },
                "validationActions": ["Deny"],
            },
        });
        [policy, binding]
    }

    fn rules(&self) -> Vec<Value> {
        let rule = |(group, plural): &(String, String)| {
            json!({
                "apiGroups": [group],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
                "resources": [plural, format!("{plural}/*")],
            })
        };
        self.resources.iter().map(rule).collect()
    }
}

/// The text of a term, as `Shared::stamp` makes it.
const TERM: &str = "params.metadata.namespace + '/' + params.metadata.name + ' ' + \
    string(params.metadata.uid) + ' ' + \
    string(has(params.spec.leaseTransitions) ? params.spec.leaseTransitions : 0) + ' ' + \
    (has(params.spec.holderIdentity) ? params.spec.holderIdentity : '')";

const STAMP: &str = "has(variables.target.metadata.annotations) && \
    'kinform.dev/term' in variables.target.metadata.annotations ? \
    variables.target.metadata.annotations['kinform.dev/term'] : ''";

const MESSAGE: &str = "'kinform.dev/term is \"' + variables.stamp + \
    '\", and the term of the lease is \"' + variables.term + '\"'";

const VERSIONED: &str = "request.operation != 'DELETE' || (has(request.options.preconditions) && \
    has(request.options.preconditions.resourceVersion))";

/// A string of CEL.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_asks_the_lease_about_each_write_of_the_account() {
        let policy = FencePolicy::new("p", "ns/lease", "system:serviceaccount:ns:\"x\"")
            .resource("", "configmaps")
            .resource("e.io", "foos");
        let [policy, binding] = policy.objects();
        let rules = &policy["spec"]["matchConstraints"]["resourceRules"];
        assert_eq!(rules[0]["apiGroups"], json!([""]));
        assert_eq!(rules[1]["resources"], json!(["foos", "foos/*"]));
        let account = &policy["spec"]["matchConditions"][0]["expression"];
        let expected = r#"request.userInfo.username == "system:serviceaccount:ns:\"x\"""#;
        assert_eq!(account, expected);
        let parameter = &binding["spec"]["paramRef"];
        assert_eq!(parameter["namespace"], "ns");
        assert_eq!(parameter["name"], "lease");
        assert_eq!(parameter["parameterNotFoundAction"], "Allow");
    }

    // Recorded from kube-apiserver 1.37.
    #[test]
    fn only_refusals_of_the_policy_are_tried_again() {
        let by = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'fence' with binding 'fence' denied request:";
        assert!(is_refusal(&format!(
            "{by} kinform.dev/term is \"\", and the term of the lease is \"d/o u 3 me\""
        )));
        assert!(!is_refusal(&format!("{by} replicas must be odd")));
        assert!(!is_refusal(
            "configmaps is forbidden: User \"x\" cannot create resource"
        ));
    }
}
