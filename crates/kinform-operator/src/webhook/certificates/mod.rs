//! The certificate that webhooks are served with: from files, or managed by the program itself.
//!
//! ```text
//! files, polled ─────────────────┐
//! Secret ─▶ caBundle of webhooks ┴▶ certificate in use ─▶ each new handshake
//!   replaced before its end          └▶ check (readiness), expiry (metric)
//! ```
//!
//! A certificate that cannot be read, or does not fit its key, changes nothing: the old one stays in
//! use, and [`Certificates::trouble`] says why. An expired one is still served, but not ready.
//!
//! Invariant: a certificate of a new authority serves after the authority is in every `caBundle`.
//!
//! Upstream counterpart: `controller-runtime:pkg/certwatcher`, and cert-manager for the rest.

mod bundle;
mod files;
mod managed;
mod material;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use kinform::{CancellationToken, Timestamp};
use kube_client::Client;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::error::Error;
use crate::settings::CertificateFiles;
use files::Files;
pub use managed::Managed;
use material::Pair;

/// BOUND: interval at which files and Secret are read; a read is two files or a few requests.
const INTERVAL: Duration = Duration::from_secs(10);
/// BOUND: the time for all API servers to see a changed `caBundle`, while the old certificate serves.
const SETTLE: Duration = Duration::from_secs(5);

/// A clock for the validity of certificates.
type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The certificate that webhooks are served with. Cheap to clone.
#[derive(Clone)]
pub struct Certificates(Arc<Inner>);

struct Inner {
    source: Source,
    clock: Clock,
    settle: Duration,
    resolver: Arc<Resolver>,
}

enum Source {
    Files(Files),
    Managed(Box<Managed>, Client),
}

/// Hands out the certificate in use.
#[derive(Debug, Default)]
struct Resolver(RwLock<InUse>);

#[derive(Debug, Default)]
struct InUse {
    pair: Option<Pair>,
    key: Option<Arc<CertifiedKey>>,
    trouble: Option<String>,
}

impl Certificates {
    /// The files `tls.crt` and `tls.key` of a folder, as a Secret is mounted. They are read by
    /// [`Self::sync`], and again every 10 s by [`Self::run`].
    pub fn from_folder(folder: impl AsRef<Path>) -> Self {
        let source = Source::Files(Files::of(folder.as_ref()));
        Self::new(source, Arc::new(kinform::env::wall_clock), SETTLE)
    }

    /// A certificate and its key in two files, read as those of [`Self::from_folder`].
    pub fn from_files(files: &CertificateFiles) -> Self {
        let source = Source::Files(Files::new(files));
        Self::new(source, Arc::new(kinform::env::wall_clock), SETTLE)
    }

    /// Returns whether they come from files, which must be there at the start.
    pub(crate) fn are_files(&self) -> bool {
        matches!(self.0.source, Source::Files(_))
    }

    /// An authority and a certificate that the program makes, keeps in a Secret and replaces.
    pub fn managed(managed: Managed, client: Client) -> Self {
        let source = Source::Managed(Box::new(managed), client);
        Self::new(source, Arc::new(kinform::env::wall_clock), SETTLE)
    }

    fn new(source: Source, clock: Clock, settle: Duration) -> Self {
        Self(Arc::new(Inner {
            source,
            clock,
            settle,
            resolver: Arc::default(),
        }))
    }

