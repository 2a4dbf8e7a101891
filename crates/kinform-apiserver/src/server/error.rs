//! Error of a server that does not start.
//!
//! ```text
//! address, certificate, folder ──▶ Error { the reason } ──is_*──▶ a hint of the command line
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

#[cfg(feature = "disk")]
use crate::storage::committer::{Failure, chain};
#[cfg(feature = "disk")]
use crate::storage::disk::folder::InUse;

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
    #[cfg(feature = "disk")]
    #[error("cannot use the folder {}: {why}", path.display())]
    DataDir {
        path: std::path::PathBuf,
        why: String,
        is_in_use: bool,
    },
    #[error("the first writes are not on disk: {0}")]
    NotOnDisk(Arc<str>),
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

    #[cfg(feature = "disk")]
    pub(crate) fn data_dir(path: &std::path::Path, failure: &Failure) -> Self {
        Self(Reason::DataDir {
            path: path.to_owned(),
            why: chain(&**failure),
            is_in_use: failure.is::<InUse>(),
        })
    }

    pub(crate) fn not_on_disk(why: Arc<str>) -> Self {
        Self(Reason::NotOnDisk(why))
    }

    /// Returns whether another process uses the folder of the server's state.
    #[cfg(feature = "disk")]
    #[must_use]
    pub fn is_data_dir_in_use(&self) -> bool {
        matches!(&self.0, Reason::DataDir { is_in_use, .. } if *is_in_use)
    }

    /// Returns whether another program listens on the address.
    #[must_use]
    pub fn is_address_in_use(&self) -> bool {
        matches!(&self.0, Reason::Listen { source, .. }
            if source.kind() == std::io::ErrorKind::AddrInUse)
    }
}
