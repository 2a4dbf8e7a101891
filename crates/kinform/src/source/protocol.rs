//! The protocol that a server chooses for a connection.
//!
//! ```text
//! Protocols ──TLS handshake (ALPN)──▶ Protocol ──▶ Chosen
//! ```

use tokio::sync::watch;

/// The protocol of a connection, as its server chose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// Hears the protocol of each connection that is opened.
pub(super) type Chosen = watch::Sender<Option<Protocol>>;

/// The protocols that a pool offers its server.
#[derive(Clone, Debug)]
pub(super) enum Protocols {
    Http1,
    /// The server's choice.
    Either(Chosen),
    /// HTTP/2, on one connection; a server that no longer has it is an error.
    Http2(Chosen),
}
