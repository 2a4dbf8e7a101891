//! The informers of the operator: each encoding, kind of list and queue, with handlers on them.
//!
//! ```text
//! client ─▶ factory { json | protobuf } { stream | pages } { in order | coalescing } ─▶ View ─▶ handlers
//! ```

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kinform::source::Wire;
use kinform::{
    FactoryBuilder, FifoPolicy, Informer, InformerFactory, ReflectorOptions, Registration,
    RingLimits, StreamingList, Target,
};
use kinform_operator::Operator;
use kinform_testkit::checks::event_checker::EventChecker;
use kube_client::Client;
use kube_core::{DynamicObject, Resource};
use serde::de::DeserializeOwned;

use super::witness::{Manner, Witness};
use crate::Failure;

/// The period of the informers with a resync.
const RESYNC: Duration = Duration::from_secs(60);
/// BOUND: changes that the informers with a slow handler keep. With 2,048, what was kept grew to 8 MiB and
/// went, twice a minute: a slope of less than 2 % an hour could not be told from that in 45 minutes.
const FEW: usize = 256;
/// Items a page.
const PAGE: u32 = 500;

/// The paths of the lists that the caches are compared with.
const CONFIG_MAPS: &str = "/api/v1/configmaps";
const SECRETS: &str = "/api/v1/secrets";
const PODS: &str = "/api/v1/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";

/// An informer, the handlers that stay on it, and the list that it must equal.
pub(super) struct View {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) informer: Informer<DynamicObject>,
    pub(super) checkers: Vec<EventChecker>,
    pub(super) registrations: Vec<Registration>,
}

/// All informers that are observed, and the factories of those that the operator's own does not
/// have. Its own: protobuf, streams, in order.
pub(super) fn all(
    operator: &Operator,
    witness: &Arc<Witness>,
) -> Result<(Vec<InformerFactory>, Vec<View>), Failure> {
    use Manner::{Panicking, Plain, Slow};
    let own = operator.factory();
    let client = operator.unguarded();
    let json = builder(&client, StreamingList::Preferred)
        .wire(Wire::Json)
        .build();
    // Its slow handler falls behind every few seconds, and soon hears everything once there is peace.
    let few = RingLimits {
        changes: FEW,
        ..RingLimits::default()
    };
    let paged = builder(&client, StreamingList::Never)
        .wire(Wire::Json)
        .fifo(FifoPolicy::Coalescing)
        .ring_limits(few)
        .build();
    let protobuf = builder(&client, StreamingList::Never)
        .fifo(FifoPolicy::Coalescing)
        .resync_period(RESYNC)
        .build();
    let maps = |factory: &InformerFactory| informer::<ConfigMap>(factory);
    let views = [
        ("protobuf stream", CONFIG_MAPS, maps(own), &[Plain][..]),
        ("secrets", SECRETS, informer::<Secret>(own), &[Plain]),
        ("pods", PODS, informer::<Pod>(own), &[Plain]),
        (
            "deployments",
            DEPLOYMENTS,
            informer::<Deployment>(own),
            &[Plain],
        ),
        ("json stream", CONFIG_MAPS, maps(&json), &[Plain, Panicking]),
        ("json pages", CONFIG_MAPS, maps(&paged), &[Plain, Slow]),
        (
            "json pages of pods",
            PODS,
            informer::<Pod>(&paged),
            &[Plain],
        ),
        (
            "protobuf pages",
            CONFIG_MAPS,
            maps(&protobuf),
            &[Plain, Panicking],
        ),
    ];
    let views = views.map(|(name, path, informer, manners)| {
        let mut view = View {
            name,
            path,
            informer,
            checkers: Vec::new(),
            registrations: Vec::new(),
        };
        for manner in manners {
            let (checker, handlers) = witness.handlers(&format!("{name}, {manner:?}"), *manner);
            view.registrations
                .push(view.informer.add_handler(handlers)?);
            view.checkers.push(checker);
        }
        Ok(view)
    });
    let views: Result<_, Failure> = views.into_iter().collect();
    Ok((vec![json, paged, protobuf], views?))
}

fn builder(client: &Client, streaming: StreamingList) -> FactoryBuilder {
    let options = ReflectorOptions::new()
        .with_streaming_list(streaming)
        .with_page_size(PAGE);
    InformerFactory::builder(client.clone()).reflector(options)
}

fn informer<K>(factory: &InformerFactory) -> Informer<DynamicObject>
where
    K: Resource + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Default,
{
    factory.select(Target::<K>::new()).build().cast()
}
