//! Loops and fights of a controller: what its runs and the events tell the machine.
//!
//! ```text
//! noted writes, events, runs → Loops (machine) → Finding (`findings.rs` reports it)
//! ```
//!
//! Two states are compared only while a key is followed: this controller wrote for it twice within a
//! minute.
//!
//! Upstream counterpart: none.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use kinform_api::ObjectKey;
use kinform_core::causes::Origin;
use kinform_core::loops::difference::Difference;
use kinform_core::loops::{Change, Finding, Loops};
use kinform_core::object::Object;

use crate::env::Env;
use crate::sync::lock;

/// The machine, shared by writes, events and workers.
#[derive(Debug, Default)]
pub(super) struct Detector {
    machine: Mutex<Loops>,
    // Most controllers follow no key, and take no lock for an event then.
    follows_some: AtomicBool,
    // Most controllers have written for no key, and take no lock for a run then.
    knows_some: AtomicBool,
    env: Env,
}

impl Detector {
    /// A run of `key` stored something.
    pub(super) fn wrote(&self, key: &ObjectKey) {
        let mut machine = lock(&self.machine);
        machine.wrote(key, self.env.now());
        self.publish(&machine);
    }

    /// An event concerns `key`: compares the states if the key is followed.
    pub(super) fn updated(&self, key: &ObjectKey, source: u16, old: &Object, new: &Object) {
        if !self.follows_some() || !lock(&self.machine).follows(key) {
            return;
        }
        let Some(difference) = Difference::between(old, new) else {
            return;
        };
        let change = Change {
            source,
            object: new.key(),
            version: new.revision().unwrap_or_default(),
            origin: Origin::Unknown,
            difference,
        };
        lock(&self.machine).changed(key, change);
    }

    /// Returns whether some key is followed.
    pub(super) fn follows_some(&self) -> bool {
        self.follows_some.load(Ordering::Acquire)
    }

    /// A run of `key` begins. `writer` names the writers of changes.
    pub(super) fn began(
        &self,
        key: &ObjectKey,
        writer: impl Fn(&Change) -> Origin,
    ) -> Option<Finding> {
        if !self.knows_some.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.machine).began(key, writer)
    }

    /// A run of `key` ended, which own writes alone have caused, if `is_own`.
    pub(super) fn ended(
        &self,
        key: &ObjectKey,
        is_own: bool,
        writer: impl Fn(&Change) -> Origin,
    ) -> Option<Finding> {
        if !self.knows_some.load(Ordering::Acquire) {
            return None;
        }
        let mut machine = lock(&self.machine);
        let now = self.env.now();
        let found = machine.ended(key, is_own, now, writer);
        self.publish(&machine);
        found
    }

    fn publish(&self, machine: &Loops) {
        self.knows_some
            .store(!machine.is_empty(), Ordering::Release);
        self.follows_some
            .store(machine.follow_some(), Ordering::Release);
    }
}
