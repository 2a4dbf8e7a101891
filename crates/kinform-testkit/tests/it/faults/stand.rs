//! A server, a network before it, an informer behind it, and what its handler heard.
//!
//! ```text
//! Writer ──▶ server ──▶ Link ──▶ Tamper ──▶ informer ──▶ EventChecker
//!    └─ truth ──────────────── recovers(bound) ────────────┘
//! ```
//!
//! The writer goes around the network. Everything is in one process under paused time, so a bound is
//! virtual time and exact.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use http::{Method, Request};
use k8s_openapi::api::core::v1::ConfigMap;
use kinform::env::Env;
use kinform::source::HttpSource;
use kinform::{
    Informer, InformerFactory, InformerState, InformerStats, Notification, ReflectorOptions,
    Registration, ReportEvent, Target, Transform,
};
use kinform_apiserver::{Builder, Fault, FaultRule, Record, Server};
use kinform_testkit::checks::event_checker::EventChecker;
use kinform_testkit::checks::stage::StageError;
use kinform_testkit::checks::writer::Writer;
use kinform_testkit::{Link, Loss, Network, ProxyMode};
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Cell, Tamper};

/// The result of a test, or of a step of it.
pub(crate) type Check = Result<(), StageError>;

/// The longest wait after a failure: 30 s, stretched by jitter to twice that.
pub(crate) const BACKOFF: Duration = Duration::from_secs(60);
/// A watch without an event or a bookmark is given up after this.
pub(crate) const SILENCE: Duration = Duration::from_secs(90);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// BOUND: events that the server remembers.
const HISTORY: usize = 200;

/// Fails with a message unless the condition holds.
pub(crate) fn check(holds: bool, what: impl FnOnce() -> String) -> Check {
    match holds {
        true => Ok(()),
        false => Err(what().into()),
    }
}

pub(crate) type Reported = Arc<Mutex<Vec<(Instant, ReportEvent)>>>;

/// The set-up of a stand.
pub(crate) struct Setup {
    cell: Cell,
    options: ReflectorOptions,
    transform: Option<Transform>,
    build: fn(Builder) -> Builder,
    tamper: Tamper,
}

/// Everything that a fault needs.
pub(crate) struct Stand {
    pub(crate) writer: Writer,
    pub(crate) factory: InformerFactory,
    pub(crate) informer: Informer<ConfigMap>,
    pub(crate) witness: EventChecker,
    pub(crate) reported: Reported,
    pub(crate) tamper: Tamper,
    link: Link,
    server: Option<Server>,
    build: fn(Builder) -> Builder,
    marks: u32,
    _registration: Registration,
}

impl Setup {
    pub(crate) fn of(cell: Cell) -> Self {
        Self {
            cell,
            options: cell.options(),
            transform: None,
            build: |builder| builder,
            tamper: Tamper::default(),
        }
    }

    pub(crate) fn options(
        mut self,
        change: impl FnOnce(ReflectorOptions) -> ReflectorOptions,
    ) -> Self {
        self.options = change(self.options);
        self
    }

    pub(crate) fn server(mut self, build: fn(Builder) -> Builder) -> Self {
        self.build = build;
        self
    }

