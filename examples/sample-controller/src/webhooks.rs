//! The webhooks of Foo: one that fills in defaults, one that validates, and their certificate.
//!
//! ```text
//! Foo as sent ─▶ default: one replica ─▶ Foo ─▶ validate: a Deployment can have that name; it stays ─▶ stored
//! ```
//!
//! Conversion is missing on purpose: Foo has one version, as upstream's. They use no cache: an API
//! server calls them before the first list of Foos.
//!
//! Upstream counterpart: none in `sample-controller`; kubebuilder's `--defaulting
//! --programmatic-validation`.

use kinform_operator::Error;
use kinform_operator::leader::pod_namespace;
use kinform_operator::webhook::{
    AdmissionRequest, Certificates, Error as WebhookError, Managed, Verdict, Webhooks,
};
use kube::Client;

use crate::{COMPONENT, Foo};

/// BOUND: characters of a Deployment's name.
const MAX_NAME_LENGTH: usize = 253;

/// The Service of the webhooks in `deploy/`, and the Secret of their certificate.
const SERVICE: &str = "sample-controller-webhooks";
const SECRET: &str = "sample-controller-webhooks";

/// Both webhooks, at the paths that `deploy/webhooks.yaml` names.
///
/// # Errors
/// Never: their paths differ.
pub fn all() -> Result<Webhooks, WebhookError> {
    Webhooks::new().mutate(set_defaults)?.validate(validate)
}

/// The certificate that the program makes, keeps in a Secret of its namespace and replaces; its
/// authority goes into the webhook configurations of `deploy/`.
///
/// # Errors
/// The namespace is unknown, as outside of a pod.
pub fn certificates(client: Client) -> Result<Certificates, Error> {
    let namespace = pod_namespace().map_err(|error| {
        Error::of(
            "cannot serve webhooks (ENABLE_WEBHOOKS=false goes without)",
            error,
        )
    })?;
    let managed = Managed::new(namespace, SERVICE, SECRET)
        .mutating(COMPONENT)
        .validating(COMPONENT);
    Ok(Certificates::managed(managed, client))
}

/// A Foo that does not say how many replicas it wants gets one.
async fn set_defaults(request: AdmissionRequest<Foo>) -> Result<Verdict, WebhookError> {
    match request.object {
        Some(mut foo) if foo.spec.replicas.is_none() => {
            foo.spec.replicas = Some(1);
            Ok(Verdict::change(&foo))
        }
        _ => Ok(Verdict::allow()),
    }
}

/// Denies a Foo whose Deployment could not be made, and a change of its name.
async fn validate(request: AdmissionRequest<Foo>) -> Result<Verdict, WebhookError> {
    let (Some(foo), old) = (request.object, request.old_object) else {
        return Ok(Verdict::allow());
    };
    let old = old.map(|old| old.spec);
    // An older Foo that would be denied today must still lose its finalizer.
    if old.as_ref() == Some(&foo.spec) {
        return Ok(Verdict::allow());
    }
    let name = &foo.spec.deployment_name;
    let denied = |why: String| {
        let message = format!("spec.deploymentName: {why}");
        Verdict::deny(message).with_code(422).with_reason("Invalid")
    };
    if !is_name(name) {
        let why =
            "not a name: lower case letters, digits, \"-\" and \".\" between them, 253 at most";
        return Ok(denied(why.to_owned()));
    }
    if let Some(old) = old.filter(|old| old.deployment_name != *name) {
        let why = format!(
            "cannot change: Deployment {} would stay",
            old.deployment_name
        );
        return Ok(denied(why));
    }
    Ok(match foo.spec.replicas {
        Some(0) => Verdict::allow().with_warning("spec.replicas is 0: no pod will run"),
        _ => Verdict::allow(),
    })
}

/// Returns whether a Deployment can have this name.
fn is_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= MAX_NAME_LENGTH
        && name.split('.').all(|label| {
            label.starts_with(is_inner)
                && label.ends_with(is_inner)
                && label.chars().all(|c| is_inner(c) || c == '-')
        })
}

