//! Each act, played against the demo's parts, until the inspector's JSON has its effect.
//!
//! ```text
//! Program (few pods, churn) → play → GET /debug/kinform/v1/.. until the fact is there → undone
//! ```

use std::time::{Duration, Instant};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube_client::Api;
use kube_client::api::PostParams;
use serde_json::{Value, json};

use super::acts::{Act, Acts, Notice};
use super::program::Program;
use crate::attach::Attach;

/// The time until a fact is in the JSON.
const DEADLINE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);

/// Acts, and what they have told since the last one was played.
struct Playing<'a> {
    acts: Acts<'a>,
    told: Vec<Notice>,
}

impl Playing<'_> {
    async fn play(&mut self, act: Act) -> Notice {
        self.told.clear();
        self.acts.play(act).await.unwrap()
    }

    async fn tell(&mut self) {
        self.told.extend(self.acts.tell().await.unwrap());
    }

    /// Waits until the effect of an act was told; returns its line.
    async fn told(&mut self, act: Act) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            self.tell().await;
            if let Some(notice) = self.told.iter().find(|notice| notice.act == act) {
                assert!(self.acts.is_shown(act));
                return notice.text.clone();
            }
            assert!(Instant::now() < deadline, "{act:?} shows nothing");
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// A view of the inspector.
async fn view(program: &Program, name: &str) -> Value {
    let attach = Attach::parse(program.url()).unwrap();
    attach.view(name, &[]).await.unwrap()
}

/// Waits until a view has the fact; returns it. Acts go on meanwhile.
async fn until<T>(
    program: &Program,
    acts: &mut Playing<'_>,
    name: &str,
    fact: impl Fn(&Value) -> Option<T>,
) -> T {
    wait(program, name, async || acts.tell().await, fact).await
}

/// The same; `meanwhile` runs after each look.
async fn wait<T>(
    program: &Program,
    name: &str,
    mut meanwhile: impl AsyncFnMut(),
    fact: impl Fn(&Value) -> Option<T>,
) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let json = view(program, name).await;
        if let Some(fact) = fact(&json) {
            return fact;
        }
        assert!(Instant::now() < deadline, "{name}: {json:#}");
        meanwhile().await;
        tokio::time::sleep(PAUSE).await;
    }
}

/// A program with churn, in the middle of its work.
async fn program() -> Program {
    Program::start(60, 200).await.unwrap()
}

/// A problem of this kind that has these words in its message.
fn problem(json: &Value, kind: &str, words: &[&str]) -> Option<Value> {
    let problems = json["problems"].as_array().unwrap();
    let is_it = |problem: &&Value| {
        let message = problem["message"].as_str().unwrap();
        problem["kind"] == kind && words.iter().all(|word| message.contains(word))
    };
    problems.iter().find(is_it).cloned()
}

fn cache<'j>(json: &'j Value, resource: &str) -> &'j Value {
    let caches = json["caches"].as_array().unwrap();
    caches
        .iter()
        .find(|cache| cache["resource"] == resource)
        .unwrap()
}

fn queue<'j>(json: &'j Value, controller: &str) -> &'j Value {
    let queues = json["queues"].as_array().unwrap();
    queues
        .iter()
        .find(|queue| queue["controller"] == controller)
        .unwrap()
}

