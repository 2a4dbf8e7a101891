//! The versions of a type as a chain, and the conversion of objects along it.
//!
//! ```text
//! object ─decode─▶ V1 ─up─▶ V2 ─up─▶ V3 ─encode─▶ object, with the metadata and the unknown fields
//!                    ◀─down─   ◀─down─            of the first
//! ```
//!
//! Neighbours convert into each other; farther versions are reached through those between. Functions
//! take and return whole objects. They have to be total and lossless, without defaults, validation
//! or look-ups: what they lose is lost for good, because objects are stored in one version only.
//!
//! Of metadata only labels and annotations can change, as a server would restore the rest. A field
//! that a type does not know goes to the same place of the other version.
//!
//! Never: a cache. A server calls before a first list of the type can succeed.
//!
//! Upstream counterpart: `controller-runtime:pkg/conversion`, `pkg/webhook/conversion`.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kube_core::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::{Error, UserError};
use super::refusal::without_values;
use super::unknown;

/// An object of one version.
type Typed = Box<dyn Any + Send>;
type Step = Box<dyn Fn(Typed) -> Result<Typed, String> + Send + Sync>;

/// The versions of a type, each with its conversions to and from the one before it.
///
/// `K` is the newest version so far.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::{ConfigMap as V1, Secret as V2};
/// # use kinform_operator::webhook::{Conversion, Error, Webhooks};
/// fn up(old: V1) -> Result<V2, Error> {
/// #   unimplemented!()
/// }
/// fn down(new: V2) -> Result<V1, Error> {
/// #   unimplemented!()
/// }
/// let webhooks = Webhooks::new().convert(Conversion::of::<V1>().then(up, down))?;
/// # Ok::<_, Error>(())
/// ```
#[must_use]
pub struct Conversion<K> {
    chain: Chain,
    newest: std::marker::PhantomData<fn() -> K>,
}

/// The same without types.
pub(super) struct Chain {
    pub(super) group: String,
    pub(super) kind: String,
    versions: Vec<Version>,
    /// The conversions between a version and the next.
    steps: Vec<(Step, Step)>,
}

struct Version {
    group: String,
    kind: String,
    api_version: String,
    decode: fn(&RawValue) -> Result<Decoded, String>,
    encode: fn(&Typed) -> Result<Value, String>,
}

/// An object, and the places of the fields that its type does not know.
struct Decoded {
    typed: Typed,
    unknown: Vec<unknown::Place>,
}

impl Conversion<()> {
    /// Begins with the oldest version.
    pub fn of<K>() -> Conversion<K>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Send + 'static,
    {
        Conversion {
            chain: Chain {
                group: K::group(&()).into_owned(),
                kind: K::kind(&()).into_owned(),
                versions: vec![Version::of::<K>()],
                steps: Vec::new(),
            },
            newest: std::marker::PhantomData,
        }
    }
}

impl<K: Send + 'static> Conversion<K> {
    /// Adds the next version, with its conversions from the one before and back.
    pub fn then<N, E, D>(
        mut self,
        up: impl Fn(K) -> Result<N, E> + Send + Sync + 'static,
        down: impl Fn(N) -> Result<K, D> + Send + Sync + 'static,
    ) -> Conversion<N>
    where
        N: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Send + 'static,
        E: Into<UserError>,
        D: Into<UserError>,
    {
        self.chain.versions.push(Version::of::<N>());
        self.chain.steps.push((step(up), step(down)));
        Conversion {
            chain: self.chain,
            newest: std::marker::PhantomData,
        }
    }

    /// Checks that it has at least two versions, of one group and kind, each once.
    pub(super) fn into_chain(self) -> Result<Arc<Chain>, Error> {
        let chain = self.chain;
        let name = format!("{}.{}", chain.kind, chain.group);
        if chain.versions.len() < 2 {
            return Err(Error::new(format!(
                "the conversion of {name} has one version"
            )));
        }
        for (at, version) in chain.versions.iter().enumerate() {
            if (&version.group, &version.kind) != (&chain.group, &chain.kind) {
                let other = format!("{}.{}", version.kind, version.group);
                return Err(Error::new(format!("{other} is no version of {name}")));
            }
            let is_same = |earlier: &Version| earlier.api_version == version.api_version;
            if chain.versions[..at].iter().any(is_same) {
                let line = format!("the conversion of {name} has {} twice", version.api_version);
                return Err(Error::new(line));
            }
        }
        Ok(Arc::new(chain))
    }
}

