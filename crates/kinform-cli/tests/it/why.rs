//! `why` and `diff --attach` at the inspector of a running program.
//!
//! ```text
//! kinform why │ diff (processes) ⇄ Inspector of a program with a controller (in the test)
//! ```

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kinform::{Action, Controller, Ctx, InformerFactory};
use kinform_operator::Inspector;
use kinform_testkit::TestServer;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::command::{kinform, outcome};
use crate::made::{CONFIG_MAPS, config_map, patch};

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

fn command(words: &[&str]) -> Command {
    let mut command = kinform(None, words);
    command.env_remove("KINFORM_TOKEN").env_remove("RUST_LOG");
    command
}

#[tokio::test]
async fn why_tells_causes_and_diff_the_versions_that_a_program_kept() {
    let server = TestServer::start().await.unwrap();
    config_map(server.server(), "web", json!({"k": "1"})).await;
    let factory = InformerFactory::new(server.client());
    let maps = factory.informer::<ConfigMap>();
    let (ran, mut runs) = tokio::sync::mpsc::unbounded_channel();
    let reconciler = Controller::of(&maps).named("mapper").reconciling(
        move |map: Arc<ConfigMap>, _: Ctx<()>| {
            let ran = ran.clone();
            async move {
                let _ = ran.send(map.metadata.name.clone().unwrap());
                Ok::<_, std::convert::Infallible>(Action::await_change())
            }
        },
    );
    let inspector = Inspector::builder()
        .name("shop")
        .quiet()
        .controller(&reconciler);
    let inspector = inspector.serve(&factory).await.unwrap();
    let running = tokio::spawn(async move { reconciler.run().await });
    factory.start().unwrap();
    factory.synced_within(PATIENCE).await.unwrap();
    while runs.recv().await.unwrap() != "web" {}
    let url = inspector.url().to_owned();

    // The first look: nothing differs yet.
    let look = command(&["diff", "configmaps/web", "--attach", &url]);
    let (code, stdout, stderr) = outcome(look).await;
    assert_eq!((code, &*stdout), (0, ""), "{stderr}");
    assert!(
        stderr.contains("keeps 1 versions of configmaps \"web\""),
        "{stderr}"
    );

    patch(
        server.server(),
        &format!("{CONFIG_MAPS}/web"),
        json!({"data": {"k": "2"}}),
    )
    .await;
    while runs.recv().await.unwrap() != "web" {}
    let look = || command(&["diff", "ConfigMap/web", "--attach", &url, "-o", "json"]);
    let (code, stdout, stderr) = outcome(look()).await;
    assert_eq!(code, 1, "{stderr}");
    let line: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&line["before"], &line["after"]),
        (&json!("\"1\""), &json!("\"2\"")),
        "{line}"
    );

    let why =
        |more: &[&str]| command(&[&["why", "configmaps/web", "--attach", &url], more].concat());
    let (code, stdout, stderr) = outcome(why(&[])).await;
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.starts_with("configmaps default/web: cached\n"),
        "{stdout}"
    );
    assert!(
        stdout.contains("mapper default/web succeeded after"),
        "{stdout}"
    );
    assert!(
        stdout.contains("since updated configmaps default/web @"),
        "{stdout}"
    );
    let (code, stdout, _) = outcome(why(&["-o", "json"])).await;
    let line: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &line["isStored"]), (0, &json!(true)));
    assert_eq!(
        line["runs"][0]["causes"]["causes"][0]["event"], "updated",
        "{line}"
    );

    // What is not there is one line with a remedy.
    let cases: [(&[&str], i32, &str); 4] = [
        (
            &["why", "configmaps/nobody"],
            1,
            "the program caches no configmaps \"nobody\"",
        ),
        (&["why", "pods/web"], 1, "caches no \"pods\""),
        (
            &["why", "configmaps/nobody", "-n", "default"],
            1,
            "knows nothing of configmaps",
        ),
        (&["why", "configmaps"], 2, "is no TYPE/NAME"),
    ];
    for (words, expected, message) in cases {
        let (code, _, stderr) = outcome(command(&[words, &["--attach", &url]].concat())).await;
        assert_eq!(code, expected, "{words:?}: {stderr}");
        assert!(stderr.contains(message), "{words:?}: {stderr}");
    }
    running.abort();
    inspector.stop().await;
    factory.shutdown().await;
    server.stop().await;
}