macro_rules! act {
    ($(#[$attribute:meta])* async fn $name:ident($program:ident, $acts:ident) $body:block) => {
        $(#[$attribute])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let mut $program = program().await;
            {
                let mut $acts = Playing {
                    acts: Acts::new($program.scene()),
                    told: Vec::new(),
                };
                $body
                $acts.acts.undo().await;
            }
            let differences = $program.settle().await.unwrap();
            $program.end(&differences).await.unwrap();
        }
    };
}

act! {
    async fn a_cut_reopens_watches_and_lists_nothing(program, acts) {
        let lists = |json: &Value| cache(json, "pods")["lists"].as_u64();
        let before = lists(&view(&program, "caches").await);
        let notice = acts.play(Act::Cut).await;
        assert!(notice.text.contains("every watch was cut"), "{notice}");
        let after = until(&program, &mut acts, "caches", |json| {
            let pods = cache(json, "pods");
            (pods["reopens"].as_u64()? > 0).then(|| lists(json))
        });
        assert_eq!(after.await, before);
        let line = acts.told(Act::Cut).await;
        assert!(line.contains("went on") && line.ends_with("0 lists were made"), "{line}");
    }
}

act! {
    async fn an_expired_history_is_a_relist_with_its_reason(program, acts) {
        acts.play(Act::Expire).await;
        until(&program, &mut acts, "caches", |json| {
            let caches = json["caches"].as_array().unwrap();
            caches.iter().find_map(|cache| cache["relist_reasons"]["expired"].as_u64())
        })
        .await;
        let line = acts.told(Act::Expire).await;
        assert!(line.contains("nodes") && line.contains("listed again"), "{line}");
    }
}

act! {
    async fn a_cut_before_the_history_expires_is_not_told_with_its_lists(program, acts) {
        acts.acts.play(Act::Cut).await.unwrap();
        acts.acts.play(Act::Expire).await.unwrap();
        // The first look at the effects comes after both acts.
        wait(&program, "caches", async || {}, |json| {
            let caches = json["caches"].as_array().unwrap();
            caches.iter().find_map(|cache| cache["relist_reasons"]["expired"].as_u64())
        })
        .await;
        let line = acts.told(Act::Expire).await;
        assert!(line.contains("listed again"), "{line}");
        let line = acts.told(Act::Cut).await;
        assert!(line.ends_with("0 lists were made"), "{line}");
    }
}

act! {
    async fn a_slow_handler_lags_alone_and_goes_away(program, acts) {
        acts.play(Act::SlowHandler).await;
        let lag = |json: &Value, name: &str| {
            let handlers = cache(json, "pods")["handlers"].as_array().unwrap().clone();
            let is_it = |handler: &&Value| handler["name"] == name;
            handlers.iter().find(is_it).map(|handler| handler["lag"].as_u64().unwrap())
        };
        until(&program, &mut acts, "caches", |json| {
            let (slow, demo) = (lag(json, "act-slow-handler")?, lag(json, "demo-pods")?);
            (slow > 20 && demo < slow / 2).then_some(())
        })
        .await;
        acts.told(Act::SlowHandler).await;
        // The act would end after 20 s: nobody asks it to.
        wait(&program, "problems", async || {}, |json| {
            problem(json, "handler-behind", &["act-slow-handler"])
        })
        .await;
        // A second call ends it.
        acts.play(Act::SlowHandler).await;
        until(&program, &mut acts, "caches", |json| {
            lag(json, "act-slow-handler").is_none().then_some(())
        })
        .await;
    }
}

act! {
    async fn a_poisoned_object_is_quarantined_with_its_path_and_mended(program, acts) {
        acts.play(Act::Poison).await;
        let found = until(&program, &mut acts, "problems", |json| {
            problem(json, "quarantined", &["metadata.uid"])
        })
        .await;
        assert_eq!(found["name"], "act-poisoned");
        acts.play(Act::Poison).await;
        until(&program, &mut acts, "caches", |json| {
            (cache(json, "foos.samplecontroller.k8s.io")["quarantined"] == 0).then_some(())
        })
        .await;
    }
}

act! {
    async fn a_hot_loop_is_named_with_field_and_manager_each_time(program, acts) {
        for object in ["act-hot-loop-1", "act-hot-loop-2"] {
            acts.play(Act::HotLoop).await;
            until(&program, &mut acts, "problems", |json| {
                let found = problem(
                    json,
                    "loop",
                    &["status.conditions", "managers: act-hot-loop"],
                )?;
                let problems = json["problems"].as_array().unwrap();
                let of = |problem: &Value| problem["kind"] == "loop" && problem["name"] == object;
                problems.iter().any(of).then_some(found)
            })
            .await;
            acts.told(Act::HotLoop).await;
            acts.play(Act::HotLoop).await;
        }
        until(&program, &mut acts, "queues", |json| {
            let runs = queue(json, "act-hot-loop")["runs"]["total"].as_u64();
            (runs.unwrap() >= 20).then_some(())
        })
        .await;
    }
}

act! {
    async fn a_fight_is_named_with_field_and_both_managers(program, acts) {
        acts.play(Act::Fight).await;
        let words = ["spec.replicas", "act-fight", "autoscaler"];
        until(&program, &mut acts, "problems", |json| problem(json, "fight", &words)).await;
    }
}

act! {
    async fn without_the_webhook_reconciles_fail_and_with_it_they_pass(program, acts) {
        let notice = acts.play(Act::Webhook).await;
        assert!(notice.text.contains("was stopped"), "{notice}");
        let failing = |json: &Value| {
            let queues = json["queues"].as_array().unwrap();
            let failures = queues.iter().map(|queue| queue["failures"]["total"].as_u64().unwrap());
            (failures.sum::<u64>() > 0).then_some(())
        };
        until(&program, &mut acts, "queues", failing).await;
        until(&program, &mut acts, "problems", |json| problem(json, "failing", &["in a row"])).await;
        let line = acts.told(Act::Webhook).await;
        assert!(line.contains("failed calling webhook"), "{line}");
        let notice = acts.play(Act::Webhook).await;
        assert!(notice.text.contains("is back"), "{notice}");
        until(&program, &mut acts, "problems", |json| {
            problem(json, "failing", &[]).is_none().then_some(())
        })
        .await;
    }
}

act! {
    async fn a_webhook_whose_act_fails_is_removed(program, acts) {
        let client = (*program.stage.client).clone();
        let configurations = Api::<ValidatingWebhookConfiguration>::all(client);
        // Writes pass without the webhook, since this one is called for nothing.
        let idle = json!({"metadata": {"name": "act-webhook"}, "webhooks": []});
        let idle = serde_json::from_value(idle).unwrap();
        configurations.create(&PostParams::default(), &idle).await.unwrap();
        let failure = acts.acts.play(Act::Webhook).await.unwrap_err();
        assert!(failure.to_string().contains("passed without the webhook"), "{failure}");
        assert!(configurations.get_opt("act-webhook").await.unwrap().is_none());
        // It can be played again.
        let notice = acts.play(Act::Webhook).await;
        assert!(notice.text.contains("was stopped"), "{notice}");
        let started = Instant::now();
        acts.acts.undo().await;
        assert!(started.elapsed() < Duration::from_secs(5));
        assert!(acts.acts.begins(Act::Webhook));
        assert!(configurations.get_opt("act-webhook").await.unwrap().is_none());
    }
}

act! {
    async fn without_a_leader_the_act_that_kills_it_fails(program, acts) {
        let replicas = &program.pipeline.replicas;
        until(&program, &mut acts, "queues", |_| replicas.leader().map(drop)).await;
        let dead = replicas.leader().unwrap();
        dead.kill();
        let failure = acts.acts.play(Act::Leader).await.unwrap_err();
        assert!(failure.to_string().contains("no replica leads"), "{failure}");
        assert!(acts.acts.begins(Act::Leader) && !acts.acts.is_shown(Act::Leader));
        dead.revive();
    }
}

act! {
    async fn a_killed_leader_is_followed_and_no_key_is_reconciled_by_both_at_once(program, acts) {
        let runs = |json: &Value, name: &str| {
            queue(json, &format!("sample-controller-{name}"))["runs"]["total"].as_u64().unwrap()
        };
        let leader = until(&program, &mut acts, "queues", |json| {
            let names = ["replica-a", "replica-b"];
            names.into_iter().find(|name| runs(json, name) > 0)
        })
        .await;
        let standby = if leader == "replica-a" { "replica-b" } else { "replica-a" };
        assert_eq!(runs(&view(&program, "queues").await, standby), 0);
        acts.play(Act::Leader).await;
        let line = acts.told(Act::Leader).await;
        assert!(line.starts_with(standby) && line.contains("no key was reconciled by both"), "{line}");
        until(&program, &mut acts, "queues", |json| (runs(json, standby) > 0).then_some(())).await;
        // The dead one is back, and can be followed in its turn.
        until(&program, &mut acts, "queues", |_| {
            let replicas = program.pipeline.replicas.all();
            replicas.iter().all(|replica| !replica.is_dead()).then_some(())
        })
        .await;
        acts.play(Act::Leader).await;
        let line = acts.told(Act::Leader).await;
        assert!(line.starts_with(leader) && line.contains("no key was reconciled by both"), "{line}");
        // One that comes back within its term does not go on with it.
        until(&program, &mut acts, "queues", |_| {
            let replicas = &program.pipeline.replicas;
            replicas.all().iter().all(|replica| !replica.is_dead()).then_some(())
        })
        .await;
        acts.play(Act::Leader).await;
        acts.play(Act::Leader).await;
        let before = program.pipeline.work().reconciles;
        until(&program, &mut acts, "queues", |_| {
            (program.pipeline.work().reconciles > before).then_some(())
        })
        .await;
    }
}
