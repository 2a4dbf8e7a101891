//! A webhook: admission of ConfigMaps, with a certificate that the program makes itself.
//!
//! ```text
//! kubectl ─▶ API server ─ AdmissionReview, TLS ─▶ validate ─▶ allow, with a warning │ deny
//! Secret: authority, certificate ─▶ caBundle of the ValidatingWebhookConfiguration
//! ```
//!
//! Prints what it is asked. On a cluster it needs the Service `kinform-example` in the namespace
//! `default` that leads to it, and a ValidatingWebhookConfiguration of that name without `caBundle`,
//! as `examples/sample-controller/deploy/webhooks.yaml`: the program fills it in.
//!
//! Upstream counterpart: `controller-runtime:examples/builtins`, and cert-manager.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform_operator::webhook::{
    AdmissionRequest, Certificates, Error, Managed, Verdict, Webhooks,
};
use kinform_operator::{Operator, Settings};

use crate::start::{Failure, Out, Start};

/// The name of the Service, the Secret and the configuration.
pub const NAME: &str = "kinform-example";

/// Denies a ConfigMap without a team; warns of one without data.
fn validate(request: AdmissionRequest<ConfigMap>, out: &Out) -> Verdict {
    let (name, user) = (&request.name, request.user.username.unwrap_or_default());
    out.line(format!("{:?} {name} by {user}", request.operation));
    let Some(map) = request.object else {
        return Verdict::allow(); // a deletion
    };
    let labels = map.metadata.labels.unwrap_or_default();
    if !labels.contains_key("team") {
        return Verdict::deny("the label `team` is missing");
    }
    match map.data.unwrap_or_default().len() {
        0 => Verdict::allow().with_warning("it has no data"),
        _ => Verdict::allow(),
    }
}

/// Serves until it is stopped.
pub async fn run(start: Start) -> Result<(), Failure> {
    let mut settings = Settings::default();
    settings.probe_address = Some("127.0.0.1:0".to_owned()); // in a pod: the default, :8081
    settings.webhook_address = "0.0.0.0:0".to_owned(); // in a pod: the default, :9443
    settings.webhook_drain = Duration::ZERO; // in a pod: the default, for endpoints to hear of the end
    let operator = Operator::builder(NAME).settings(settings);
    let operator = operator.with_config(start.config)?;

    let managed = Managed::new("default", NAME, NAME).validating(NAME);
    let certificates = Certificates::managed(managed, operator.unguarded());
    let out = start.out.clone();
    let webhooks = Webhooks::new().validate(move |request| {
        let verdict = validate(request, &out);
        async move { Ok::<_, Error>(verdict) }
    })?;
    let paths: Vec<String> = webhooks.paths().map(str::to_owned).collect();
    operator.serve_webhooks(webhooks, certificates)?;

    let serving = async { Ok::<_, Failure>(operator.run_until(start.stop).await?) };
    let announcing = async {
        let at = operator.addresses().await;
        let (probes, port) = at.probes.zip(at.webhooks).ok_or("there is no port")?;
        let (paths, port) = (paths.join(" "), port.port());
        start.out.line(format!("{paths} at port {port}"));
        // 200 once the API server can trust the certificate.
        start.out.line(format!("http://{probes}/readyz"));
        Ok(())
    };
    futures::try_join!(serving, announcing)?;
    Ok(())
}
