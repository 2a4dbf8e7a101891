//! The ports of an operator: probes, metrics, webhooks.
//!
//! ```text
//! addresses ──bind all──▶ serve each ──▶ stop: webhooks first, probes and metrics last
//! ```
//!
//! A port that cannot be bound, or a certificate that cannot be used, starts nothing.
//!
//! Upstream counterpart: `controller-runtime:pkg/manager/server.go`.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Addresses, Operator};
use crate::error::{Error, ErrorKind};
use crate::serve::{Body, Bound, Handler, Limits};
use crate::settings::MetricsAccess;
#[cfg(feature = "webhook")]
use crate::webhook::{Certificates, Webhooks};

/// The pause after a certificate that could not be had.
#[cfg(feature = "webhook")]
const RETRY: Duration = Duration::from_secs(2);

/// The ports, and the tasks that serve them.
#[derive(Default)]
pub(super) struct Servers {
    stop: CancellationToken,
    running: JoinSet<()>,
    #[cfg(feature = "webhook")]
    webhooks: Option<Hooked>,
}

/// The webhooks' port, and the certificate that it is served with.
#[cfg(feature = "webhook")]
struct Hooked {
    certificates: Certificates,
    stop: CancellationToken,
    running: JoinSet<()>,
    bound: Option<(Bound, Handler)>,
}

impl Servers {
    /// Binds all ports, then serves them.
    pub(super) async fn start(&mut self, operator: &Operator) -> Result<(), Error> {
        let inner = &operator.0;
        let settings = &inner.settings;
        let probes = match &settings.probe_address {
            Some(address) => Some(bind("probes", "health-probe", address).await?),
            None => None,
        };
        #[cfg(feature = "metrics")]
        let metrics = match &settings.metrics_address {
            Some(address) => {
                let tls = self.metrics_tls(operator).await?;
                Some((
                    bind("metrics", "metrics", address).await?,
                    (tls, metrics(operator)),
                ))
            }
            None => None,
        };
        #[cfg(feature = "inspect")]
        let inspector = match &settings.inspect_address {
            Some(address) => Some(bind_inspector(address).await?),
            None => None,
        };
        let mut addresses = Addresses::default();
        #[cfg(feature = "webhook")]
        {
            self.webhooks = Hooked::bind(operator).await?;
            let bound = self.webhooks.as_ref().and_then(|w| w.bound.as_ref());
            addresses.webhooks = bound.map(|(bound, _)| bound.address());
        }
        if let Some(bound) = probes {
            tracing::info!(address = %bound.address(), "serving probes");
            addresses.probes = Some(bound.address());
            let probes = inner.probes.clone();
            let handler: Handler = Arc::new(move |request| {
                std::future::ready(probes.answer(&request).map(Body::from)).boxed()
            });
            self.serve(bound, None, handler);
        }
        #[cfg(feature = "metrics")]
        if let Some((bound, (tls, handler))) = metrics {
            tracing::info!(address = %bound.address(), secure = tls.is_some(), "serving metrics");
            addresses.metrics = Some(bound.address());
            self.serve(bound, tls, handler);
        }
        #[cfg(feature = "inspect")]
        if let Some(bound) = inspector {
            tracing::info!(address = %bound.address(), "serving the inspector");
            addresses.inspector = Some(bound.address());
            self.inspect(operator, bound);
        }
        inner.addresses.send_replace(Some(addresses));
        Ok(())
    }

    /// TLS of the metrics, unless they are open.
    #[cfg(feature = "metrics")]
    async fn metrics_tls(
        &mut self,
        operator: &Operator,
    ) -> Result<Option<Arc<rustls::ServerConfig>>, Error> {
        let settings = &operator.0.settings;
        if settings.metrics_access == MetricsAccess::Open {
            return Ok(None);
        }
        #[cfg(feature = "webhook")]
        if let Some(files) = &settings.metrics_certificate {
            let unusable = |error: crate::webhook::Error| {
                let message = format!("cannot serve metrics: {error}");
                Error::new(ErrorKind::Config, message).with_cause(error)
            };
            let certificates = Certificates::from_files(files);
            certificates.sync().await.map_err(unusable)?;
            let tls = certificates.server_config().map_err(unusable)?;
            let stop = self.stop.clone();
            self.running
                .spawn(async move { certificates.run(stop).await });
            return Ok(Some(tls));
        }
        super::tls::server_config(settings.metrics_certificate.as_ref()).map(Some)
    }

