//! The program as a process: its defaults, what it says about bad input, its exit code, and what it
//! leaves behind.
//!
//! ```text
//! flags, environment → sample-controller → one line on stderr, exit code; no Lease, no Secret
//! ```

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kinform_testkit::TestServer;
use kube::Api;
use kube::config::Kubeconfig;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// A generous limit of a wait: a test that meets it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and its kubeconfig in a directory that is removed at the end.
struct Stage {
    api: TestServer,
    kubeconfig: PathBuf,
    home: tempfile::TempDir,
}

impl Stage {
    async fn start() -> Self {
        let api = TestServer::start().await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let kubeconfig = home.path().join("kubeconfig");
        api.server().write_kubeconfig(&kubeconfig).unwrap();
        Self {
            api,
            kubeconfig,
            home,
        }
    }

    /// The program with these flags, and free ports where they name none.
    fn program(&self, flags: &[&str]) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_sample-controller"));
        for port in ["health-probe", "webhook"] {
            let flag = format!("--{port}-bind-address=");
            if !flags.iter().any(|given| given.starts_with(&flag)) {
                program.arg(flag + "127.0.0.1:0");
            }
        }
        program
            .args([
                "--leader-elect",
                "--leader-elect-resource-namespace=default",
            ])
            .args(flags)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .env("POD_NAMESPACE", "default")
            // Only the error that ends it.
            .env("RUST_LOG", "error")
            .env_remove("ENABLE_WEBHOOKS")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        program
    }

    /// Runs it to its end; checks that it says one line, which it returns, with this exit code, and
    /// that nothing is left behind.
    async fn refused(&self, mut program: Command, code: i32) -> String {
        let ended = tokio::time::timeout(PATIENCE, program.output()).await;
        let output = ended.expect("it ends by itself").unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(output.stdout.is_empty());
        let leases: Api<Lease> = Api::namespaced(self.api.client(), "default");
        let secrets: Api<Secret> = Api::namespaced(self.api.client(), "default");
        let all = Default::default();
        assert!(leases.list(&all).await.unwrap().items.is_empty(), "{told}");
        assert!(secrets.list(&all).await.unwrap().items.is_empty(), "{told}");
        told.trim_end().to_owned()
    }
}

#[tokio::test]
async fn a_flag_with_nonsense_is_one_line_and_exit_code_2() {
    let stage = Stage::start().await;
    for (flag, named) in [
        ("--leader-elect-lease-duration=15", "15s, 500ms or 1m30s"),
        ("--enable-webhooks=maybe", "--enable-webhooks"),
        ("--metrics-secure=perhaps", "--metrics-secure"),
        ("--kube-api-qps=-1", "--kube-api-qps"),
        ("--log-level=a=b=c", "--log-level"),
        ("--nosuch", "--nosuch"),
    ] {
        let told = stage.refused(stage.program(&[flag]), 2).await;
        assert!(told.contains(named), "{told}");
    }
    // A lease that two could hold at once.
    let told = stage
        .refused(stage.program(&["--leader-elect-lease-duration=3s"]), 2)
        .await;
    assert!(told.contains("lease"), "{told}");
    let mut by_environment = stage.program(&[]);
    by_environment.env("ENABLE_WEBHOOKS", "maybe");
    stage.refused(by_environment, 2).await;
}

#[tokio::test]
async fn a_port_in_use_is_named_with_its_flag_and_leaves_nothing_behind() {
    let stage = Stage::start().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for port in ["metrics", "health-probe", "webhook"] {
        let flag = format!("--{port}-bind-address");
        let program = stage.program(&[&format!("{flag}={address}")]);
        let told = stage.refused(program, 1).await;
        assert!(told.contains(&address) && told.contains(&flag), "{told}");
        assert!(told.contains("in use by another process"), "{told}");
    }
}

#[tokio::test]
async fn webhooks_outside_of_a_pod_name_what_is_missing() {
    let stage = Stage::start().await;
    let mut program = stage.program(&["--enable-webhooks"]);
    program.env_remove("POD_NAMESPACE");
    let told = stage.refused(program, 1).await;
    assert!(told.contains("ENABLE_WEBHOOKS=false"), "{told}");
    assert!(told.contains("set POD_NAMESPACE"), "{told}");
}

#[tokio::test]
async fn outside_of_a_pod_the_lease_is_in_the_kubeconfigs_namespace_and_no_webhooks_are_served() {
    let stage = Stage::start().await;
    let text = std::fs::read_to_string(&stage.kubeconfig).unwrap();
    let mut kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
    let context = kubeconfig.contexts[0].context.as_mut().unwrap();
    context.namespace = Some("kube-system".to_owned());
    let text = serde_json::to_string(&kubeconfig).unwrap();
    std::fs::write(&stage.kubeconfig, text).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_sample-controller"));
    let mut child = program
        .args(["--leader-elect", "--health-probe-bind-address=127.0.0.1:0"])
        .env("KUBECONFIG", &stage.kubeconfig)
        .env("HOME", stage.home.path())
        .env_remove("POD_NAMESPACE")
        .env_remove("ENABLE_WEBHOOKS")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let leads = async {
        let mut told = String::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            told = told + &line + "\n";
            if line.contains("leading lease=") {
                return told;
            }
        }
        panic!("it ended: {told}");
    };
    let told = tokio::time::timeout(PATIENCE, leads).await.unwrap();
    assert!(told.contains("kube-system/sample-controller"), "{told}");
    assert!(told.contains("serving probes"), "{told}");
    assert!(!told.contains("serving webhooks"), "{told}");
}

#[tokio::test]
async fn a_certificate_that_is_missing_or_does_not_fit_is_named() {
    let stage = Stage::start().await;
    let folder = stage.home.path().to_str().unwrap();
    let program = || stage.program(&[&format!("--webhook-cert-path={folder}")]);
    let told = stage.refused(program(), 1).await;
    assert!(
        told.contains(&format!("cannot read {folder}/tls.crt")),
        "{told}"
    );
    std::fs::write(stage.home.path().join("tls.crt"), "nonsense").unwrap();
    std::fs::write(stage.home.path().join("tls.key"), "nonsense").unwrap();
    let told = stage.refused(program(), 1).await;
    assert!(told.contains(&format!("{folder}/tls.crt: ")), "{told}");
}
