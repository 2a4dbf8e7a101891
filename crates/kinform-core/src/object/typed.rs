//! An object as a type of the user's: decoded when asked, remembered by policy.
//!
//! ```text
//! Object + TypeMeta → typed::<K> → Arc<K> | DecodeError {key, path, reason}
//! ```
//!
//! The deserializer receives `apiVersion` and `kind`, which objects do not keep, first. JSON and
//! protobuf are read as they are, without an intermediate form. The first type asked for is
//! remembered; another type is decoded each time. A failure is always remembered: it is small, and
//! decoding again cannot mend it. Messages never hold values.
//!
//! Upstream: `runtime.Decoder`, run on every object at the door.

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kinform_api::{ObjectKey, TypeMeta};
use serde::de::DeserializeOwned;

use super::Object;
use crate::wire::json::path::path_to;
use crate::wire::json::reader;
use crate::wire::protobuf;
use crate::wire::type_meta::Mismatch;
use crate::wire::unreadable::OneLine;

/// The policy for remembering decoded values along with their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TypedCache {
    /// Decode each time; failures are remembered all the same.
    #[default]
    Never,
    /// Keep the value as long as the object, or until [`Object::forget_typed`].
    ///
    /// What is kept within a budget is kept by [`TypedBudget`](super::budget::TypedBudget).
    Always,
}

/// An object does not decode as the type that was asked for. Cheap to clone.
#[derive(Clone)]
pub struct DecodeError(Arc<Failure>);

struct Failure {
    key: ObjectKey,
    resource_version: String,
    wanted: String,
    path: String,
    reason: String,
    is_given_up: bool,
}

/// The reason of a reduced object.
const GIVEN_UP: &str = "only its metadata and declared fields are kept, to hold the memory budget; read it \
    from the server";

/// The place of an object's remembered typed value.
#[derive(Default)]
pub(super) struct TypedSlot(Mutex<Option<Box<Remembered>>>);

enum Remembered {
    Value {
        value: Arc<dyn Any + Send + Sync>,
        /// True if it was read since a budget last looked.
        was_read: bool,
    },
    Failure(TypeId, DecodeError),
}

impl Object {
    /// The object as a value of type `K`, with `apiVersion` and `kind` from `meta`.
    ///
    /// # Errors
    /// The content does not decode as `K`; the same error again for the same object and type.
    ///
    /// # Complexity
    /// A pointer's clone if remembered, else a full decode. Two readers at once may both decode;
    /// both then get the same value.
    pub fn typed<K>(&self, meta: &TypeMeta, cache: TypedCache) -> Result<Arc<K>, DecodeError>
    where
        K: DeserializeOwned + Any + Send + Sync,
    {
        if let Some(known) = self.recall::<K>() {
            return known;
        }
        let value = self.decoded::<K>(meta)?;
        match cache {
            TypedCache::Never => Ok(value),
            TypedCache::Always => self.remember(value),
        }
    }

    /// Decodes; a failure is remembered.
    pub(super) fn decoded<K>(&self, meta: &TypeMeta) -> Result<Arc<K>, DecodeError>
    where
        K: DeserializeOwned + Any,
    {
        let decoded = self.decode::<K>(meta);
        // Of a reduced object it is made anew: to remember it would take memory where there is none.
        if let Err(error) = &decoded
            && !error.is_given_up()
        {
            self.head().typed.remember_failure::<K>(error);
        }
        decoded
    }

    /// Returns whether a typed value is remembered.
    #[must_use]
    pub fn has_typed(&self) -> bool {
        matches!(
            self.head().typed.lock().as_deref(),
            Some(Remembered::Value { .. })
        )
    }

    /// Returns the remembered value or failure of this type, and marks it as read.
    pub(super) fn recall<K>(&self) -> Option<Result<Arc<K>, DecodeError>>
    where
        K: Any + Send + Sync,
    {
        self.head().typed.recall()
    }

    /// Returns whether the remembered value was read since the last call.
    pub(super) fn was_read(&self) -> bool {
        match self.head().typed.lock().as_deref_mut() {
            Some(Remembered::Value { was_read, .. }) => std::mem::take(was_read),
            _ => false,
        }
    }

    /// Remembers a value unless there is one; says which it is then.
    pub(super) fn remember<K>(&self, value: Arc<K>) -> Result<Arc<K>, DecodeError>
    where
        K: Any + Send + Sync,
    {
        self.head().typed.remember(value)
    }

    /// Gives up the remembered value, for a cache with a budget; true if there was one.
    pub fn forget_typed(&self) -> bool {
        let mut slot = self.head().typed.lock();
        let value = slot.take_if(|known| matches!(**known, Remembered::Value { .. }));
        drop(slot);
        // The value may be large: it is dropped here, outside the lock.
        value.is_some()
    }

