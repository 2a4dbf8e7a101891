//! The subjects that are compared: client-go, and kinform under either fifo policy.
//!
//! ```text
//! Stage ──start, add, remove, stop──▶ Subject ──▶ Ear
//! ```
//!
//! Both are used as users would: a client, a shared informer, handlers. kinform's delays after
//! failures are shortened, as its options allow; client-go's cannot be.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kinform::source::{ClientOptions, ResourceInfo, client_for};
use kinform::{
    BackoffPolicy, FifoPolicy, Handlers, Informer, InformerFactory, ReflectorOptions, Registration,
};
use kinform_api::{GroupVersionResource, Scope};
use kube_client::Config;
use kube_client::core::DynamicObject;
use serde_json::json;

use super::client_go::ClientGo;
use super::heard::{Ear, Event, Heard};
use super::history::State;

/// The error of a request to a subject.
pub(crate) type Failed = Box<dyn std::error::Error>;

/// A handler's wish for resyncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resyncs {
    Never,
    EachSecond,
}

/// One informer and its handlers.
#[derive(Debug)]
pub(crate) enum Subject {
    ClientGo {
        program: Arc<ClientGo>,
        history: u64,
        ear: Ear,
    },
    Kinform {
        factory: InformerFactory,
        informer: Informer<DynamicObject>,
        registrations: HashMap<usize, Registration>,
        ear: Ear,
    },
}

impl Subject {
    /// An informer of client-go on the server at `url`.
    pub(crate) fn client_go(program: Arc<ClientGo>, history: u64) -> Self {
        let ear = Ear::default();
        program.attach(history, ear.clone());
        Self::ClientGo {
            program,
            history,
            ear,
        }
    }

    /// An informer of kinform.
    ///
    /// # Errors
    /// There is no such address.
    pub(crate) fn kinform(url: &str, policy: FifoPolicy) -> Result<Self, Failed> {
        let config = Config::new(url.parse()?);
        let client = client_for(config, &ClientOptions::default().with_rate_limit(0, 0))?;
        let reflector = ReflectorOptions::new().with_backoff(BackoffPolicy {
            first: Duration::from_millis(20),
            cap: Duration::from_millis(200),
            ..BackoffPolicy::default()
        });
        let factory = InformerFactory::builder(client)
            .fifo(policy)
            .reflector(reflector)
            .build();
        let config_maps = GroupVersionResource::new("", "v1", "configmaps");
        let informer = factory
            .select::<DynamicObject>(ResourceInfo::new(
                config_maps,
                "ConfigMap",
                Scope::Namespaced,
            ))
            .build();
        Ok(Self::Kinform {
            factory,
            informer,
            registrations: HashMap::new(),
            ear: Ear::default(),
        })
    }

    pub(crate) fn ear(&self) -> &Ear {
        match self {
            Self::ClientGo { ear, .. } | Self::Kinform { ear, .. } => ear,
        }
    }

    /// Adds a handler.
    ///
    /// # Errors
    /// The subject is gone.
    pub(crate) async fn add(&mut self, handler: usize, resyncs: Resyncs) -> Result<(), Failed> {
        match self {
            Self::ClientGo { .. } => {
                let period = if resyncs == Resyncs::EachSecond {
                    1000
                } else {
                    0
                };
                let command = json!({"verb": "add", "handler": handler, "resyncMs": period});
                self.order(command).await
            }
            Self::Kinform {
                informer,
                registrations,
                ear,
                ..
            } => {
                let mut handlers = handlers(handler, ear);
                if resyncs == Resyncs::EachSecond {
                    handlers = handlers.resync_period(Duration::from_secs(1));
                }
                let registration = informer.add_handler(handlers)?;
                // A late handler has heard all stored objects when this returns, as with client-go.
                if informer.has_synced() {
                    registration.synced().await;
                }
                registrations.insert(handler, registration);
                Ok(())
            }
        }
    }

    /// Makes client-go's informer; kinform's exists already.
    ///
    /// # Errors
    /// The subject is gone.
    pub(crate) async fn make(&mut self, url: &str, resyncs: Resyncs) -> Result<(), Failed> {
        let Self::ClientGo { .. } = self else {
            return Ok(());
        };
        let period = if resyncs == Resyncs::EachSecond {
            1000
        } else {
            0
        };
        self.order(json!({"verb": "make", "server": url, "resyncMs": period}))
            .await
    }

    /// Begins to list and watch.
    ///
    /// # Errors
    /// The subject is gone.
    pub(crate) async fn start(&mut self) -> Result<(), Failed> {
        match self {
            Self::ClientGo { .. } => self.order(json!({"verb": "start"})).await,
            Self::Kinform { factory, .. } => Ok(factory.start()?),
        }
    }

    /// Removes a handler.
    ///
    /// # Errors
    /// The subject is gone.
    pub(crate) async fn remove(&mut self, handler: usize) -> Result<(), Failed> {
        match self {
            Self::ClientGo { .. } => {
                self.order(json!({"verb": "remove", "handler": handler}))
                    .await
            }
            Self::Kinform { registrations, .. } => {
                if let Some(registration) = registrations.remove(&handler) {
                    registration.remove().await;
                }
                Ok(())
            }
        }
    }

    /// Stops the informer and returns its store's objects.
    ///
    /// # Errors
    /// The subject is gone.
    pub(crate) async fn stop(&mut self) -> Result<BTreeMap<String, State>, Failed> {
        if let Self::ClientGo { .. } = self {
            self.order(json!({"verb": "stop"})).await?;
            return Ok(self
                .ear()
                .read(|notes| notes.stored.iter().cloned().collect()));
        }
        let Self::Kinform {
            factory, informer, ..
        } = self
        else {
            return Ok(BTreeMap::new());
        };
        factory.shutdown().await;
        Ok(informer.list().to_objs().iter().map(named).collect())
    }

    async fn order(&self, command: serde_json::Value) -> Result<(), Failed> {
        if let Self::ClientGo {
            program,
            history,
            ear,
        } = self
        {
            program.order(*history, ear, command).await?;
            if let Some(failure) = ear.read(|notes| notes.failures.first().cloned()) {
                return Err(failure.into());
            }
        }
        Ok(())
    }
}

type Object = kinform::Obj<DynamicObject>;

fn named(object: &Object) -> (String, State) {
    let state = State {
        uid: object.uid().to_owned(),
        version: object.resource_version().parse().unwrap_or(u64::MAX),
    };
    let namespace = object.namespace().unwrap_or_default();
    (format!("{namespace}/{}", object.name()), state)
}

fn handlers(id: usize, ear: &Ear) -> Handlers<DynamicObject> {
    let (added, updated, deleted) = (ear.clone(), ear.clone(), ear.clone());
    Handlers::new()
        .on_add(move |object| {
            let (key, state) = named(object);
            let heard = Heard::add(&key, &state);
            let initial = object.is_initial();
            added.hear(id, Heard { initial, ..heard });
        })
        .on_update(move |old, new| {
            let ((_, old), (key, state)) = (named(old), named(new));
            updated.hear(id, Heard::update(&key, &old, &state));
        })
        .on_delete(move |object| {
            let (key, state) = named(object);
            deleted.hear(
                id,
                Heard {
                    event: Event::Delete,
                    final_state_unknown: object.is_final_state_unknown(),
                    ..Heard::delete(&key, &state)
                },
            );
        })
}
