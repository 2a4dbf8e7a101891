//! Manifests of a test: objects in YAML, created as `kubectl create -f` does, in an order that works.
//!
//! ```text
//! text ─▶ documents, items of lists ─▶ namespaces, definitions, the rest, admission ─▶ a POST each
//! ```
//!
//! A namespace that is only referred to is created, too.
//!
//! Upstream counterpart: `controller-runtime:pkg/envtest` (`CRDInstallOptions.Paths`,
//! `WebhookInstallOptions.Paths`), for these two kinds.

use kinform_api::{GroupVersionResource, Scope};
use kinform_apiserver::{
    MANIFEST_STACK, Server, creation_order, flatten_lists, parse_documents, shelf_name,
};
use serde_json::{Value, json};

use super::{TestError, TestServer, failed};

impl TestServer {
    /// Creates the objects of a text in YAML or JSON: documents, and the items of lists. Returns
    /// their number. Namespaces go first, then definitions, and webhooks and policies last; a
    /// namespace that an object is in is created. An object without a namespace is in `default`.
    ///
    /// # Errors
    /// The text is not YAML or has a key twice, the server has no such kind, or it refuses an object:
    /// one that is there, or one with a field that its type does not have. Objects before it stay.
    pub async fn load(&self, manifests: &str) -> Result<usize, TestError> {
        self.load_all(&[manifests.to_owned()]).await
    }

    /// Creates the objects of all texts, in one order.
    pub(super) async fn load_all(&self, manifests: &[String]) -> Result<usize, TestError> {
        let mut objects = Vec::new();
        for text in manifests {
            objects.extend(objects_of(text)?);
        }
        objects.sort_by_key(creation_order);
        for object in &objects {
            let what = format!(
                "create {} {}",
                text(object, "/kind"),
                text(object, "/metadata/name")
            );
            let path = self.path_of_object(object, &what).await?;
            let request = http::Request::post(format!("{path}?fieldValidation=Strict"));
            let _: Value = self
                .ask(&what, request, object.to_string().into_bytes())
                .await?;
        }
        Ok(objects.len())
    }

    /// The path of the object's collection, whose namespace exists.
    async fn path_of_object(&self, object: &Value, what: &str) -> Result<String, TestError> {
        let (version, kind) = (text(object, "/apiVersion"), text(object, "/kind"));
        let served = self.server.registry().of_kind(version, kind);
        let unknown = || TestError(format!("{what}: the server has no {kind} in {version:?}"));
        let served = served.ok_or_else(unknown)?;
        let namespace = match (served.scope, text(object, "/metadata/namespace")) {
            (Scope::Cluster, _) => None,
            (Scope::Namespaced, "") => Some("default"),
            (Scope::Namespaced, namespace) => Some(namespace),
        };
        if let Some(namespace) = namespace.filter(|name| !has_namespace(&self.server, name)) {
            let body = json!({"metadata": {"name": namespace}}).to_string();
            let request = http::Request::post("/api/v1/namespaces");
            let _: Value = self.ask(what, request, body.into_bytes()).await?;
        }
        let of = GroupVersionResource::new(&*served.group, &*served.version, &*served.plural);
        Ok(of.path(namespace))
    }
}

fn has_namespace(server: &Server, name: &str) -> bool {
    let shelf = server.store().shelf(&shelf_name("", "namespaces"));
    server.store().get(shelf, name).is_some()
}

/// The objects of a text. A thread of its own has the stack that the parser may need.
fn objects_of(manifests: &str) -> Result<Vec<Value>, TestError> {
    let parsed = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(MANIFEST_STACK);
        let parse = thread.spawn_scoped(scope, || parse_documents(manifests));
        parse.map(std::thread::ScopedJoinHandle::join)
    });
    let parsed = parsed.map_err(|error| failed("read manifests", &error))?;
    let parsed = parsed.map_err(|_| TestError("read manifests: the parser panicked".to_owned()))?;
    let documents = parsed.map_err(|error| match error.line {
        Some(line) => TestError(format!("read manifests: line {line}: {}", error.detail)),
        None => TestError(format!("read manifests: {}", error.detail)),
    })?;
    let mut objects = Vec::new();
    for document in documents {
        if let Some(doubled) = document.duplicate {
            return Err(failed("read manifests", &doubled));
        }
        objects.extend(flatten_lists(document.value));
    }
    match objects.iter().all(|object| object.get("kind").is_some()) {
        true => Ok(objects),
        false => Err(TestError(
            "read manifests: a document has no kind".to_owned(),
        )),
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}
