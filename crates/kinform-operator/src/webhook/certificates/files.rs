//! A certificate and its key in two files, as a mounted Secret has them.
//!
//! ```text
//! FOLDER/tls.crt, FOLDER/tls.key ─▶ Pair, if they fit
//! ```
//!
//! Both are read at each look: a changed chain with an old leaf is noticed, too. A look between the
//! writes of the two files finds a pair that does not fit, and the next look one that does.
//!
//! Upstream counterpart: `controller-runtime:pkg/certwatcher/certwatcher.go`.

use std::path::{Path, PathBuf};

use super::Error;
use super::material::Pair;
use crate::settings::CertificateFiles;

/// BOUND: bytes of one file; a chain has a few KiB.
const MOST: u64 = 1 << 20;

pub(super) struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    pub(super) fn new(files: &CertificateFiles) -> Self {
        Self {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
        }
    }

    pub(super) fn of(folder: &Path) -> Self {
        Self {
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
        }
    }

    pub(super) fn certificate(&self) -> &Path {
        &self.certificate
    }

    pub(super) async fn read(&self) -> Result<Pair, Error> {
        let chain = read(&self.certificate).await?;
        let key = read(&self.key).await?;
        let pair = Pair::from_pem(&chain, &key);
        pair.map_err(|why| Error::new(format!("{}: {why}", self.certificate.display())))
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let path = path.to_owned();
    let read = move || {
        use std::io::Read;
        let failed =
            |error| Error::new(format!("cannot read {}", path.display())).with_cause(error);
        let file = std::fs::File::open(&path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.take(MOST + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > MOST {
            let line = format!("{} has more than {MOST} bytes", path.display());
            return Err(Error::new(line));
        }
        Ok(bytes)
    };
    let done = tokio::task::spawn_blocking(read).await;
    done.map_err(|error| Error::new("reading a file was cut off").with_cause(error))?
}
