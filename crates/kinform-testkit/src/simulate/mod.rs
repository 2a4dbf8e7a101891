//! Simulation of a controller: the same changes with and without faults must end alike.
//!
//! ```text
//! simulate(|sim| ..) ─▶ run without faults ─▶ the states after each change
//!                    └▶ runs with faults: crashes, stale caches, lost replies, .. ─▶ the same states?
//! ```
//!
//! [`simulate`] runs an operator, unmodified, against the embedded API server: on one thread, in
//! virtual time, without sockets. It first makes the user's changes without faults. Then it makes
//! them again, with faults that a seed decides (or one at a time: [`Simulation::exhaustive`]), and
//! compares. Without a line from the author of the test, these must hold:
//!
//! - After each change, the objects are those of the run without faults. Times, uids, generated
//!   names and versions may differ; leases and events are left out.
//! - No object was created or deleted more or less often.
//! - No write takes away a change that another client has made just before.
//! - After a step that brings the objects of the script back to what they were after an earlier
//!   step, all others are as they were then, too ([`Simulation::keeps_history`]): status, annotations,
//!   volume claims, jobs, revisions, pods of workloads and their addresses aside.
//! - Without faults, no reconcile of kinform's controllers fails again and again, while a write is
//!   refused as invalid each time. An error that is [`Permanent`](kinform::Permanent) is allowed.
//! - Once nobody changes anything, the operator comes to rest: it stops to write, to ask and to
//!   reconcile.
//! - It does not panic, does not end by itself, and its run has an end.
//!
//! [`Simulation::invariant`] and [`Simulation::in_the_end`] add what only the author knows, and
//! [`Simulation::stale_starts`] a fault that most operators do not survive.
//!
//! A failure is a story: what is wrong, which faults it took (those that it did not take are left
//! out), which write is to blame and what the operator had not seen at that time, and the line that
//! replays it.
//!
//! ```
//! use std::sync::Arc;
//! use k8s_openapi::api::core::v1::{ConfigMap, Secret};
//! use kinform::InformerFactory;
//! use kinform::controller::{Action, Controller, Ctx};
//! use kube_client::Client;
//! use serde_json::json;
//!
//! /// Each config map gets a secret of its name.
//! async fn reconcile(map: Arc<ConfigMap>, cx: Ctx<()>) -> Result<Action, kinform::Error> {
//!     let name = map.metadata.name.clone();
//!     let secret = Secret {
//!         metadata: kube_core::ObjectMeta { name, ..Default::default() },
//!         string_data: Some([("copied".to_owned(), "yes".to_owned())].into()),
//!         ..Secret::default()
//!     };
//!     cx.apply(&secret).await?;
//!     Ok(Action::await_change())
//! }
//!
//! async fn operator(client: Client) -> Result<(), kinform::Error> {
//!     let factory = InformerFactory::new(client);
//!     let maps = factory.informer::<ConfigMap>();
//!     let controller = Controller::of(&maps).owns(&factory.informer::<Secret>());
//!     factory.start()?;
//!     controller.run(reconcile).await
//! }
//!
//! # fn run() {
//! kinform_testkit::simulate(|sim| {
//!     let map = json!({"metadata": {"name": "a", "namespace": "default"}, "data": {"x": "1"}});
//!     sim.operator(operator)
//!         .create::<ConfigMap>(serde_json::from_value(map).unwrap())
//!         .delete::<Secret>("default/a")
//!         .patch::<ConfigMap>("default/a", json!({"data": {"x": "2"}}))
//!         .seeds(20);
//! });
//! # }
//! # run();
//! ```
//!
//! # Limits
//!
//! The wall clock is the real one: code that compares `Timestamp::now()` with times of objects sees
//! virtual hours pass in real milliseconds. A crash drops the operator's future and cuts its
//! network; tasks that it had spawned run on, but reach nothing. What is in a `static`, or was
//! captured by the closure that makes the operator, survives the crash and the run.
//!
//! Exact replay needs an operator whose order is a function of its seed: kinform's informers and
//! controllers are, kube-runtime's are not. Of the tasks that wait for one channel, tokio wakes some
//! before others by numbers of its own, so that a run may differ now and then; a test that is built
//! with `RUSTFLAGS="--cfg tokio_unstable"` draws these numbers from the seed, too.
//!
//! Upstream counterpart: none; the method is that of Sieve (OSDI 2022) and of Acto (SOSP 2023).

