//! The page of the demo: an inspector over its factory and controllers.
//!
//! ```text
//! Pipeline ─▶ Inspector (127.0.0.1, a free port) ─▶ address ─▶ stderr, with --web a browser
//! ```

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use kinform_operator::Inspector;
use tokio::process::Command;

use super::pipeline::Pipeline;
use crate::exit::Failure;

/// BOUND: the time in which a browser's starter reports a failure; one that runs longer is a browser.
const STARTER: Duration = Duration::from_secs(2);

/// Serves the inspector of the demo.
pub(crate) async fn serve(pipeline: &Pipeline) -> Result<Inspector, Failure> {
    let mut builder = Inspector::builder().name("kinform demo").quiet();
    for replica in pipeline.replicas.all() {
        let name = format!("{}-{}", sample_controller::COMPONENT, replica.name);
        builder = builder.metrics(name, replica.workers, replica.metrics.clone());
    }
    for mistake in pipeline.mistakes.all() {
        builder = builder.controller(mistake.reconciler());
    }
    let served = builder.serve(&pipeline.factory).await;
    served.map_err(|error| Failure::new(error.to_string()))
}

/// Opens an address in a browser; returns whether one was started.
///
/// # Cancel safety
/// A browser that was started goes on.
pub(crate) async fn open(url: &str) -> bool {
    for program in starters(std::env::var_os("BROWSER")) {
        let started = Command::new(&program)
            .arg(url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut started) = started else {
            continue;
        };
        match tokio::time::timeout(STARTER, started.wait()).await {
            Ok(Ok(status)) if !status.success() => {}
            _ => return true,
        }
    }
    false
}

/// The programs that can open an address, the preferred one first.
fn starters(browser: Option<OsString>) -> Vec<OsString> {
    let browser = browser.unwrap_or_default();
    let browsers = browser.to_string_lossy();
    // BOUND: names of `$BROWSER` that are tried.
    let named = browsers.split(':').filter(|name| !name.is_empty()).take(4);
    let system = match cfg!(target_os = "macos") {
        true => "open",
        false => "xdg-open",
    };
    named.chain([system]).map(OsString::from).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_named_browser_comes_before_that_of_the_system() {
        let starters = |browser: &str| super::starters(Some(browser.into())).len();
        assert_eq!([starters(""), starters("w3m"), starters("a:b:")], [1, 2, 3]);
        assert_eq!(super::starters(Some("w3m".into()))[0], "w3m");
    }
}
