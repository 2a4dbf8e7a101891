//! The address of a webhook.
//!
//! ```text
//! url | service { namespace, name, port, path } ──▶ function | address + name in its certificate
//! ```
//!
//! Upstream: `kubernetes/apiserver:pkg/util/webhook/{client,serviceresolver}.go`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::PoisonError;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use serde_json::Value;
use tokio::net::lookup_host;

use super::{Function, Hooks};
use crate::object::{at, text};
use crate::storage::Store;

/// The port of a service reference and of a URL that name none.
const PORT: u16 = 443;

/// The client configuration of a webhook.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    to: To,
    /// The certificates of the authority, in PEM.
    bundle: Vec<u8>,
}

#[derive(Clone, Debug)]
enum To {
    Url(String),
    Service {
        namespace: String,
        name: String,
        port: u16,
        path: String,
    },
}

/// The way of one call.
#[derive(Clone)]
pub(super) enum Way {
    Function(Function),
    /// An address, and the name that its certificate must have.
    Address(SocketAddr, String),
}

impl Endpoint {
    /// Reads a client configuration.
    pub(crate) fn of(config: &Value) -> Self {
        let bundle = text(config, &["caBundle"]);
        let to = match at(config, &["service"]) {
            Some(service) if service.is_object() => {
                let port = service["port"]
                    .as_u64()
                    .and_then(|port| u16::try_from(port).ok());
                let path = text(service, &["path"]);
                To::Service {
                    namespace: text(service, &["namespace"]).to_owned(),
                    name: text(service, &["name"]).to_owned(),
                    port: port.unwrap_or(PORT),
                    path: format!("/{}", path.trim_start_matches('/')),
                }
            }
            _ => To::Url(text(config, &["url"]).to_owned()),
        };
        Self {
            to,
            bundle: STANDARD.decode(bundle).unwrap_or_default(),
        }
    }

    /// The URL, without the timeout.
    pub(super) fn url(&self) -> String {
        match &self.to {
            To::Url(url) => url.clone(),
            To::Service {
                namespace,
                name,
                port,
                path,
            } => format!("https://{name}.{namespace}.svc:{port}{path}"),
        }
    }

    pub(super) fn bundle(&self) -> &[u8] {
        &self.bundle
    }
}

impl Hooks {
    /// Finds the way to a webhook.
    ///
    /// # Errors
    /// No such service, or an address that this server does not call.
    ///
    /// # Cancel safety
    /// A look-up of a name ends with its future.
    pub(super) async fn way(&self, store: &Store, endpoint: &Endpoint) -> Result<Way, String> {
        let To::Service {
            namespace,
            name,
            port,
            ..
        } = &endpoint.to
        else {
            let (address, name) = self.of_url(&endpoint.url()).await?;
            return Ok(Way::Address(address, name));
        };
        let key = format!("{namespace}/{name}");
        if let Some(function) = self.function(&key) {
            return Ok(Way::Function(function));
        }
        let certified = format!("{name}.{namespace}.svc");
        if let Some(address) = self.services.get(&key) {
            return Ok(Way::Address(*address, certified));
        }
        let Some(service) = store.get(store.shelf("services"), &key) else {
            return Err(format!("service {name:?} not found"));
        };
        let service = service.value();
        let host = text(&service, &["spec", "externalName"]);
        match self.permitted(host, *port).await {
            Some(address) => Ok(Way::Address(address, certified)),
            None => Err(format!(
                "dial tcp: service {key:?} has no address that this server calls: name one with \
                 --service-address {key}=127.0.0.1:PORT"
            )),
        }
    }

    /// The function that answers for a service.
    fn function(&self, service: &str) -> Option<Function> {
        let functions = self.functions.lock();
        let functions = functions.unwrap_or_else(PoisonError::into_inner);
        functions.get(service).cloned()
    }

    /// Finds the way of a redirect; a path alone is one of the same server.
    pub(super) async fn redirected(
        &self,
        (way, from): &(Way, String),
        location: &str,
    ) -> Result<(Way, String), String> {
        if location.starts_with('/') && !location.starts_with("//") {
            let end = from.find("://").map_or(0, |at| at + 3);
            let path = from[end..].find('/').map_or(from.len(), |at| end + at);
            let url = format!("{}{location}", &from[..path]);
            return Ok((way.clone(), url));
        }
        let (address, name) = self.of_url(location).await?;
        Ok((Way::Address(address, name), location.to_owned()))
    }

    /// The address in a URL, and the name in it.
    async fn of_url(&self, url: &str) -> Result<(SocketAddr, String), String> {
        let uri: Uri = url
            .parse()
            .map_err(|_| format!("parse {url:?}: invalid URI"))?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(PORT);
        match (uri.scheme_str(), self.permitted(host, port).await) {
            (Some("https"), Some(address)) => Ok((address, host.to_owned())),
            (Some("https"), None) => Err(format!(
                "dial tcp: {host}:{port} is not on loopback: this server calls other addresses \
                 only with --webhooks-anywhere"
            )),
            _ => Err(format!("{url:?} is not an https URL")),
        }
    }

    /// The address of a host, if this server calls it. Names other than `localhost` are resolved
    /// only if it calls any address.
    async fn permitted(&self, host: &str, port: u16) -> Option<SocketAddr> {
        let address = match host {
            "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            host => host.parse().ok(),
        };
        match address {
            Some(ip) if self.anywhere || ip.is_loopback() => Some(SocketAddr::new(ip, port)),
            Some(_) => None,
            None if self.anywhere => lookup_host((host, port)).await.ok()?.next(),
            None => None,
        }
    }
}
