//! A test with faults: a controller that survives cut watches and an expired history.
//!
//! ```text
//! test ─▶ TestServer ⇄ operator;  cut_watches, expire_history, delete ─▶ until the state is right
//! ```
//!
//! Prints what it does. The function `a_page_comes_back` is the test: with `#[tokio::test(start_paused
//! = true)]` above it, its waits take no time. `tests/it/` of this package runs it like that.
//!
//! Upstream counterpart: `kubernetes-sigs/controller-runtime:pkg/envtest`, without faults.

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::CancellationToken;
use kinform_testkit::TestServer;

use crate::own_crd::{Website, WebsiteSpec, operator};
use crate::start::{Failure, Out};

/// A page comes back, although the operator's watches break and cannot be resumed.
pub async fn a_page_comes_back(out: Out) -> Result<(), Failure> {
    let api = TestServer::start().crd::<Website>().in_process().await?;
    let lines = out.clone();
    let operator = api.run(move |client| operator(client, lines, CancellationToken::new()));

    let title = "Docs".to_owned();
    api.create(&Website::new("docs", WebsiteSpec { title }))
        .await?;
    let first: ConfigMap = api.until("default/docs-page", |_| true).await?;

    // The operator cannot see the delete: its watch is over, and the history is lost.
    out.line("> cut watches, expire history, delete the page");
    api.expire_history();
    api.cut_watches();
    api.delete::<ConfigMap>("default/docs-page").await?;

    // It lists again, finds the page missing, and makes another one.
    let is_another = |page: &ConfigMap| page.metadata.uid != first.metadata.uid;
    api.until("default/docs-page", is_another).await?;
    let status_is_right = |website: &Website| {
        let status = website.status.clone().unwrap_or_default();
        status.served.as_deref() == Some("Docs")
    };
    api.until("default/docs", status_is_right).await?;
    out.line("the page is back");

    // An operator that leaves nothing behind ends without an error.
    operator.stop().await?;
    api.stop().await;
    Ok(())
}

/// Runs the test.
pub async fn run(out: Out) -> Result<(), Failure> {
    a_page_comes_back(out).await
}
