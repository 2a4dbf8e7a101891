//! The demo, which is the first command of the README.

use serde_json::Value;

use crate::command::{kinform, outcome};

#[tokio::test]
async fn the_demo_runs_survives_its_faults_and_agrees_with_its_server() {
    // The faults come at a third and at two thirds of the time. Writes go on until its end, so the
    // caches agree with the server only if the informers listed again.
    let words = ["--pods=100", "--churn=50", "--for=3s", "--output=json"];
    let mut command = kinform(None, &words);
    // A proxy is not for this host.
    command.env("HTTPS_PROXY", "http://127.0.0.1:1");
    command.env("HTTP_PROXY", "http://127.0.0.1:1");
    let (code, stdout, stderr) = outcome(command).await;
    assert_eq!(code, 0, "{stderr}");
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    let number = |name: &str| summary[name].as_f64().unwrap();
    assert!(number("pods") > 50.0 && number("objects") > number("pods"));
    assert!(number("handlerEvents") > number("objects"), "{summary}");
    assert!(number("reconciles") > 0.0, "{summary}");
    assert!(number("relists") > 0.0, "{summary}");
    for said in [
        "every watch was cut",
        "history expired",
        "every key of every cache agrees with the server",
    ] {
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
}
