//! Error of a server that does not start.

use std::net::SocketAddr;

/// Error of a server that does not start.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Reason);

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("plain HTTP is only served on loopback, not on {0}; use TLS")]
    PlainOutsideOfLoopback(SocketAddr),
    #[error("cannot make a certificate")]
    Certificate(#[source] rcgen::Error),
    #[error("cannot set TLS up")]
    Tls(#[source] rustls::Error),
}

impl Error {
    pub(crate) fn listen(address: SocketAddr, source: std::io::Error) -> Self {
        Self(Reason::Listen { address, source })
    }

    pub(crate) fn plain_outside_of_loopback(address: SocketAddr) -> Self {
        Self(Reason::PlainOutsideOfLoopback(address))
    }

    pub(crate) fn certificate(error: rcgen::Error) -> Self {
        Self(Reason::Certificate(error))
    }

    pub(crate) fn tls(error: rustls::Error) -> Self {
        Self(Reason::Tls(error))
    }

    /// Returns whether another program listens on the address.
    #[must_use]
    pub fn is_address_in_use(&self) -> bool {
        matches!(&self.0, Reason::Listen { source, .. }
            if source.kind() == std::io::ErrorKind::AddrInUse)
    }
}
