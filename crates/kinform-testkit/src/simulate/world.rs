//! The objects of a simulated cluster, for what a user says must hold.
//!
//! ```text
//! Store ─▶ World::list::<K>(), get::<K>(key) ─▶ invariants after each write, expectations in the end
//! ```

use kinform_apiserver::{Store, Stored, shelf_name};

use crate::server::TestObject;

/// The objects of a simulated cluster, as the server has them at one moment.
#[derive(Debug)]
pub struct World<'a>(&'a Store);

impl<'a> World<'a> {
    pub(crate) fn new(store: &'a Store) -> Self {
        Self(store)
    }

    /// Returns all objects of a kind, in the order of their keys. A stored object that does not
    /// decode is left out.
    #[must_use]
    pub fn list<K: TestObject>(&self) -> Vec<K>
    where
        K::DynamicType: Default,
    {
        let shelf = shelf_of::<K>();
        if !self.0.shelves().iter().any(|known| **known == *shelf) {
            return Vec::new();
        }
        let view = self.0.view(self.0.shelf(&shelf));
        view.snapshot.iter().filter_map(|one| decode(one)).collect()
    }

    /// Returns the object of a key (`namespace/name`, or a name), or `None` if there is no such
    /// object.
    #[must_use]
    pub fn get<K: TestObject>(&self, key: &str) -> Option<K>
    where
        K::DynamicType: Default,
    {
        let shelf = shelf_of::<K>();
        let is_known = self.0.shelves().iter().any(|known| **known == *shelf);
        let found = is_known.then(|| self.0.get(self.0.shelf(&shelf), key))??;
        decode(&found)
    }
}

pub(super) fn shelf_of<K: TestObject>() -> String
where
    K::DynamicType: Default,
{
    let of = K::DynamicType::default();
    shelf_name(&K::group(&of), &K::plural(&of))
}

fn decode<K: TestObject>(stored: &Stored) -> Option<K>
where
    K::DynamicType: Default,
{
    let of = K::DynamicType::default();
    let mut value = stored.value();
    value["apiVersion"] = K::api_version(&of).into_owned().into();
    value["kind"] = K::kind(&of).into_owned().into();
    serde_json::from_value(value).ok()
}