    /// Gets the certificate of the webhooks and serves them. Returns false after a stop.
    #[cfg(feature = "webhook")]
    pub(super) async fn certify(&mut self, stop: &CancellationToken) -> Result<bool, Error> {
        let Some(webhooks) = &mut self.webhooks else {
            return Ok(true);
        };
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(false),
                synced = webhooks.certificates.sync() => match synced {
                    Ok(()) => break,
                    Err(error) => tracing::warn!("the webhooks have no certificate yet: {error}"),
                },
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(false),
                () = tokio::time::sleep(RETRY) => {}
            }
        }
        webhooks.serve().map(|()| true)
    }

    #[cfg(not(feature = "webhook"))]
    pub(super) async fn certify(&mut self, _: &CancellationToken) -> Result<bool, Error> {
        Ok(true)
    }

    /// Stops the webhooks once no endpoint leads here any more.
    #[cfg(feature = "webhook")]
    pub(super) async fn stop_webhooks(&mut self, end: Instant) {
        if let Some(mut webhooks) = self.webhooks.take() {
            if !webhooks.running.is_empty() {
                tokio::time::sleep_until(end).await;
            }
            webhooks.stop.cancel();
            while webhooks.running.join_next().await.is_some() {}
        }
    }

    #[cfg(not(feature = "webhook"))]
    pub(super) async fn stop_webhooks(&mut self, _: Instant) {}

    fn serve(&mut self, bound: Bound, tls: Option<Arc<rustls::ServerConfig>>, handler: Handler) {
        let stop = self.stop.clone();
        self.running
            .spawn(bound.serve(tls, Limits::probes(), handler, stop));
    }

    /// Serves the inspector to callers that the API server knows.
    #[cfg(feature = "inspect")]
    fn inspect(&mut self, operator: &Operator, bound: Bound) {
        let access = crate::access::Access::new(operator.0.client.clone());
        let stop = self.stop.clone();
        let (handler, keeping) = crate::inspect::reviewed(operator.program(), access, stop.clone());
        self.running.spawn(keeping);
        self.running
            .spawn(bound.serve(None, Limits::inspector(), handler, stop));
    }

    pub(super) async fn stop(&mut self) {
        self.stop.cancel();
        while self.running.join_next().await.is_some() {}
    }
}

#[cfg(feature = "webhook")]
impl Hooked {
    /// Binds the port, if there are webhooks. A certificate from files must be valid now.
    async fn bind(operator: &Operator) -> Result<Option<Self>, Error> {
        let Some((webhooks, certificates)) = operator.0.webhooks.get().cloned() else {
            return Ok(None);
        };
        if certificates.are_files() {
            let unusable = |cause: String| {
                let message = format!("cannot serve webhooks: {cause}");
                Error::new(ErrorKind::Config, message)
            };
            let synced = certificates.sync().await;
            synced.map_err(|error| unusable(error.to_string()))?;
            certificates.check().map_err(unusable)?;
        }
        let bound = bind("webhooks", "webhook", &operator.0.settings.webhook_address).await?;
        tracing::info!(address = %bound.address(), paths = ?webhooks.paths().collect::<Vec<_>>(), "serving webhooks");
        Ok(Some(Self {
            certificates,
            stop: CancellationToken::new(),
            running: JoinSet::new(),
            bound: Some((bound, Webhooks::handler(&webhooks))),
        }))
    }

    fn serve(&mut self) -> Result<(), Error> {
        let tls = self.certificates.server_config().map_err(|error| {
            Error::new(ErrorKind::Config, format!("cannot serve webhooks: {error}"))
                .with_cause(error)
        })?;
        if let Some((bound, handler)) = self.bound.take() {
            let (certificates, stop) = (self.certificates.clone(), self.stop.clone());
            self.running
                .spawn(async move { certificates.run(stop).await });
            let stop = self.stop.clone();
            self.running
                .spawn(bound.serve(Some(tls), Limits::webhooks(), handler, stop));
        }
        Ok(())
    }
}

/// Binds the inspector, on loopback only: callers send their tokens in clear.
#[cfg(feature = "inspect")]
async fn bind_inspector(address: &str) -> Result<Bound, Error> {
    let failed = |why: &dyn std::fmt::Display| {
        let message = format!("cannot serve the inspector: {why} (--inspect)");
        Error::new(ErrorKind::Config, message)
    };
    let bound = Bound::bind(address).await;
    let bound = bound.map_err(|error| failed(&error).with_cause(error))?;
    if !bound.address().ip().is_loopback() {
        let why = "its address has to be one of loopback, as 127.0.0.1:8082; reach it with \
                   kubectl port-forward";
        return Err(failed(&why));
    }
    Ok(bound)
}

async fn bind(what: &str, flag: &str, address: &str) -> Result<Bound, Error> {
    Bound::bind(address).await.map_err(|error| {
        let message = format!("cannot serve {what}: {error} (--{flag}-bind-address)");
        Error::new(ErrorKind::Config, message).with_cause(error)
    })
}

/// The handler of the metrics.
#[cfg(feature = "metrics")]
fn metrics(operator: &Operator) -> Handler {
    use crate::access::Access;
    use bytes::Bytes;
    use http::Response;

    let (inner, telemetry) = (&operator.0, operator.0.telemetry.clone());
    if inner.settings.metrics_access == MetricsAccess::Open {
        let answer =
            move |request| std::future::ready(telemetry.answer(&request).map(Body::from)).boxed();
        return Arc::new(answer);
    }
    let access = Arc::new(Access::new(inner.client.clone()));
    Arc::new(move |request| {
        let (access, telemetry) = (Arc::clone(&access), telemetry.clone());
        async move {
            match access.check(&request).await {
                Ok(()) => telemetry.answer(&request).map(Body::from),
                Err(refusal) => {
                    let mut response = Response::new(Body::from(Bytes::from(refusal.message)));
                    *response.status_mut() = refusal.status;
                    response
                }
            }
        }
        .boxed()
    })
}
