//! Examples of queues and controllers.

use k8s_openapi::api::core::v1::ConfigMap;
use kinform_examples::finalizer::Bucket;
use kinform_examples::own_crd::Website;

use crate::ran;

#[tokio::test]
async fn work_queue_alone_works_on_each_key_once_and_retries_what_failed() {
    let ran = ran("work_queue_alone").await;
    ran.has_in_order(&["3 keys are ready", "drained, 0 left"]);
    ran.has_in_order(&[
        "flaky attempt 1: Retry",
        "flaky attempt 2: Retry",
        "flaky attempt 3: Forget",
    ]);
    for key in ["welcome", "urgent", "reminder"] {
        assert_eq!(ran.count(&format!("{key} attempt 1: Forget")), 1);
    }
    assert_eq!(ran.count(" attempt "), 6);
    assert!(ran.at("urgent attempt 1: Forget") < ran.at("welcome attempt 1: Forget"));
}

#[tokio::test]
async fn shared_informer_asks_once_for_two_controllers() {
    let ran = ran("shared_informer").await;
    for key in ["default/one", "default/two"] {
        assert!(ran.count(&format!("sizes: {key} has 1 entries")) >= 1);
        assert!(ran.count(&format!("labels: {key} has 0")) >= 1);
    }
    let journal = ran.api().server().journal();
    let asked = journal.count("list", "configmaps") + journal.count("watch", "configmaps");
    assert_eq!(asked, 1, "{:#?}", ran.lines);
}

#[tokio::test]
async fn own_crd_makes_the_page_again_and_reports_it() {
    let ran = ran("own_crd").await;
    let website: Website = ran.api().get("default/docs").await.unwrap().unwrap();
    let status = website.status.unwrap();
    assert_eq!(status.served.as_deref(), Some("Docs"));
    assert!(kinform::conditions::is_true(&status.conditions, "Ready"));
    let page: ConfigMap = ran.api().get("default/docs-page").await.unwrap().unwrap();
    assert_eq!(page.data.unwrap()["index.html"], "<h1>Docs</h1>");
    let owner = &page.metadata.owner_references.unwrap()[0];
    assert_eq!(Some(&owner.uid), website.metadata.uid.as_ref());
}

#[tokio::test]
async fn finalizer_cleans_up_before_the_object_goes() {
    let ran = ran("finalizer").await;
    ran.has_in_order(&[
        "default/photos created in eu-1",
        "> delete the bucket",
        "default/photos is not empty yet",
        "default/photos deleted in the cloud",
    ]);
    let gone = ran.api().get::<Bucket>("default/photos").await.unwrap();
    assert!(gone.is_none());
}
