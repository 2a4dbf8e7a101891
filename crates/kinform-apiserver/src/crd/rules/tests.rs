use std::time::Instant;

use serde_json::json;

use super::*;

fn run(rule: &str, schema: &Value, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut schema = schema.clone();
    schema["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let rules = Rules::of(&schema).unwrap();
    let said = rules.run(&schema, object, Before(old));
    said.errors.iter().map(ToString::to_string).collect()
}

fn schema() -> Value {
    let text = json!({"type": "string"});
    json!({"type": "object", "properties": {
        "text": text, "list": {"type": "array", "items": text},
        "numbers": {"type": "array", "items": {"type": "integer"}},
        "on": {"type": "boolean"}}})
}

#[test]
fn a_hostile_rule_ends_when_its_budget_is_spent() {
    let numbers: Vec<u32> = (0..2000).collect();
    let texts = vec!["x".repeat(1000); 2000];
    let object = json!({"numbers": numbers, "list": texts, "text": "a".repeat(100_000)});
    let started = Instant::now();
    for rule in [
        "self.numbers.all(a, self.numbers.all(b, self.numbers.all(c, a + b + c >= 0)))",
        "self.text.replace('a', self.text).replace('a', self.text) != ''",
        "self.list.all(a, self.list.all(b, a.contains(b)))",
        "lists.range(1000000000).size() > 0",
        "self.list.map(a, self.list.join(self.text)).size() > 0",
    ] {
        let errors = run(rule, &schema(), &object, None);
        assert_eq!(errors.len(), 1, "{rule}");
        assert!(
            errors[0].contains("cost limit exceeded"),
            "{rule}: {errors:?}"
        );
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

#[test]
fn a_rule_never_ends_the_server() {
    let object = json!({"text": "a", "on": true});
    let deep = format!("{}true{}", "(".repeat(5000), ")".repeat(5000));
    let long = format!("true{}", " && true".repeat(3000));
    let signs = format!("{}true", "!".repeat(5000));
    let chain = format!("self.text{} == ''", " + self.text".repeat(1500));
    for rule in [
        deep.as_str(),
        &long,
        &signs,
        &chain,
        "self.text.startsWith()",
        "self.text.replace()",
        "Foo{a: 1}.a == 1",
        "{1: 2}[3] == 4",
        "'\\",
        "self.list[",
        "",
        "type() == int",
        "math.greatest() == 1",
        "duration() == duration()",
    ] {
        let errors = run(rule, &schema(), &object, None);
        assert!(errors.len() <= 1, "{errors:?}");
    }
}

#[test]
fn a_rule_that_names_the_old_value_needs_one() {
    let (new, old) = (json!({"text": "b"}), json!({"text": "a"}));
    let rule = "self.text == oldSelf.text";
    assert_eq!(run(rule, &schema(), &new, None), Vec::<String>::new());
    let failed = ["<nil>: Invalid value: failed rule: self.text == oldSelf.text"];
    assert_eq!(run(rule, &schema(), &new, Some(&old)), failed);
    assert_eq!(run(rule, &schema(), &old, Some(&old)), Vec::<String>::new());
}