    pub(crate) fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform);
        self
    }

    /// The server has some objects; the informer has not started.
    pub(crate) async fn prepare(self) -> Result<Stand, StageError> {
        let server = start(self.build);
        let link = Link::new(server.service(), 7);
        let mut writer = Writer::new(Link::new(server.service(), 7).client(), 7);
        writer.namespaces().await?;
        writer.write(25).await?;
        let (client, tamper, wire) = (link.client(), self.tamper.clone(), self.cell.wire);
        let factory = InformerFactory::with_sources(move |info, representation| {
            let source = HttpSource::new(client.clone(), info).with_wire(wire);
            let source = source.with_representation(representation);
            Arc::new(tamper.over(source)) as _
        });
        let factory = factory
            .fifo(self.cell.policy)
            .env(Env::seeded(7))
            .reflector(self.options)
            .build();
        let select = factory.select(Target::<ConfigMap>::new());
        let informer = match self.transform {
            Some(transform) => select.transform(transform).build(),
            None => select.build(),
        };
        let witness = EventChecker::new("the handler");
        let registration = informer.add_handler(witness.handlers())?;
        let reported = Reported::default();
        let (mut reports, kept) = (informer.reports(), Arc::clone(&reported));
        tokio::spawn(async move {
            while let Some(report) = reports.next().await {
                kept.lock().unwrap().push((Instant::now(), report.event));
            }
        });
        Ok(Stand {
            writer,
            factory,
            informer,
            witness,
            reported,
            tamper: self.tamper,
            link,
            server: Some(server),
            build: self.build,
            marks: 0,
            _registration: registration,
        })
    }

    /// The same, with an informer that has run for some seconds and has everything.
    pub(crate) async fn start(self) -> Result<Stand, StageError> {
        let mut stand = self.prepare().await?;
        stand.factory.start()?;
        stand.agrees(5 * SECOND).await?;
        // A watch that ends at once is a failure of its own.
        tokio::time::sleep(10 * SECOND).await;
        Ok(stand)
    }
}

fn start(build: fn(Builder) -> Builder) -> Server {
    build(Server::builder().plain().history(HISTORY)).in_process()
}

/// Waits until a handler and the cache of its informer have what the server has.
pub(crate) async fn agree(
    writer: &mut Writer,
    witness: &EventChecker,
    informer: &Informer<ConfigMap>,
    bound: Duration,
) -> Check {
    let truth = writer.truth().await?;
    witness.converged(&truth, bound).await?;
    let cache = EventChecker::new("the cache");
    for object in &informer.list() {
        cache.hear(&Notification::Added(object.to_obj().into()));
    }
    cache.converged(&truth, Duration::ZERO).await?;
    Ok(())
}

impl Stand {
    pub(crate) async fn start(cell: Cell) -> Result<Self, StageError> {
        Setup::of(cell).start().await
    }

    pub(crate) fn network(&self) -> &dyn Network {
        &self.link
    }

    pub(crate) fn server(&self) -> &Server {
        self.server
            .as_ref()
            .expect("it is gone during a restart only")
    }

    /// A client around the network.
    pub(crate) fn direct(&self) -> Client {
        Link::new(self.server().service(), 7).client()
    }

    /// Breaks all connections and refuses new ones.
    pub(crate) fn outage(&self) {
        self.network().set(ProxyMode::Refuse);
        self.network().cut();
    }

    /// Ends an outage or a stall.
    pub(crate) fn heal(&self) {
        self.network().set(ProxyMode::Pass);
        self.server().faults().clear();
    }

    /// The next requests of the informer of this verb meet a fault, and its watch breaks.
    pub(crate) fn meets(&self, fault: Fault, verb: &str, times: usize) {
        let rule = FaultRule::new(fault).on_verb(verb).times(times);
        self.server()
            .faults()
            .inject(rule.on_resource("configmaps"));
    }

    /// Stops the server and starts another in its place.
    pub(crate) async fn restart(&mut self, loss: Loss) -> Check {
        let server = self.server.take().ok_or("the server is gone")?;
        self.link.disconnect();
        let state = server.stop().await;
        let state = match loss {
            Loss::Nothing => state,
            Loss::History => state.without_history(),
            Loss::Everything => state.without_objects(),
        };
        let builder = (self.build)(Server::builder().plain().history(HISTORY));
        let server = builder.state(state).in_process();
        self.link.connect(server.service());
        self.server = Some(server);
        self.writer.through(self.direct());
        self.writer.namespaces().await?;
        Ok(())
    }

    /// Waits until handler and cache have what the server has; returns the time that it took.
    pub(crate) async fn agrees(&mut self, bound: Duration) -> Result<Duration, StageError> {
        let begin = Instant::now();
        agree(&mut self.writer, &self.witness, &self.informer, bound).await?;
        Ok(begin.elapsed())
    }