impl<K> fmt::Debug for Conversion<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let versions = self.chain.versions.iter();
        f.debug_list()
            .entries(versions.map(|version| &version.api_version))
            .finish()
    }
}

impl Version {
    fn of<K>() -> Self
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Send + 'static,
    {
        Self {
            group: K::group(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            api_version: K::api_version(&()).into_owned(),
            decode: decode::<K>,
            encode: encode::<K>,
        }
    }
}

fn decode<K: DeserializeOwned + Send + 'static>(text: &RawValue) -> Result<Decoded, String> {
    let (typed, unknown) = unknown::decode::<K>(text)
        .map_err(|error| format!("it cannot be decoded: {}", without_values(&error)))?;
    Ok(Decoded {
        typed: Box::new(typed),
        unknown,
    })
}

fn encode<K: Serialize + 'static>(typed: &Typed) -> Result<Value, String> {
    let typed: &K = typed
        .downcast_ref()
        .expect("steps lead to the version's type");
    serde_json::to_value(typed).map_err(|error| format!("it cannot be encoded: {error}"))
}

fn step<A: 'static, B: Send + 'static, E: Into<UserError>>(
    convert: impl Fn(A) -> Result<B, E> + Send + Sync + 'static,
) -> Step {
    Box::new(move |typed| {
        let typed: Box<A> = typed.downcast().expect("steps begin at the version's type");
        match convert(*typed) {
            Ok(converted) => Ok(Box::new(converted)),
            Err(error) => Err(error.into().to_string()),
        }
    })
}

impl Chain {
    fn position(&self, api_version: &str) -> Result<usize, String> {
        let mut versions = self.versions.iter();
        versions
            .position(|version| version.api_version == api_version)
            .ok_or_else(|| {
                let known = self
                    .versions
                    .iter()
                    .map(|version| version.api_version.as_str());
                let known = known.collect::<Vec<_>>().join(", ");
                format!("{} is converted between {known} only", self.kind)
            })
    }

    /// Converts one object to another version.
    pub(super) fn convert(
        &self,
        from: &str,
        desired: &str,
        text: &RawValue,
    ) -> Result<Value, String> {
        let original: Value = serde_json::from_str(text.get())
            .map_err(|error| format!("it cannot be decoded: {}", without_values(&error)))?;
        let (from, to) = (self.position(from)?, self.position(desired)?);
        if from == to {
            return Ok(original);
        }
        let Decoded { mut typed, unknown } = (self.versions[from].decode)(text)?;
        if from < to {
            for (up, _) in &self.steps[from..to] {
                typed = up(typed)?;
            }
        } else {
            for (_, down) in self.steps[to..from].iter().rev() {
                typed = down(typed)?;
            }
        }
        let mut converted = (self.versions[to].encode)(&typed)?;
        for place in &unknown {
            place.carry(&original, &mut converted);
        }
        self.finish(original, converted, desired)
    }

    /// Restores what a conversion may not change.
    fn finish(
        &self,
        mut original: Value,
        mut converted: Value,
        desired: &str,
    ) -> Result<Value, String> {
        let Value::Object(members) = &mut converted else {
            return Err("the converted object is no JSON object".to_owned());
        };
        let mut changed = members.remove("metadata").unwrap_or_default();
        let mut metadata = original["metadata"].take();
        if let Some(metadata) = metadata.as_object_mut() {
            for name in ["labels", "annotations"] {
                match changed.get_mut(name).map(Value::take) {
                    Some(value) if !value.is_null() => {
                        metadata.insert(name.to_owned(), value);
                    }
                    _ => {
                        metadata.remove(name);
                    }
                }
            }
        }
        members.insert("metadata".to_owned(), metadata);
        members.insert("apiVersion".to_owned(), desired.into());
        members.insert("kind".to_owned(), self.kind.as_str().into());
        Ok(converted)
    }
}