#[cfg(test)]
mod tests {
    use kinform_operator::webhook::testing::Asked;
    use kinform_operator::webhook::{mutate_path, validate_path};

    use super::*;
    use crate::FooSpec;

    fn foo(deployment_name: &str, replicas: Option<i32>) -> Foo {
        let spec = FooSpec {
            deployment_name: deployment_name.to_owned(),
            replicas,
        };
        Foo::new("web", spec)
    }

    /// The message of a denial, if it is one, and the warnings.
    async fn validated(asked: Asked) -> (Option<String>, Vec<String>) {
        let answered = asked.call(&all().unwrap(), &validate_path::<Foo>()).await;
        let answered = answered.unwrap();
        let denied = (!answered.is_allowed()).then(|| {
            assert_eq!(answered.code(), Some(422));
            answered.message().unwrap_or_default().to_owned()
        });
        (denied, answered.warnings().to_vec())
    }

    #[test]
    fn the_manifests_name_the_paths_the_service_and_the_secret_of_the_program() {
        let manifest = include_str!("../deploy/webhooks.yaml");
        for path in [mutate_path::<Foo>(), validate_path::<Foo>()] {
            assert!(all().unwrap().paths().any(|served| served == path));
            assert_eq!(manifest.matches(&format!("path: {path}\n")).count(), 1);
        }
        let service = format!("name: {SERVICE}\n");
        assert_eq!(manifest.matches(&service).count(), 2);
        assert_eq!(
            manifest.matches(&format!("  name: {COMPONENT}\n")).count(),
            2
        );
        assert!(include_str!("../deploy/services.yaml").contains(&service));
        let rights = include_str!("../deploy/rbac.yaml");
        for name in [SECRET, COMPONENT] {
            assert!(
                rights.contains(&format!("resourceNames: [{name}]\n")),
                "{name}"
            );
        }
    }

    #[tokio::test]
    async fn a_foo_without_replicas_gets_one_and_another_number_stays() {
        for (given, expected) in [(None, 1), (Some(0), 0), (Some(7), 7)] {
            let answered = Asked::create(&foo("web", given))
                .call(&all().unwrap(), &mutate_path::<Foo>())
                .await
                .unwrap();
            let stored: Foo = answered.object().unwrap();
            assert_eq!(stored.spec, foo("web", Some(expected)).spec);
        }
    }

    #[tokio::test]
    async fn a_name_that_no_deployment_can_have_is_denied() {
        let long = "a".repeat(254);
        for name in ["", "Web", "-web", "web-", "a..b", "a b", long.as_str()] {
            let (denied, _) = validated(Asked::create(&foo(name, Some(1)))).await;
            let denied = denied.expect(name);
            assert!(
                denied.starts_with("spec.deploymentName: not a name"),
                "{denied}"
            );
        }
        for name in ["web", "web-1.example", "0"] {
            let expected = (None, Vec::new());
            assert_eq!(
                validated(Asked::create(&foo(name, Some(1)))).await,
                expected
            );
        }
    }

    #[tokio::test]
    async fn the_name_cannot_change_and_no_replicas_are_a_warning() {
        let (old, new) = (foo("web", Some(1)), foo("other", Some(1)));
        let (denied, _) = validated(Asked::update(&old, &new)).await;
        let expected = "spec.deploymentName: cannot change: Deployment web would stay";
        assert_eq!(denied.as_deref(), Some(expected));
        let (denied, warnings) = validated(Asked::update(&old, &foo("web", Some(0)))).await;
        assert_eq!(denied, None);
        assert_eq!(warnings, ["spec.replicas is 0: no pod will run"]);
    }

    #[tokio::test]
    async fn an_older_foo_that_would_be_denied_today_can_lose_its_finalizer() {
        let old = foo("", None);
        let (denied, _) = validated(Asked::update(&old, &old)).await;
        assert_eq!(denied, None);
        assert_eq!(validated(Asked::delete(&old)).await.0, None);
    }
}
