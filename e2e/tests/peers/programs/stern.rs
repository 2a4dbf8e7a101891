//! stern finds the pods of a Deployment, and reads their logs.

use kinform_e2e::fetched::{Fetched, Tool};

use super::{built, served};

const STERN: Fetched = Fetched {
    name: "stern",
    module: "github.com/stern/stern",
    version: "v1.34.0",
    package: ".",
};

#[test]
fn stern_finds_the_pods_of_a_deployment() {
    let Some(program) = built(&STERN) else { return };
    let (serve, kubectl) = served().unwrap();
    let commands = [
        "create deployment web --image=registry.example.com/web --replicas=3",
        "create deployment other --image=registry.example.com/other",
        "rollout status --timeout=60s deployment/web",
        "rollout status --timeout=60s deployment/other",
    ];
    for command in commands {
        kubectl.run(command, "").unwrap();
    }
    let stern = Tool::new(&program, serve.kubeconfig()).unwrap();
    let said = stern.ask("deployment/web --no-follow --color=never");
    let said = said.unwrap();
    assert!(said.is_success, "{}", said.err);
    let found: Vec<&str> = said
        .err
        .lines()
        .filter(|line| line.starts_with("+ "))
        .collect();
    assert_eq!(found.len(), 3, "{}", said.err);
    assert!(found.iter().all(|line| line.contains("web-")), "{found:?}");
    let version = STERN.version;
    println!("RESULT | stern {version} | embedded | 3 of 3 pods found |");
}
