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

/// Returns a rule that doubles its value repeatedly.
fn doubled(twice: &str, times: usize) -> String {
    let again = format!(".map(a, {twice})").repeat(times);
    format!("dyn(['a']{again}) == dyn(['b'])")
}

#[test]
fn a_hostile_rule_ends_when_its_budget_is_spent() {
    let numbers: Vec<u32> = (0..2000).collect();
    let texts = vec!["x".repeat(1000); 2000];
    let object = json!({"numbers": numbers, "list": texts, "text": "a".repeat(100_000)});
    for rule in [
        "self.numbers.all(a, self.numbers.all(b, self.numbers.all(c, a + b + c >= 0)))",
        "self.text.replace('a', self.text).replace('a', self.text) != ''",
        "self.list.all(a, self.list.all(b, a.contains(b)))",
        "lists.range(1000000000).size() > 0",
        "self.list.map(a, self.list.join(self.text)).size() > 0",
        &doubled("a+a", 34),
        &doubled("'%s%s%s%s'.format([a,a,a,a])", 20),
        &doubled("[a,a]", 35),
        &doubled("[a]+[a]", 35),
        &doubled("{'a': a, 'b': a}", 35),
        "lists.range(300000).distinct().size() > 0",
        "sets.contains(lists.range(100000), lists.range(100000))",
        "lists.range(3000000).map(x, x).size() > 0",
        "lists.range(100000).filter(x, self.text == 'b').size() > 0",
        "lists.range(100000).all(x, self.numbers[0] == 0)",
        "lists.range(100000).all(x, !'a'.matches('a' + string(x)))",
    ] {
        let errors = run(rule, &schema(), &object, None);
        assert_eq!(errors.len(), 1, "{rule}");
        assert!(
            errors[0].contains("cost limit exceeded"),
            "{rule}: {errors:?}"
        );
    }
}

// cel-go: TestStrings, "size" of the standard library
#[test]
fn texts_have_the_size_and_the_parts_of_their_code_points() {
    let object = json!({"text": "é\u{1f980}", "list": ["a"]});
    for rule in [
        "size(self.text) == 2 && self.text.size() == 2 && size('') == 0",
        "size(bytes(self.text)) == 6 && size(self.list) == 1 && size({'a': 1}) == 1",
        "self.text.split('') == ['é', '\u{1f980}'] && ''.split('') == []",
        "'abc'.split('', 2) == ['a', 'bc'] && 'abc'.split('', 0) == [] && 'ab'.split('', -1) == ['a', 'b']",
        "'a,b,'.split(',') == ['a', 'b', ''] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "''.split(',') == [''] && 'a,b'.split(',', 0) == []",
    ] {
        let errors = run(rule, &schema(), &object, None);
        assert!(errors.is_empty(), "{rule}: {errors:?}");
    }
}

// kubernetes: CustomResourceValidationRules "exceeds the runtime cost limit"
#[test]
fn the_loops_of_one_rule_have_a_million_steps() {
    let nested = "self.numbers.all(x, self.numbers.all(y, y == x))";
    let ran = |length: usize, rules: usize| {
        let mut schema = schema();
        schema["x-kubernetes-validations"] = json!(vec![json!({"rule": nested}); rules]);
        let object = json!({"numbers": vec![20; length]});
        let said = Rules::of(&schema).unwrap();
        let said = said.run(&schema, &object, Before(None));
        said.errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(ran(300, 3), Vec::<String>::new());
    let costly = ran(725, 3);
    assert_eq!(costly.len(), 1, "{costly:?}");
    assert!(
        costly[0].contains("call cost exceeds limit for rule"),
        "{costly:?}"
    );
}

#[test]
fn a_rule_never_ends_the_server() {
    let object = json!({"text": "a", "on": true});
    let deep = format!("{}true{}", "(".repeat(5000), ")".repeat(5000));
    let long = format!("true{}", " && true".repeat(2000));
    let signs = format!("{}true", "!".repeat(5000));
    let chain = format!("self.text{} == ''", "+self.text".repeat(1600));
    let (sum, path) = (
        format!("{}1 == 1", "1+".repeat(8000)),
        "self".to_owned() + &".a".repeat(8000),
    );
    for rule in [
        deep.as_str(),
        &long,
        &signs,
        &chain,
        &sum,
        &path,
        "'%.1000000000f'.format([1.0]) == ''",
        "[9223372036854775807, 1].sum() < 0",
        "-self.numbers[0] < 0",
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

#[test]
fn a_sound_rule_is_not_too_costly() {
    let numbers: Vec<u32> = (0..4000).collect();
    let texts: Vec<String> = (0..4000).map(|n| format!("item-{n}")).collect();
    let object = json!({"numbers": numbers, "list": texts, "text": "ah".repeat(1000)});
    for rule in [
        "self.text.contains('h') && self.text.indexOf('h') == 1",
        "self.list.all(x, x.startsWith('item-') && x.matches('^item-[0-9]+$') && self.text != x)",
        "self.numbers.all(x, x >= 0 && x < 4000)",
        "self.numbers.filter(x, x > 10).size() == 3989",
        "self.list.map(x, x.size()).sum() > 0",
        "self.numbers.isSorted() && self.numbers.sum() == 7998000",
        "self.list.distinct().size() == 4000",
        "sets.contains(self.list, ['item-1', 'item-2'])",
        "'%d of %.2f'.format([1, 2.0]) == '1 of 2.00'",
    ] {
        assert_eq!(
            run(rule, &schema(), &object, None),
            Vec::<String>::new(),
            "{rule}"
        );
    }
}

#[test]
fn a_rule_reads_patterns_in_the_syntax_of_go() {
    let is_valid = |rule: &str, text: &str| {
        let errors = run(rule, &schema(), &json!({"text": text}), None);
        errors.is_empty()
    };
    for (pattern, text, expected) in [
        ("^[^[]*$", "ok", true),
        ("^[^[]*$", "a[", false),
        ("^[[:word:]]+$", "é", false),
        (r"^\\d+$", "٣", false),
        (r"^\\Qa.b\\E$", "a.b", true),
    ] {
        let rule = format!("self.text.matches('{pattern}')");
        assert_eq!(is_valid(&rule, text), expected, "{rule} {text}");
    }
    let found = r"self.text.findAll('\\w+') == ['a', 'b'] && self.text.find('[[:alpha:]]') == 'a'";
    assert!(is_valid(found, "a-é-b"));
    let errors = run(
        "self.text.matches(self.text)",
        &schema(),
        &json!({"text": "("}),
        None,
    );
    assert!(
        errors[0].contains("error parsing regexp: missing closing ): `(`"),
        "{errors:?}"
    );
}

#[test]
fn a_constant_pattern_that_is_invalid_is_a_mistake_of_the_rule() {
    let compiled = |rule: &str| Program::compile(rule, named(Type::Dynamic, Type::Dynamic));
    let error = compiled("self.name.matches( '(')").map(drop).unwrap_err();
    assert_eq!(
        error,
        "ERROR: <input>:1:20: invalid matches argument\n | self.name.matches( '(')\n \
         | ...................^"
    );
    assert!(compiled("self.name.matches('[^[]')").is_ok());
    assert!(compiled("self.name.matches(self.pattern)").is_ok());
}
