//! A place of the inspector: a view, and what it shows of it.
//!
//! ```text
//! key, command, Enter on a row ─▶ Place ─▶ view and query of a request, period, title
//! ```
//!
//! Upstream counterpart: the routes of the inspector's page (`kinform-operator/src/inspect/page.html`).

use std::time::Duration;

use crate::args::inspecting::VIEWS;

/// A view that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Pipeline,
    Caches,
    Queues {
        controller: Option<String>,
        /// A part of `namespace/name`.
        q: String,
    },
    Objects {
        cache: Option<String>,
        q: String,
    },
    Object {
        object: Named,
        form: Form,
    },
    Memory {
        cache: Option<String>,
    },
    Problems,
}

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) cache: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// The form of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Facts, versions with their differences, owners, reconciles.
    Facts,
    /// The same with the managers of fields, which are read from the API server once.
    Managers,
    /// The object itself.
    Yaml,
}

impl Place {
    /// The view of this number, from 0 on.
    pub(super) fn of_number(number: usize) -> Option<Self> {
        Some(match number {
            0 => Self::Pipeline,
            1 => Self::Caches,
            2 => Self::queues(None),
            3 => Self::objects(None),
            4 => Self::Memory { cache: None },
            5 => Self::Problems,
            _ => return None,
        })
    }

    /// The view of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::of_number(VIEWS.iter().position(|known| *known == name)?)
    }

    pub(super) fn queues(controller: Option<&str>) -> Self {
        Self::Queues {
            controller: controller.map(str::to_owned),
            q: String::new(),
        }
    }

    pub(super) fn objects(cache: Option<&str>) -> Self {
        Self::Objects {
            cache: cache.map(str::to_owned),
            q: String::new(),
        }
    }

    pub(super) fn object(cache: &str, namespace: Option<&str>, name: &str) -> Self {
        Self::Object {
            object: Named {
                cache: cache.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.to_owned(),
            },
            form: Form::Facts,
        }
    }

    /// The number of its view, from 0 on.
    pub(super) fn number(&self) -> usize {
        match self {
            Self::Pipeline => 0,
            Self::Caches => 1,
            Self::Queues { .. } => 2,
            Self::Objects { .. } | Self::Object { .. } => 3,
            Self::Memory { .. } => 4,
            Self::Problems => 5,
        }
    }

    /// The view that is asked for.
    pub(super) fn view(&self) -> &'static str {
        match self {
            Self::Object { .. } => "object",
            other => VIEWS[other.number()],
        }
    }

    /// The parameters of the request.
    pub(super) fn query(&self) -> Vec<(&'static str, &str)> {
        let pairs: Vec<(&'static str, Option<&str>)> = match self {
            Self::Pipeline | Self::Caches | Self::Problems => Vec::new(),
            Self::Queues { controller, q } => {
                vec![("controller", controller.as_deref()), ("q", Some(q))]
            }
            Self::Objects { cache, q } => vec![("cache", cache.as_deref()), ("q", Some(q))],
            Self::Memory { cache } => vec![("cache", cache.as_deref())],
            Self::Object { object, .. } => vec![
                ("cache", Some(&object.cache)),
                ("namespace", object.namespace.as_deref()),
                ("name", Some(&object.name)),
            ],
        };
        let filled = pairs
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        filled.filter(|(_, value)| !value.is_empty()).collect()
    }

    /// The time between two requests; `None` where a reply takes a walk over all objects.
    pub(super) fn period(&self) -> Option<Duration> {
        match self {
            Self::Objects { .. } | Self::Memory { .. } => None,
            Self::Object { .. } => Some(Duration::from_secs(2)),
            _ => Some(Duration::from_millis(500)),
        }
    }

    /// The text of its search, where the program answers that.
    pub(super) fn search(&mut self) -> Option<&mut String> {
        match self {
            Self::Objects { q, .. }
            | Self::Queues {
                controller: Some(_),
                q,
            } => Some(q),
            _ => None,
        }
    }

    /// Returns whether the reply of another place has what this one shows.
    pub(super) fn has_reply_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object { object, .. }, Self::Object { object: asked, .. }) => object == asked,
            _ => self == other,
        }
    }

    /// The view and what is shown of it, for the head line.
    pub(super) fn title(&self) -> String {
        let narrowed = |view: &str, to: Option<&String>, q: &str| {
            let to = to.map(|to| format!(" of {to}")).unwrap_or_default();
            let q = match q {
                "" => String::new(),
                q => format!(" with {q:?}"),
            };
            format!("{view}{to}{q}")
        };
        match self {
            Self::Pipeline => "pipeline".to_owned(),
            Self::Caches => "caches".to_owned(),
            Self::Problems => "problems".to_owned(),
            Self::Queues { controller, q } => narrowed("queues", controller.as_ref(), q),
            Self::Objects { cache, q } => narrowed("objects", cache.as_ref(), q),
            Self::Memory { cache } => narrowed("memory", cache.as_ref(), ""),
            Self::Object { object, .. } => {
                format!(
                    "{} of {}",
                    key(object.namespace.as_deref(), &object.name),
                    object.cache
                )
            }
        }
    }
}

/// A name with its namespace.
pub(super) fn key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_asks_for_its_view() {
        let object = Place::object("pods", Some("a"), "b");
        for (place, view, query) in [
            (Place::Pipeline, "pipeline", vec![]),
            (Place::queues(None), "queues", vec![]),
            (
                Place::queues(Some("c")),
                "queues",
                vec![("controller", "c")],
            ),
            (
                Place::objects(Some("pods")),
                "objects",
                vec![("cache", "pods")],
            ),
            (
                object,
                "object",
                vec![("cache", "pods"), ("namespace", "a"), ("name", "b")],
            ),
            (Place::Memory { cache: None }, "memory", vec![]),
        ] {
            assert_eq!((place.view(), place.query()), (view, query), "{place:?}");
        }
        for (number, name) in VIEWS.iter().enumerate() {
            let place = Place::of_name(name).unwrap();
            assert_eq!((place.number(), place.view()), (number, *name));
        }
        assert_eq!(Place::of_number(6), None);
    }
}