mod alarms;
mod asked;
mod cases;
mod census;
mod fields;
mod finding;
mod foreign;
mod hearing;
mod history;
mod hub;
mod left;
mod line;
mod picture;
mod plan;
mod process;
mod rest;
mod run;
mod scenario;
mod script;
mod seen;
mod spans;
mod stranger;
mod trace;
mod trouble;
mod wire;
mod words;
mod world;

use std::fmt;
use std::sync::Arc;

use futures::FutureExt;
use kinform_apiserver::Builder;
use kube_client::Client;
use kube_core::CustomResourceExt;
use serde_json::Value;

use self::alarms::Watchdog;
pub use self::cases::Summary;
use self::cases::Ways;
use self::picture::Lens;
use self::plan::Starts;
use self::process::Program;
use self::scenario::{Check, Scenario};
use self::script::Step;
pub use self::world::World;
use crate::server::TestObject;

/// The seeds of a simulation, unless it says otherwise.
const SEEDS: u64 = 200;

/// Runs a simulation, as described at [the module](self): in an ordinary `#[test]`, outside of any
/// runtime.
///
/// `KINFORM_SEED` runs only the seed or fault of that name, `KINFORM_SEEDS` another number of seeds.
///
/// # Panics
/// Something is wrong with the operator: the message is the story. The simulation has no operator,
/// or is inside of a tokio runtime.
///
/// If code of the operator blocks its thread for 10 s, the process ends with exit code 101.
pub fn simulate(describe: impl FnOnce(&mut Simulation)) -> Summary {
    match try_simulate(describe) {
        Ok(summary) => summary,
        Err(story) => panic!("{story}"),
    }
}

/// Runs a simulation as [`simulate`] does, and returns what is wrong instead of panicking.
///
/// # Errors
/// The story of the first thing that is wrong.
///
/// # Panics
/// The simulation has no operator, or is inside of a tokio runtime.
pub fn try_simulate(describe: impl FnOnce(&mut Simulation)) -> Result<Summary, String> {
    let mut simulation = Simulation::default();
    describe(&mut simulation);
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let watchdog = Watchdog::start(test.clone());
    let (scenario, ways) = simulation.scenario(&watchdog);
    let setting = |name: &str| std::env::var(name).ok();
    let seeds = setting("KINFORM_SEEDS").map(|seeds| {
        seeds
            .parse()
            .map_err(|_| format!("KINFORM_SEEDS={seeds} is not a number"))
    });
    let ways = Ways {
        seeds: seeds.transpose()?.unwrap_or(ways.seeds),
        ..ways
    };
    let only = setting("KINFORM_SEED");
    cases::check(&scenario, (ways, only.as_deref()), &test)
}

/// A simulation that is being described.
#[derive(Default)]
pub struct Simulation {
    definitions: Vec<Value>,
    changes: Vec<Box<dyn Fn(Builder) -> Builder>>,
    before: Vec<Step>,
    program: Option<Program>,
    replicas: Option<usize>,
    steps: Vec<Step>,
    invariants: Vec<(String, Check)>,
    in_the_end: Vec<(String, Check)>,
    lens: Lens,
    keeps_history: bool,
    starts: Starts,
    seeds: Option<u64>,
    is_exhaustive: bool,
    #[cfg(feature = "controllers")]
    controllers: Option<kinform_controlplane::Selection>,
}

impl fmt::Debug for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulation")
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

/// The cluster.
impl Simulation {
    /// Adds the definition of the custom resource `K`.
    pub fn crd<K: CustomResourceExt>(&mut self) -> &mut Self {
        let definition = serde_json::to_value(K::crd());
        self.definitions
            .push(definition.expect("a definition is plain data"));
        self
    }

    /// Adds an object that is there before the operator starts.
    pub fn exists<K: TestObject>(&mut self, object: K) -> &mut Self
    where
        K::DynamicType: Default,
    {
        self.before.push(words::create(object));
        self
    }

    /// Changes the server's set-up: admission, rights, limits. Called again at each restart.
    pub fn with(&mut self, change: impl Fn(Builder) -> Builder + 'static) -> &mut Self {
        self.changes.push(Box::new(change));
        self
    }

