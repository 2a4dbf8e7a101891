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
use kinform_apiserver::{Server, parse_documents, shelf_name};
use serde_json::{Value, json};

use super::{TestError, TestServer, failed};

/// BOUND: 128 levels of YAML, each with up to 24 KB without optimization.
const STACK: usize = 16 << 20;

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
        objects.sort_by_key(rank);
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
        let (group, version_alone) = version.split_once('/').unwrap_or(("", version));
        let entries = self.server.registry().entries();
        let wanted = (group, version_alone, kind);
        let mut served = entries.iter();
        let served = served.find(|info| (&*info.group, &*info.version, &*info.kind) == wanted);
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
        let thread = std::thread::Builder::new().stack_size(STACK);
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
        if !document.value.is_null() {
            objects.extend(items(document.value));
        }
    }
    Ok(objects)
}

/// The items of a list, whose kind they have if they state none; or the object itself.
fn items(mut value: Value) -> Vec<Value> {
    let is_named = !text(&value, "/metadata/name").is_empty();
    let kind = text(&value, "/kind").strip_suffix("List");
    let kind = kind.filter(|_| !is_named).map(str::to_owned);
    let (Some(kind), Some(Value::Array(items))) = (kind, value.get_mut("items")) else {
        return vec![value];
    };
    let mut items = std::mem::take(items);
    for item in items.iter_mut().filter(|item| item.is_object()) {
        if !kind.is_empty() && item.get("kind").is_none() {
            item["kind"] = Value::from(kind.as_str());
            item["apiVersion"] = value["apiVersion"].clone();
        }
    }
    items
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_default()
}

/// Namespaces, definitions, everything else; last the judges of objects that come with them.
fn rank(object: &Value) -> u8 {
    match text(object, "/kind") {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        _ if text(object, "/apiVersion").starts_with("admissionregistration.k8s.io/") => 3,
        _ => 2,
    }
}
