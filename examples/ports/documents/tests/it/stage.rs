//! The stage of a test: a cluster, one column as a process, and questions to both.
//!
//! ```text
//! Stage::empty().with(column, pause) ─▶ create, hide, delete ─▶ until(..)
//! ```

use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use documents::{Document, DocumentSpec, DocumentStatus};
use harness::trace::Run;
use harness::{Cluster, Column, Page, Program, StageError, wait};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

/// The error of a test.
pub(crate) type Failed = StageError;

/// A cluster, and a program if one was started.
pub(crate) struct Stage {
    // Before the cluster: it ends first.
    program: Option<Program>,
    cluster: Cluster,
}

impl Stage {
    /// A pause between runs that no test lives to see.
    pub(crate) const LONG: Duration = Duration::from_secs(300);
    /// A pause that a test can wait for.
    pub(crate) const SHORT: Duration = Duration::from_secs(1);

    pub(crate) async fn start(column: Column) -> Result<Self, Failed> {
        Self::empty().await?.with(column, Self::LONG)
    }

    /// A cluster without a program.
    pub(crate) async fn empty() -> Result<Self, Failed> {
        let cluster = Cluster::start::<Document>().await?;
        Ok(Self {
            program: None,
            cluster,
        })
    }

    /// A cluster without the definition of documents.
    pub(crate) async fn bare() -> Result<Self, Failed> {
        let cluster = Cluster::start_bare().await?;
        Ok(Self {
            program: None,
            cluster,
        })
    }

    /// Starts a column with this pause between runs.
    pub(crate) fn with(mut self, column: Column, check_back: Duration) -> Result<Self, Failed> {
        let binary = Path::new(match column {
            Column::KubeRuntime => env!("CARGO_BIN_EXE_documents-kube-runtime"),
            Column::Kinform => env!("CARGO_BIN_EXE_documents-kinform"),
        });
        let (kubeconfig, home) = (self.cluster.kubeconfig(), self.cluster.home());
        self.program = Some(Program::start(
            column,
            binary,
            &kubeconfig,
            home,
            check_back,
            0,
        )?);
        Ok(self)
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(crate) async fn create(&self, name: &str, title: &str, hide: bool) -> Result<(), Failed> {
        let (title, content) = (title.to_owned(), "Some text.".to_owned());
        let document = Document::new(
            name,
            DocumentSpec {
                title,
                hide,
                content,
            },
        );
        self.cluster.server().create(&document).await?;
        Ok(())
    }

    pub(crate) async fn hide(&self, name: &str, hide: bool) -> Result<(), Failed> {
        let patch = json!({"spec": {"hide": hide}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.documents().patch(name, &params, &patch).await?;
        Ok(())
    }

    pub(crate) async fn write_status(&self, name: &str, hidden: bool) -> Result<(), Failed> {
        let patch = json!({"status": DocumentStatus { hidden }});
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        self.documents().patch_status(name, &params, &patch).await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, name: &str) -> Result<(), Failed> {
        self.documents()
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Waits until a document is in a state.
    pub(crate) async fn until(
        &self,
        name: &str,
        is_so: impl Fn(&Document) -> bool,
    ) -> Result<Document, Failed> {
        let look = || async {
            let found = self.documents().get_opt(name).await?;
            Ok(found.filter(|document| is_so(document)))
        };
        self.wait(name, look).await
    }

    pub(crate) async fn until_hidden(&self, name: &str, hidden: bool) -> Result<Document, Failed> {
        let is_so = |document: &Document| {
            document
                .status
                .as_ref()
                .is_some_and(|status| status.hidden == hidden)
        };
        self.until(name, is_so).await
    }

    pub(crate) async fn until_gone(&self, name: &str) -> Result<(), Failed> {
        let look = || async {
            let found = self.documents().get_opt(name).await?;
            Ok(found.is_none().then_some(()))
        };
        self.wait(&format!("{name} to go"), look).await
    }

    /// The events about a document.
    pub(crate) async fn events(&self, name: &str) -> Result<Vec<Event>, Failed> {
        let events: Api<Event> = Api::all(self.cluster.server().client());
        let of = format!("involvedObject.kind=Document,involvedObject.name={name}");
        Ok(events.list(&ListParams::default().fields(&of)).await?.items)
    }

    /// Waits for an event of this reason; all events of it about the document.
    pub(crate) async fn until_event(&self, name: &str, reason: &str) -> Result<Vec<Event>, Failed> {
        let look = || async {
            let mut events = self.events(name).await?;
            events.retain(|event| event.reason.as_deref() == Some(reason));
            Ok((!events.is_empty()).then_some(events))
        };
        self.wait(reason, look).await
    }

    /// The events about a document, once one is there that was asked for after all of them: a program
    /// may send them in the background, in their order.
    pub(crate) async fn all_events(&self, name: &str) -> Result<Vec<Event>, Failed> {
        self.create("the-last", "A title", true).await?;
        self.until_event("the-last", "HideRequested").await?;
        self.events(name).await
    }

    pub(crate) async fn page(&mut self, page: Page) -> Result<(u16, String), Failed> {
        self.program()?.get(page).await
    }

    /// Waits until a page has a line that begins so.
    pub(crate) async fn until_page(&mut self, page: Page, line: &str) -> Result<(), Failed> {
        self.program()?.until_page(page, line).await
    }

    /// The time of the last event, as the page tells it.
    pub(crate) async fn last_event(&mut self) -> Result<Timestamp, Failed> {
        let (code, text) = self.page(Page::Diagnostics).await?;
        assert_eq!(code, 200);
        let page: Value = serde_json::from_str(&text)?;
        assert_eq!(page["reporter"], "document-controller");
        Ok(page["last_event"].as_str().ok_or("no time")?.parse()?)
    }

    pub(crate) fn runs(&self) -> Vec<Run> {
        self.program.as_ref().map(Program::runs).unwrap_or_default()
    }

    /// Waits until the runs are so.
    pub(crate) async fn until_runs(
        &mut self,
        what: &str,
        are_so: impl Fn(&[Run]) -> bool,
    ) -> Result<(), Failed> {
        let look = || async { Ok(are_so(&self.runs()).then_some(())) };
        self.wait(what, look).await
    }

    pub(crate) fn log(&self) -> String {
        self.program.as_ref().map(Program::log).unwrap_or_default()
    }

    pub(crate) async fn stop(&mut self) -> Result<ExitStatus, Failed> {
        self.program()?.stop().await
    }

    pub(crate) async fn ended(&mut self) -> Result<ExitStatus, Failed> {
        self.program()?.ended().await
    }

    fn program(&mut self) -> Result<&mut Program, Failed> {
        self.program
            .as_mut()
            .ok_or_else(|| "no program was started".into())
    }

    fn documents(&self) -> Api<Document> {
        Api::namespaced(self.cluster.server().client(), "default")
    }

    /// Looks until there is something; fails with the log of the program.
    async fn wait<T, F: Future<Output = Result<Option<T>, Failed>>>(
        &self,
        what: &str,
        look: impl FnMut() -> F,
    ) -> Result<T, Failed> {
        wait::until(what, || self.log(), look).await
    }
}