    /// Runs the built-in controllers, too: a Deployment gets pods, and they become ready. They meet
    /// no faults of their own.
    #[cfg(feature = "controllers")]
    pub fn with_controllers(&mut self) -> &mut Self {
        self.controllers = Some(kinform_controlplane::Selection::all());
        self
    }
}

/// The operator.
impl Simulation {
    /// Sets the operator: a function of a client, which runs until it is dropped. It is called again
    /// for each run and after each crash. If it returns in a run without faults, the simulation
    /// fails; in others it starts again, as a container does.
    pub fn operator<F>(
        &mut self,
        operator: impl Fn(Client) -> F + Send + Sync + 'static,
    ) -> &mut Self
    where
        F: Future + Send + 'static,
        F::Output: fmt::Debug,
    {
        let operator = Arc::new(operator);
        self.program = Some(Arc::new(move |client| {
            let operator = Arc::clone(&operator);
            async move { format!("{:?}", operator(client).await) }.boxed()
        }));
        self
    }

    /// Sets the number of copies of the operator that run at the same time; 1 by default.
    pub fn replicas(&mut self, replicas: usize) -> &mut Self {
        self.replicas = Some(replicas.max(1));
        self
    }
}

/// The changes of the user.
impl Simulation {
    /// Creates an object, in the namespace `default` if it needs one and states none. While an
    /// object of that name is being deleted, it waits.
    pub fn create<K: TestObject>(&mut self, object: K) -> &mut Self
    where
        K::DynamicType: Default,
    {
        self.steps.push(words::create(object));
        self
    }

    /// Changes the object of a key (`namespace/name`, or a name) by a JSON merge patch. While there
    /// is no such object, it waits.
    pub fn patch<K: TestObject>(&mut self, key: &str, patch: Value) -> &mut Self
    where
        K::DynamicType: Default,
    {
        self.steps.push(words::patch::<K>(key, None, patch));
        self
    }

    /// Changes the status of an object by a JSON merge patch of the whole object, as another
    /// controller does.
    pub fn patch_status<K: TestObject>(&mut self, key: &str, patch: Value) -> &mut Self
    where
        K::DynamicType: Default,
    {
        self.steps
            .push(words::patch::<K>(key, Some("status"), patch));
        self
    }

    /// Deletes the object of a key, and does not wait until it is gone. While there is no such
    /// object, it waits.
    pub fn delete<K: TestObject>(&mut self, key: &str) -> &mut Self
    where
        K::DynamicType: Default,
    {
        self.steps.push(words::delete::<K>(key));
        self
    }

    /// Creates an example of a custom resource, then changes each field of its `spec` that the
    /// schema describes to another valid value, removes it where that is allowed, and puts it back;
    /// deletes the object at the end. At most 40 changes.
    ///
    /// # Panics
    /// The example does not encode.
    pub fn every_field_of<K: TestObject + CustomResourceExt>(&mut self, example: K) -> &mut Self
    where
        K::DynamicType: Default,
    {
        self.steps.extend(words::every_field(example));
        self
    }

    /// Adds a change made by code. It is called again, each second for ten minutes, while it fails.
    pub fn step<F, E>(
        &mut self,
        name: &str,
        work: impl Fn(Client) -> F + Send + Sync + 'static,
    ) -> &mut Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: fmt::Display + 'static,
    {
        self.steps.push(words::step(name, work));
        self
    }
}

