//! A bearer token in a file that others replace, such as a pod's service account.
//!
//! ```text
//! file ──read, again after 50 s──▶ Authorization: Bearer ..
//! ```
//!
//! White space around the token is not part of it. While the file cannot be read, the last token is
//! used: a file may be removed once the process has started.
//!
//! Upstream counterpart: `client-go:transport/token_source.go` (`fileTokenSource`,
//! `cachingTokenSource`).

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use kinform_core::time::Instant;

use super::kubeconfig::read_regular;
use crate::env::Env;
use crate::error::{Error, ErrorKind};

/// The age at which a token is read again: upstream's minute, less its ten seconds.
const MAX_AGE: Duration = Duration::from_secs(50);

/// BOUND: tokens are some kilobytes; a server reads heads of a megabyte at most.
const MAX_TOKEN_BYTES: u64 = 1 << 20;

/// A file and the token that it had.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    env: Env,
    current: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    /// Reads the token.
    ///
    /// # Errors
    /// The file cannot be read, or has no token.
    pub(super) fn new(path: impl AsRef<Path>, env: &Env) -> Result<Self, Error> {
        let path = path.as_ref().to_owned();
        let header = read(&path).map_err(|why| {
            let message = format!("token file {}: {why}", path.display());
            Error::new(ErrorKind::Config, message)
        })?;
        Ok(Self {
            path,
            env: env.clone(),
            current: Mutex::new((header, env.now())),
        })
    }

    /// The header of a request. Reads the file if the token is old.
    pub(super) fn header(&self) -> HeaderValue {
        let now = self.env.now();
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(current.1) >= MAX_AGE {
            match read(&self.path) {
                Ok(header) => current.0 = header,
                Err(why) => {
                    let path = self.path.display();
                    tracing::warn!(%path, why, "the last token is used: the file has none");
                }
            }
            current.1 = now;
        }
        current.0.clone()
    }
}

fn read(path: &Path) -> Result<HeaderValue, String> {
    let bytes = read_regular(path, MAX_TOKEN_BYTES).map_err(|error| error.to_string())?;
    let token = bytes.trim_ascii();
    if token.is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut header = HeaderValue::from_bytes(&[b"Bearer ", token].concat())
        .map_err(|_| "its text has characters that no header can have".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    // fault: F33
    #[tokio::test(start_paused = true)]
    async fn a_token_is_read_again_as_it_is_replaced() {
        let folder = std::env::temp_dir().join(format!("kinform-token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("token");
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        let env = Env::system();
        write("");
        let empty = TokenFile::new(&path, &env).unwrap_err();
        assert!(empty.to_string().ends_with("it is empty"), "{empty}");
        write(" one\n");
        let file = TokenFile::new(&path, &env).unwrap();
        write("two\r\n");
        assert_eq!(file.header(), "Bearer one");
        tokio::time::advance(MAX_AGE).await;
        assert_eq!(file.header(), "Bearer two");
        std::fs::remove_dir_all(&folder).unwrap();
        tokio::time::advance(MAX_AGE).await;
        assert_eq!(file.header(), "Bearer two");
        assert!(TokenFile::new(&path, &env).is_err());
    }
}
