//! helm installs, tests, upgrades, rolls back and uninstalls a chart.

use kinform_e2e::fetched::{Fetched, Tool};
use kinform_e2e::peers::Kubectl;
use serde_json::Value;

use super::{built, file, served};

const HELM: Fetched = Fetched {
    name: "helm",
    module: "helm.sh/helm/v4",
    version: "v4.3.1",
    package: "cmd/helm",
};
/// The objects of the chart with its label.
const OBJECTS: &str = "get serviceaccounts,roles,rolebindings,configmaps,deployments,services,\
                       poddisruptionbudgets,pencils.programs.example.com -n work -o name -l \
                       app.kubernetes.io/instance=pencil";

/// The default of its custom resource.
const COLOR: &str = "get pencils.programs.example.com pencil -n work -o jsonpath={.spec.color}";

/// The story's hands.
struct Story {
    helm: Tool,
    kubectl: Kubectl,
    chart: String,
    steps: usize,
}

impl Story {
    fn helm(&mut self, words: &str) -> String {
        self.steps += 1;
        self.helm.run(&self.words(words)).unwrap()
    }

    /// A command that fails; returns what it says.
    fn fails(&mut self, words: &str) -> String {
        self.steps += 1;
        let said = self.helm.ask(&self.words(words)).unwrap();
        assert!(!said.is_success, "{words}: {}", said.out);
        said.out + &said.err
    }

    fn words(&self, words: &str) -> String {
        words.replace("CHART", &self.chart) + " -n work"
    }

    fn kubectl(&self, words: &str) -> String {
        self.kubectl.run(words, "").unwrap()
    }

    /// The states of the release's revisions, and the last one's description.
    fn history(&mut self) -> (Vec<String>, String) {
        let history = self.helm("history pencil -o json");
        let history: Vec<Value> = serde_json::from_str(&history).unwrap();
        let text = |row: &Value, of: &str| row[of].as_str().unwrap_or_default().to_owned();
        let states = history.iter().map(|row| text(row, "status")).collect();
        let last = history.last().map(|row| text(row, "description"));
        (states, last.unwrap_or_default())
    }

    /// The ready replicas, and the note of the configuration.
    fn state(&self) -> (String, String) {
        (
            self.kubectl("get deployment pencil -n work -o jsonpath={.status.readyReplicas}"),
            self.kubectl("get configmap pencil -n work -o jsonpath={.data.note}"),
        )
    }

    #[track_caller]
    fn check(&mut self, states: &[&str], description: &str, ready: &str, note: &str) {
        let (found, last) = self.history();
        assert_eq!(found, states);
        assert!(last.starts_with(description), "{last}");
        assert_eq!(self.state(), (ready.to_owned(), note.to_owned()));
    }
}

#[test]
fn helm_installs_tests_upgrades_rolls_back_and_uninstalls() {
    let Some(program) = built(&HELM) else { return };
    let (serve, kubectl) = served().unwrap();
    let mut story = Story {
        helm: Tool::new(&program, serve.kubeconfig()).unwrap(),
        kubectl,
        chart: file("chart").display().to_string(),
        steps: 0,
    };
    let install = "install pencil CHART --create-namespace --wait --timeout 60s";
    let told = story.helm(install);
    assert!(told.contains("pencil writes in work."), "{told}");
    story.check(&["deployed"], "Install complete", "1", "first");
    // The chart is rendered with answers of the server.
    let asked = "get configmap pencil -n work -o jsonpath={.data.known},{.data.server}";
    assert!(story.kubectl(asked).starts_with("kube-system,v1."));
    assert_eq!(story.kubectl(OBJECTS).lines().count(), 8);
    assert_eq!(story.kubectl(COLOR), "black");
    // The job before the installation is gone, because it succeeded.
    assert_eq!(story.kubectl("get jobs -n work -o name"), "");

    let tested = story.helm("test pencil --timeout 60s");
    assert!(tested.contains("Succeeded"), "{tested}");
    let phase = "get pod pencil-answers -n work -o jsonpath={.status.phase}";
    assert_eq!(story.kubectl(phase), "Succeeded");

    let upgrade = "upgrade pencil CHART --wait --timeout 60s";
    story.helm(&format!("{upgrade} --set replicas=3,note=second"));
    story.check(
        &["superseded", "deployed"],
        "Upgrade complete",
        "3",
        "second",
    );

    let broken = "upgrade pencil CHART --wait --timeout 5s --set note=third,fail=ImagePullBackOff";
    let said = story.fails(broken);
    assert!(said.contains("not ready"), "{said}");
    let states = ["superseded", "deployed", "failed"];
    story.check(&states, "Upgrade \"pencil\" failed", "1", "third");

    story.helm("rollback pencil 2 --wait --timeout 60s");
    let states = ["superseded", "superseded", "failed", "deployed"];
    story.check(&states, "Rollback to 2", "3", "second");

    // One that repairs itself.
    story.fails(&format!("{broken} --rollback-on-failure"));
    let mut states = states.to_vec();
    states[3] = "superseded";
    states.extend(["failed", "deployed"]);
    story.check(&states, "Rollback to 4", "3", "second");

    story.helm(&format!("{upgrade} --set test.exitCode=1"));
    let said = story.fails("test pencil --timeout 60s");
    assert!(said.contains("Failed"), "{said}");
    assert_eq!(story.kubectl(phase), "Failed");

    story.helm("uninstall pencil --wait --timeout 60s");
    assert_eq!(story.kubectl(OBJECTS), "");
    assert_eq!(story.helm("list -o json").trim(), "[]");
    assert_eq!(story.kubectl("get secrets -n work -o name"), "");
    let (version, steps) = (HELM.version, story.steps);
    println!("RESULT | helm {version} | embedded | {steps} commands, ok |");
}