/// The conditions that must hold.
impl Simulation {
    /// Adds what must hold at any time: checked after each change on the server.
    pub fn invariant(
        &mut self,
        name: &str,
        holds: impl Fn(&World<'_>) -> Result<(), String> + 'static,
    ) -> &mut Self {
        self.invariants.push((name.to_owned(), Box::new(holds)));
        self
    }

    /// Adds what must hold when all changes and faults are over.
    pub fn in_the_end(
        &mut self,
        name: &str,
        holds: impl Fn(&World<'_>) -> Result<(), String> + 'static,
    ) -> &mut Self {
        self.in_the_end.push((name.to_owned(), Box::new(holds)));
        self
    }

    /// Does not compare objects of this kind.
    pub fn leave_out<K: TestObject>(&mut self) -> &mut Self
    where
        K::DynamicType: Default,
    {
        self.lens.left_out.insert(world::shelf_of::<K>());
        self
    }

    /// Does not compare this field of any object: `status.lastProbe`. A write that changes nothing else
    /// is no change: an operator may make it again and again, up to once a second.
    pub fn ignore(&mut self, path: &str) -> &mut Self {
        let path = path.split('.').map(str::to_owned).collect();
        self.lens.ignored.push(path);
        self
    }

    /// Does not compare this field of any object, which the operator draws once in the life of the
    /// object: `data.password`. A write that changes it is a failure.
    pub fn drawn_once(&mut self, path: &str) -> &mut Self {
        let names = path.split('.').map(str::to_owned).collect();
        self.lens.drawn.push(names);
        self.ignore(path)
    }

    /// Allows what the operator keeps of earlier states. Otherwise, a step that brings the objects
    /// of the script back to what they were after an earlier step must bring back all others, too,
    /// but for status, annotations, volume claims, jobs, replica sets, controller revisions, the pods
    /// of workloads and their endpoints. No step begins then before the one before is complete, so
    /// that no state is missed.
    ///
    /// A [`step`](Self::step), a [`patch_status`](Self::patch_status), or a patch of an object that the
    /// script has not created has an unknown effect: no later step is compared. An object of others
    /// that the script deletes is left out until the script has changed each of its own again.
    pub fn keeps_history(&mut self) -> &mut Self {
        self.keeps_history = true;
        self
    }
}

/// The runs.
impl Simulation {
    /// Sets the number of runs whose faults are drawn from seeds; 200 by default, none if
    /// [`exhaustive`](Self::exhaustive) is asked for. In a third of them steps follow each other at
    /// random, but a patch of an object that the script has not created waits until the steps before
    /// it are complete.
    pub fn seeds(&mut self, seeds: u64) -> &mut Self {
        self.seeds = Some(seeds);
        self
    }

    /// Tries each fault on its own: a crash before and after each write, each write refused, and
    /// overtaken by another client, a step that begins as soon as a write is answered, each read
    /// refused, each notification late, skipped, and unseen at a restart, and each object that the
    /// script deletes held by a finalizer of another client. That is up to five runs for each write,
    /// one for each read and each deletion, and three for each notification of a run without
    /// faults. No seeds are run then, unless [`seeds`](Self::seeds) asks for them, too: only they have
    /// lost answers, lags and outages, restarts of the server, and faults that meet each other.
    ///
    /// With [`keeps_history`](Self::keeps_history) no step begins sooner, and neither does a patch of
    /// an object that the script has not created. Deletions by [`step`](Self::step) are not held.
    pub fn exhaustive(&mut self) -> &mut Self {
        self.is_exhaustive = true;
        self
    }

    /// Lets a process that restarts see a state older than its predecessor saw, as a replica of the
    /// API server that is behind shows it. Otherwise it is shown all that was seen before, own
    /// creations aside.
    ///
    /// This is rare and real, and harsh: the process can be shown an object that is gone meanwhile,
    /// without its end. What it makes for that object outside of the garbage collector's reach then
    /// stays for ever, unless it asks the server first
    /// ([`Ctx::require_fresh`](kinform::controller::Ctx::require_fresh)). So does what it derives
    /// from an old status or spec, if only that object says that it is there.
    pub fn stale_starts(&mut self) -> &mut Self {
        self.starts = Starts::Past;
        self
    }

    fn scenario(self, watchdog: &Watchdog) -> (Scenario, Ways) {
        let program = self.program.expect("a simulation has an operator");
        let ways = Ways {
            seeds: self
                .seeds
                .unwrap_or(if self.is_exhaustive { 0 } else { SEEDS }),
            is_exhaustive: self.is_exhaustive,
        };
        let scenario = Scenario {
            foreign: foreign::foreign(&self.before, &self.steps),
            definitions: self.definitions,
            changes: self.changes,
            before: self.before,
            program,
            replicas: self.replicas.unwrap_or(1),
            steps: self.steps,
            invariants: self.invariants,
            in_the_end: self.in_the_end,
            lens: self.lens,
            keeps_history: self.keeps_history,
            starts: self.starts,
            progress: watchdog.progress(),
            #[cfg(feature = "controllers")]
            controllers: self.controllers,
        };
        (scenario, ways)
    }
}