    /// The fault has ended: everything agrees within `bound`, and from then on at once.
    pub(crate) async fn recovers(&mut self, bound: Duration) -> Result<Duration, StageError> {
        let took = self.agrees(bound).await?;
        let synced = self.informer.state_when(InformerState::is_synced);
        let synced = tokio::time::timeout(bound.max(BACKOFF), synced).await;
        check(synced.is_ok(), || format!("{}", self.informer.state()))?;
        self.change(10).await?;
        self.agrees(SECOND).await?;
        check(self.stats().quarantined_now == 0, || {
            "quarantined".to_owned()
        })?;
        Ok(took)
    }

    /// Ends the informer, which leaves no task.
    pub(crate) async fn end(self) -> Check {
        self.witness.check()?;
        self.factory.shutdown().await;
        let tasks = self.factory.task_count();
        check(tasks == 0, || format!("{tasks} tasks are left"))
    }

    pub(crate) fn stats(&self) -> InformerStats {
        self.informer.stats()
    }

    /// Returns whether the cache has the test's own object of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        let keys = self.informer.list().keys();
        keys.iter().any(|key| key.name() == name)
    }

    /// The number of reports of this kind so far.
    pub(crate) fn reports(&self, is_meant: impl Fn(&ReportEvent) -> bool) -> usize {
        let reported = self.reported.lock().unwrap();
        reported.iter().filter(|(_, event)| is_meant(event)).count()
    }

    /// The reasons of failures so far.
    pub(crate) fn failures(&self) -> Vec<String> {
        let reported = self.reported.lock().unwrap();
        let reason = |(_, event): &(Instant, ReportEvent)| match event {
            ReportEvent::Failed(trouble) => Some(trouble.reason.clone()),
            _ => None,
        };
        reported.iter().filter_map(reason).collect()
    }

    /// Checks that the watch went on where it stopped: no list since the first.
    pub(crate) fn only_resumed(&self) -> Check {
        let stats = self.stats();
        check(stats.relists == 0 && stats.reopens > 0, || {
            format!("{stats:?}")
        })
    }

    /// Checks that there was one relist, for this reason.
    pub(crate) fn relisted(&self, reason: &str) -> Check {
        let reasons = self.stats().relist_reasons;
        check(reasons.get(reason) == Some(&1), || {
            format!("{reasons:?} in place of one relist: {reason}")
        })
    }

    /// The lists and watches of config maps that clients have sent so far.
    pub(crate) fn requests(&self) -> Vec<Record> {
        let records = self.server().journal().records();
        let is_meant = |record: &Record| {
            record.resource == "configmaps" && matches!(record.verb, "list" | "watch")
        };
        // The writer's own lists have no query.
        let mine = |record: &Record| is_meant(record) && !record.query.is_empty();
        records.into_iter().filter(mine).collect()
    }

    /// Writes at random, and then to an object that is different after each call.
    pub(crate) async fn change(&mut self, writes: usize) -> Check {
        self.writer.write(writes).await?;
        self.marks += 1;
        self.put("mark", self.marks).await
    }

    /// Creates or changes one object of the test's own.
    pub(crate) async fn put(&self, name: &str, number: u32) -> Check {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"number": number.to_string()}});
        let path = "/api/v1/namespaces/apple/configmaps";
        let created = self.send(Method::POST, path, &body).await?;
        match created {
            409 => {
                let code = self
                    .send(Method::PUT, &format!("{path}/{name}"), &body)
                    .await?;
                check(code == 200, || format!("PUT {name}: {code}"))
            }
            code => check(code == 201, || format!("POST {name}: {code}")),
        }
    }

    /// Creates an object of another type, so that the server's version moves on.
    pub(crate) async fn elsewhere(&self, number: u32) -> Check {
        let name = format!("elsewhere-{number}");
        let body = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        let path = "/api/v1/namespaces/apple/secrets";
        let code = self.send(Method::POST, path, &body).await?;
        check(code == 201, || format!("POST {name}: {code}"))
    }

    pub(crate) async fn delete(&self, path: &str) -> Check {
        let code = self.send(Method::DELETE, path, &Value::Null).await?;
        check(code == 200 || code == 202, || {
            format!("DELETE {path}: {code}")
        })
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<u16, StageError> {
        let bytes = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let reply = self.direct().send(request.body(Body::from(bytes))?).await?;
        Ok(reply.status().as_u16())
    }
}
