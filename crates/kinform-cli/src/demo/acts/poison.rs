//! Act 4: an object in the server's storage that no client can read.
//!
//! ```text
//! Foo, as any client makes it ─▶ its uid becomes a number in the storage ─▶ watch ─▶ quarantine
//!                                its uid is put back ─────────────────────▶ watch ─▶ cache
//! ```
//!
//! The fault is put into the storage, since the server would refuse it.

use kinform_apiserver::{Draft, Expect, shelf_name};
use kube_client::Api;
use kube_core::Resource;
use sample_controller::{Foo, FooSpec};
use serde_json::{Value, json};

use super::Scene;
use crate::demo::stage::ensure;
use crate::exit::Failure;

const NAMESPACE: &str = "default";
const NAME: &str = "act-poisoned";

/// The object's uid, while the act is on.
#[derive(Debug, Default)]
pub(super) struct Poison(Option<String>);

impl Poison {
    /// Makes the object, unless it is there, and poisons it.
    pub(super) async fn play(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        let foos = Api::<Foo>::namespaced((*scene.stage.client).clone(), NAMESPACE);
        let spec = FooSpec {
            deployment_name: format!("from-{NAME}"),
            replicas: Some(1),
        };
        ensure(&foos, &Foo::new(NAME, spec)).await?;
        let uid = change_uid(scene, json!(7))?;
        let uid = uid.as_str().map(str::to_owned);
        self.0 = Some(uid.ok_or_else(|| Failure::new(format!("{NAME} has no uid")))?);
        Ok(format!(
            "Foo {NAMESPACE}/{NAME} has a number as its uid in the server's storage"
        ))
    }

    /// The effect: the object is quarantined, with the path of its fault.
    pub(super) fn quarantined(&self, scene: Scene<'_>) -> Option<String> {
        let foos = scene.pipeline.informer("foos");
        let found = foos.quarantined(1).into_iter().next()?;
        Some(format!(
            "quarantined: {NAMESPACE}/{NAME}, {} {}; the cache goes on with the others",
            found.path, found.reason
        ))
    }

    /// Puts the uid back.
    pub(super) fn end(&mut self, scene: Scene<'_>) -> Result<String, Failure> {
        if let Some(uid) = self.0.take() {
            change_uid(scene, json!(uid))?;
        }
        Ok(format!("Foo {NAMESPACE}/{NAME} was mended"))
    }
}

/// Stores the object with another uid; returns the one that it had.
fn change_uid(scene: Scene<'_>, uid: Value) -> Result<Value, Failure> {
    let gone = || Failure::new(format!("Foo {NAMESPACE}/{NAME} is gone"));
    let store = scene.stage.server.store();
    let shelf = store.shelf(&shelf_name(&Foo::group(&()), &Foo::plural(&())));
    let key = format!("{NAMESPACE}/{NAME}");
    let mut object = store.get(shelf, &key).ok_or_else(gone)?.value();
    let member = object.pointer_mut("/metadata/uid").ok_or_else(gone)?;
    let former = std::mem::replace(member, uid);
    let draft = Draft::new(&[], object).ok_or_else(gone)?;
    // A client's write between the read and this one is overwritten.
    store
        .put(shelf, draft, Expect::Any)
        .map_err(|_| Failure::new(format!("Foo {key} cannot be stored")))?;
    Ok(former)
}