    fn decode<K: DeserializeOwned>(&self, meta: &TypeMeta) -> Result<Arc<K>, DecodeError> {
        if self.is_reduced() {
            return Err(self.given_up(meta));
        }
        let object = self.thawed();
        let value = match object.message() {
            Some((of, bytes)) => protobuf::reader::read(of, bytes, meta, self.nulls()),
            None => reader::read(object.bytes(), meta),
        };
        match value {
            // At once to where it stays: types are large.
            Ok(value) => Ok(Arc::new(value)),
            Err(Mismatch) => self.decode_text(&object.to_json(meta), meta).map(Arc::new),
        }
    }

    #[cold]
    fn given_up(&self, meta: &TypeMeta) -> DecodeError {
        DecodeError(Arc::new(Failure {
            key: self.key(),
            resource_version: self.resource_version().to_owned(),
            wanted: format!("{} {}", meta.api_version, meta.kind),
            path: String::new(),
            reason: GIVEN_UP.to_owned(),
            is_given_up: true,
        }))
    }

    #[cold]
    fn decode_text<K: DeserializeOwned>(
        &self,
        json: &[u8],
        meta: &TypeMeta,
    ) -> Result<K, DecodeError> {
        // serde_json finds the place of what does not fit, so errors are the same in both
        // encodings. It reads a `str`, as kube-client does: a program that also requests `K` from
        // the server compiles this deserialization once.
        let json = String::from_utf8_lossy(json);
        serde_json::from_str(&json).map_err(|error| {
            DecodeError(Arc::new(Failure {
                key: self.key(),
                resource_version: self.resource_version().to_owned(),
                wanted: format!("{} {}", meta.api_version, meta.kind),
                path: path_to(json.as_bytes(), offset(json.as_bytes(), &error)),
                reason: reason(&error),
                is_given_up: false,
            }))
        })
    }
}

impl TypedSlot {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Box<Remembered>>> {
        // Only clones of counters happen under the lock, so poison means nothing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recall<K: Any + Send + Sync>(&self) -> Option<Result<Arc<K>, DecodeError>> {
        match self.lock().as_deref_mut()? {
            Remembered::Value { value, was_read } => {
                let value = Arc::clone(value).downcast::<K>().ok()?;
                *was_read = true;
                Some(Ok(value))
            }
            Remembered::Failure(of, error) if *of == TypeId::of::<K>() => Some(Err(error.clone())),
            Remembered::Failure(..) => None,
        }
    }

    /// Remembers the value unless another reader was first; gives the one that is remembered.
    fn remember<K: Any + Send + Sync>(&self, value: Arc<K>) -> Result<Arc<K>, DecodeError> {
        if let Some(known) = self.recall::<K>() {
            return known;
        }
        let mut slot = self.lock();
        if !matches!(slot.as_deref(), Some(Remembered::Value { .. })) {
            *slot = Some(Box::new(Remembered::Value {
                value: Arc::clone(&value) as _,
                was_read: true,
            }));
        }
        Ok(value)
    }

    fn remember_failure<K: Any>(&self, error: &DecodeError) {
        let mut slot = self.lock();
        if slot.is_none() {
            *slot = Some(Box::new(Remembered::Failure(
                TypeId::of::<K>(),
                error.clone(),
            )));
        }
    }
}

/// The object with `apiVersion` and `kind` first.
pub(super) fn with_type(bytes: &[u8], meta: &TypeMeta) -> Vec<u8> {
    let mut json = Vec::with_capacity(bytes.len() + meta.api_version.len() + meta.kind.len() + 32);
    json.extend_from_slice(b"{\"apiVersion\":");
    push_string(&mut json, &meta.api_version);
    json.extend_from_slice(b",\"kind\":");
    push_string(&mut json, &meta.kind);
    let inside = bytes.get(1..).unwrap_or(b"}");
    if inside.trim_ascii_start() != b"}" {
        json.push(b',');
    }
    json.extend_from_slice(inside);
    json
}

fn push_string(json: &mut Vec<u8>, text: &str) {
    if text
        .bytes()
        .any(|byte| byte == b'"' || byte == b'\\' || byte < 0x20)
    {
        json.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
    } else {
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
    }
}

/// The last byte that was read before the error.
fn offset(json: &[u8], error: &serde_json::Error) -> usize {
    let before = error.line().saturating_sub(1);
    let lines = json.split_inclusive(|&byte| byte == b'\n');
    let start: usize = lines.take(before).map(<[u8]>::len).sum();
    (start + error.column()).saturating_sub(1)
}