    /// Reads the source once, and uses what it has. To be awaited before serving.
    ///
    /// # Errors
    /// No provider of TLS is installed, or the source has no pair that can be used. A pair that is in
    /// use stays so.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn sync(&self) -> Result<(), Error> {
        let synced = match &self.0.source {
            Source::Files(files) => files.read().await,
            Source::Managed(managed, client) => self.sync_managed(managed, client).await,
        };
        let used = synced.and_then(|pair| self.0.resolver.put(pair));
        if let Err(error) = &used {
            self.0.resolver.fail(error);
        }
        used
    }

    async fn sync_managed(&self, managed: &Managed, client: &Client) -> Result<Pair, Error> {
        let now = (self.0.clock)();
        let material = managed.agree(client, now).await?;
        managed.inject(client, &material, now).await?;
        // Also if another replica put the authority there, just now.
        let is_new = self.0.resolver.read().pair.as_ref() != Some(&material.leaf);
        if is_new && self.check().is_ok() {
            tokio::time::sleep(self.0.settle).await;
        }
        Ok(material.leaf)
    }

    /// Follows the source until `stop`.
    ///
    /// # Cancel safety
    /// Can be dropped and called again.
    pub async fn run(&self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                synced = self.sync() => {
                    if let Err(error) = synced {
                        tracing::warn!(%error, "the certificate of webhooks stays as it is");
                    }
                }
            }
        }
    }

    /// Checks that a certificate is in use and valid, for readiness.
    ///
    /// # Errors
    /// One line about why it is not.
    pub fn check(&self) -> Result<(), String> {
        let in_use = self.0.resolver.read();
        let Some(pair) = &in_use.pair else {
            let why = in_use.trouble.as_deref().unwrap_or("none was read yet");
            return Err(format!("no certificate: {why}"));
        };
        let now = (self.0.clock)();
        if now >= pair.not_after {
            let remedy = self.remedy(&in_use);
            return Err(format!(
                "the certificate ended at {}: {remedy}",
                pair.not_after
            ));
        }
        if now < pair.not_before {
            let from = pair.not_before;
            return Err(format!(
                "the certificate begins at {from}: check this host's clock"
            ));
        }
        Ok(())
    }

    /// The remedy for a certificate that ended.
    fn remedy(&self, in_use: &InUse) -> String {
        match (&self.0.source, &in_use.trouble) {
            (Source::Files(files), _) => format!("replace {}", files.certificate().display()),
            (Source::Managed(..), Some(trouble)) => format!("no other was made: {trouble}"),
            (Source::Managed(..), None) => "another one is made within 10 s".to_owned(),
        }
    }

    /// The end of the certificate in use.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.0
            .resolver
            .read()
            .pair
            .as_ref()
            .map(|pair| pair.not_after)
    }

    /// Why the last sync failed; `None` if it did not.
    pub fn trouble(&self) -> Option<String> {
        self.0.resolver.read().trouble.clone()
    }

    /// A configuration of TLS 1.2 and 1.3 with the certificate in use, looked up at each handshake;
    /// HTTP/1.1 alone, as API servers speak it to services.
    ///
    /// # Errors
    /// No provider of TLS is installed.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, Error> {
        let mut config = ServerConfig::builder_with_provider(provider()?)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::new("the provider of TLS cannot be used").with_cause(error))?
            .with_no_client_auth()
            .with_cert_resolver(self.0.resolver.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("expires_at", &self.expires_at())
            .finish_non_exhaustive()
    }
}

impl Resolver {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, InUse> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses a pair from now on.
    fn put(&self, pair: Pair) -> Result<(), Error> {
        let is_same = self.read().pair.as_ref() == Some(&pair);
        let key = if is_same {
            None
        } else {
            Some(pair.certified(&*provider()?)?)
        };
        let mut in_use = self.0.write().unwrap_or_else(PoisonError::into_inner);
        in_use.trouble = None;
        if let Some(key) = key {
            in_use.key = Some(Arc::new(key));
            in_use.pair = Some(pair);
        }
        Ok(())
    }

    fn fail(&self, error: &Error) {
        let mut in_use = self.0.write().unwrap_or_else(PoisonError::into_inner);
        in_use.trouble = Some(error.to_string());
    }
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.read().key.clone()
    }
}

fn provider() -> Result<Arc<CryptoProvider>, Error> {
    CryptoProvider::get_default().cloned().ok_or_else(|| {
        Error::new(
            "no provider of TLS is installed: call \
             rustls::crypto::ring::default_provider().install_default() at the start",
        )
    })
}

#[cfg(test)]
pub(super) mod stage;
#[cfg(test)]
pub(super) mod tests;
