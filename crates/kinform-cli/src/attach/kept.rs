//! An object that a running program caches, found by the words of a command.
//!
//! ```text
//! TYPE/NAME, namespace ─▶ caches of that type ─search─▶ the one object ─▶ its view
//! ```
//!
//! The program is asked, no API server: a type has the names that the program knows (its plural, the
//! plural with its group, its kind), and no short ones.
//!
//! Upstream counterpart: none.

use kinform_operator::inspect::{Caches, ObjectView, Objects};

use super::{Attach, Trouble};
use crate::connect::split_name;
use crate::exit::Failure;

/// The place of an object in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) cache: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl Kept {
    /// Finds the object. Without a namespace, its name must be in one namespace only.
    ///
    /// # Errors
    /// The word names no object (exit code 2); the program has no such cache or object, or several.
    pub(crate) async fn find(
        attach: &Attach,
        word: &str,
        namespace: Option<&str>,
    ) -> Result<Self, Failure> {
        let (kind, name) = split_name(word);
        let Some(name) = name else {
            return Err(Failure::usage(format!("{word:?} is no TYPE/NAME")));
        };
        let caches: Caches = attach.view("caches", &[]).await?;
        let is_meant = |resource: &str, of: &str| {
            let plural = resource.split('.').next().unwrap_or_default();
            [resource, plural, of]
                .iter()
                .any(|known| known.eq_ignore_ascii_case(&kind))
        };
        let meant = caches.caches.iter();
        let meant: Vec<&str> = meant
            .filter(|row| is_meant(&row.resource, &row.kind))
            .map(|row| &*row.cache)
            .collect();
        if meant.is_empty() {
            let mut known: Vec<&str> = caches.caches.iter().map(|row| &*row.resource).collect();
            known.dedup();
            let message = format!("the program at {} caches no {kind:?}", attach.place());
            let hint = match known.is_empty() {
                true => "it caches nothing that you may list".to_owned(),
                false => format!("it caches {}", known.join(", ")),
            };
            return Err(Failure::new(message).with_hint(hint));
        }
        let mut found = Vec::new();
        for cache in meant {
            match namespace {
                Some(namespace) => found.push(Self {
                    cache: cache.to_owned(),
                    namespace: Some(namespace.to_owned()),
                    name: name.clone(),
                }),
                None => found.extend(Self::search(attach, cache, &name).await?),
            }
        }
        Self::only(found, &kind, &name)
    }

    /// The objects of exactly this name.
    async fn search(attach: &Attach, cache: &str, name: &str) -> Result<Vec<Self>, Failure> {
        let query = [("cache", cache), ("q", name)];
        let reply: Objects = attach.view("objects", &query).await?;
        let is_cut = reply.found > reply.objects.len() as u64;
        let rows = reply.objects.into_iter().filter(|row| row.name == name);
        let found: Vec<Self> = rows
            .map(|row| Self {
                cache: row.cache,
                namespace: row.namespace,
                name: row.name,
            })
            .collect();
        if is_cut && found.is_empty() {
            let message = format!("more than 200 objects have {name:?} in their names");
            return Err(Failure::new(message).with_hint("name the namespace: -n NAMESPACE"));
        }
        Ok(found)
    }

    fn only(mut found: Vec<Self>, kind: &str, name: &str) -> Result<Self, Failure> {
        let mut namespaces: Vec<&str> = found
            .iter()
            .filter_map(|kept| kept.namespace.as_deref())
            .collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        if namespaces.len() > 1 {
            let message = format!(
                "{kind} {name:?} is in the namespaces {}",
                namespaces.join(", ")
            );
            return Err(Failure::new(message).with_hint("choose one: -n NAMESPACE"));
        }
        // Of several caches of one type, the first has it as well.
        found.truncate(1);
        found.pop().ok_or_else(|| {
            let hint = "one that is gone is found by its namespace: -n NAMESPACE";
            Failure::new(format!("the program caches no {kind} {name:?}")).with_hint(hint)
        })
    }

    /// The program's view of the object. The first look makes it keep versions from then on.
    ///
    /// # Errors
    /// No reply that can be used, or there is no such object any more.
    pub(crate) async fn view(&self, attach: &Attach) -> Result<ObjectView, Failure> {
        let mut query = vec![("cache", &*self.cache), ("name", &*self.name)];
        query.extend(self.namespace.as_deref().map(|of| ("namespace", of)));
        let asked = attach.ask("object", &query).await;
        asked.map_err(|trouble| match trouble {
            Trouble::NotThere => {
                let Self { cache, name, .. } = self;
                let message = format!("the program knows nothing of {cache} {name:?}");
                Failure::new(message).with_hint("it is not cached, and was not reconciled lately")
            }
            trouble => attach.failure(&trouble),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_is_found_and_several_are_named() {
        let kept = |cache: &str, namespace: Option<&str>| Kept {
            cache: cache.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: "web".to_owned(),
        };
        let check = |found: &[Kept], expected: Result<&Kept, &str>| {
            let only = Kept::only(found.to_vec(), "pod", "web");
            let only = only.as_ref().map_err(|failure| failure.parts().0);
            assert_eq!(only, expected);
        };
        let (a, b) = (kept("pods", Some("a")), kept("pods", Some("b")));
        check(std::slice::from_ref(&a), Ok(&a));
        check(&[a.clone(), kept("pods #2", Some("a"))], Ok(&a));
        check(&[kept("nodes", None)], Ok(&kept("nodes", None)));
        check(&[a, b], Err("pod \"web\" is in the namespaces a, b"));
        check(&[], Err("the program caches no pod \"web\""));
    }
}