/// Returns the reason that serde reports, without the value it found, which may be a secret.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(text, _)| text);
    let found = [
        "invalid type: ",
        "invalid value: ",
        "invalid length ",
        "unknown variant `",
    ];
    if found.iter().any(|start| text.starts_with(start))
        && let Some((_, expected)) = text.rsplit_once(", expected ")
    {
        return format!("expected {expected}");
    }
    // The name in these is one of the type's fields, not of the object's.
    let named = ["missing field `", "duplicate field `"];
    if named.iter().any(|start| text.starts_with(start)) && text.len() < 200 {
        return text.to_owned();
    }
    match error.classify() {
        serde_json::error::Category::Data => "the value does not fit the type".to_owned(),
        _ => "the JSON is refused (too deep, or a number out of range)".to_owned(),
    }
}

impl DecodeError {
    /// The object's key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.0.key
    }

    /// The object's version.
    #[must_use]
    pub fn resource_version(&self) -> &str {
        &self.0.resource_version
    }

    /// Returns the path in the object, as `spec.containers[0].image`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the type's expectation there.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Returns whether the object [is reduced](Object::is_reduced): it may decode again later.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.0.is_given_up
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure {
            key,
            resource_version,
            wanted,
            path,
            reason,
            is_given_up: _,
        } = &*self.0;
        let (key, version) = (OneLine(key.as_str()), OneLine(resource_version));
        write!(
            f,
            "{key} at version {version} does not decode as {wanted}: "
        )?;
        if !path.is_empty() {
            write!(f, "{path}: ")?;
        }
        f.write_str(reason)
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DecodeError({self})")
    }
}

impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Pod, Secret};

    use super::*;
    use crate::object::projection::Projection;

    fn meta(kind: &str) -> TypeMeta {
        TypeMeta {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
        }
    }

    fn object(json: &str) -> Object {
        Object::from_json(json.as_bytes(), &Projection::new()).unwrap()
    }

    #[test]
    fn a_value_is_remembered_if_asked_and_can_be_forgotten() {
        let pod = object(r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}"#);
        let first = pod.typed::<Pod>(&meta("Pod"), TypedCache::Never).unwrap();
        assert!(!pod.has_typed());
        let second = pod.typed::<Pod>(&meta("Pod"), TypedCache::Always).unwrap();
        let third = pod.typed::<Pod>(&meta("Pod"), TypedCache::Never).unwrap();
        assert!(Arc::ptr_eq(&second, &third) && !Arc::ptr_eq(&first, &second));
        assert_eq!(first, second);
        let other = pod
            .typed::<serde_json::Value>(&meta("Pod"), TypedCache::Always)
            .unwrap();
        assert_eq!(
            (&other["kind"], &other["apiVersion"]),
            (&"Pod".into(), &"v1".into())
        );
        assert!(pod.has_typed() && pod.forget_typed() && !pod.has_typed() && !pod.forget_typed());
    }

    #[test]
    fn an_error_names_key_and_path_and_no_value() {
        let check = |json: &str, path: &str, reason: &str| {
            let object = object(json);
            let error = object
                .typed::<Pod>(&meta("Pod"), TypedCache::Never)
                .unwrap_err();
            assert_eq!((error.path(), error.reason()), (path, reason));
            assert!(!format!("{error} {error:?}").contains("s3cret"));
            let again = object
                .typed::<Pod>(&meta("Pod"), TypedCache::Never)
                .unwrap_err();
            assert!(Arc::ptr_eq(&error.0, &again.0));
        };
        check(
            r#"{"metadata":{"name":"a"},"spec":{"containers":[{"name":"b"},{"name":"c","tty":"s3cret"}]}}"#,
            "spec.containers[1].tty",
            "expected a boolean",
        );
        check(
            "{\"metadata\":{\"name\":\"a\"},\n\"spec\":{\"priority\":\n\"s3cret, expected s3cret\"\n}}",
            "spec.priority",
            "expected i32",
        );
        check(
            r#"{"metadata":{"name":"a","creationTimestamp":"s3cret"}}"#,
            "metadata.creationTimestamp",
            "the value does not fit the type",
        );
        check(
            r#"{"metadata":{"name":"a"},"spec":[1]}"#,
            "spec",
            "expected PodSpec",
        );
        let secret = object(
            r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"data":{"k":"?s3cret"}}"#,
        );
        let error = secret
            .typed::<Secret>(&meta("Secret"), TypedCache::Never)
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "n/a at version 7 does not decode as v1 Secret: data.k: the value does not fit the type"
        );
    }
}
