//! Going on from a snapshot: what shows that the server is the same, and what does not.

use super::*;

const SHOWN: &str = "
    resume 100 2 b@90 a@80 -> probe
    ok
    page 150 -> probe at 100
    ok
    item a@80
    page 100 token 1 -> probe at 100 metadata.name=b+metadata.namespace=n
    ok
    item b@90
    page 100 -> probe at 100 metadata.name=a+metadata.namespace=n
    ok
    item a@80
    page 100 -> short watch rv=100
    ok
";

fn shown() -> Bench {
    let mut bench = Bench::new(ReflectorConfig::default());
    bench.run(SHOWN);
    bench
}

#[test]
fn w3_a_store_goes_on_without_a_list_and_is_synced_at_the_servers_version() {
    let mut bench = shown();
    bench.run(
        "
        ? -> pending
        mod c@120 -> updated c@120
        ? -> pending
        mark 160 -> mark 160, caught up, resumed 100>160
        ? -> synced
        +3s
        ended -> watch rv=160
        ok -> reopened 160
        ",
    );
    assert_eq!(bench.machine.stats().resumed, 1);
    // An event is as good as a bookmark, also a deletion, and one that cannot be read.
    for (event, words) in [
        ("add c@150", "added c@150"),
        ("del b@151", "deleted b@151"),
        ("bad 155", "quarantined"),
    ] {
        let version = event.trim_start_matches(|c: char| !c.is_ascii_digit());
        let line = format!("{event} -> {words}, caught up, resumed 100>{version}");
        shown().run(&line).run("? -> synced");
    }
}

#[test]
fn nothing_that_happened_since_is_no_wait() {
    check(
        "
        resume 100 1 a@90 -> probe
        ok
        page 100 -> probe at 100
        ok
        item a@90
        page 100 -> probe at 100 metadata.name=a+metadata.namespace=n
        ok
        item a@90
        page 100 -> short watch rv=100
        ok -> caught up, resumed 100>100
        ? -> synced
        ",
    );
}

#[test]
fn w1_a_server_that_is_older_than_the_snapshot_is_listed() {
    check(
        "
        resume 100 1 a@90 -> probe
        ok
        page 99 -> relist server went back, stream rv=
        ok
        add a@70 -> begin, item a@70
        end-mark 99 -> epoch 100>99, went back, end 99
        ? -> synced
        ",
    );
}

#[test]
fn another_number_of_objects_is_another_history() {
    for (ours, answer) in [
        ("2", "page 100"),
        ("2", "page 100 token 2"),
        ("3", "page 100 token 1"),
    ] {
        check(&format!(
            "
            resume 100 {ours} a@90 -> probe
            ok
            page 150 -> probe at 100
            ok
            item a@90
            {answer} -> relist server went back, stream rv=
            "
        ));
    }
    // With a selector servers do not count; and what cannot be read is not counted here.
    for (ours, answer) in [("2", "page 100 token"), ("?", "page 100")] {
        check(&format!(
            "
            resume 100 {ours} a@90 -> probe
            ok
            page 150 -> probe at 100
            ok
            item a@90
            {answer} -> probe at 100 metadata.name=a+metadata.namespace=n
            "
        ));
    }
}

#[test]
fn w2_a_witness_in_another_state_or_none_is_another_history() {
    for found in ["item a@80", "item a@91", "item b@90", "bytes"] {
        check(&format!(
            "
            resume 100 1 a@90 -> probe
            ok
            page 150 -> probe at 100
            ok
            item a@90
            page 100 -> probe at 100 metadata.name=a+metadata.namespace=n
            ok
            {found}
            page 100 -> relist server went back, stream rv=
            "
        ));
    }
}

#[test]
fn a_version_that_expired_is_a_list() {
    shown().run(
        "
        error 410 -> close, relist expired, stream rv=100
        ok
        add a@170 -> begin, item a@170
        end-mark 180 -> end 180
        ? -> synced
        ",
    );
    check(
        "
        resume 100 1 a@90 -> probe
        ok
        page 150 -> probe at 100
        http 410 -> relist expired, stream rv=100
        ",
    );
}

#[test]
fn watches_that_do_not_reach_the_version_end_in_a_list() {
    shown().run(
        "
        add c@120 -> added c@120
        +3s
        ended -> short watch rv=120
        ok -> reopened 120
        +3s
        mark 130 -> mark 130
        ended -> short watch rv=130
        ok -> reopened 130
        +3s
        mark 140 -> mark 140
        ended -> relist snapshot not caught up, stream rv=
        ",
    );
    // A server that does not end them is not waited for, either.
    shown().run(
        "
        +6s -> silent, close, probe
        ok
        page 150 -> short watch rv=100
        ok -> reopened 100
        +6s -> silent, close, probe
        ok
        page 150 -> short watch rv=100
        ok -> reopened 100
        +6s -> silent, close, probe
        ok
        page 150 -> relist snapshot not caught up, stream rv=
        ",
    );
}

#[test]
fn questions_that_fail_are_asked_again_and_questions_that_are_refused_end_in_a_list() {
    check(
        "
        resume 100 1 a@90 -> probe
        refused -> retry connection refused
        wait -> probe
        http 429 -> retry too many requests
        wait -> probe
        ok
        page 150 -> probe at 100
        ok
        item a@90
        cut -> retry connection failed
        wait -> probe at 100
        ok
        item a@90
        page 100 -> probe at 100 metadata.name=a+metadata.namespace=n
        http 403 -> relist snapshot not proven, stream rv=
        ",
    );
}

#[test]
fn without_a_version_or_a_witness_everything_is_listed() {
    for line in ["resume x 1 a@1", "resume 0 1 a@1", "resume 100 0"] {
        check(&format!("{line} -> stream rv="));
    }
}

#[test]
fn a_selector_of_the_informer_stays_in_the_questions() {
    let field_selector = Some("spec.nodeName=n1".to_owned());
    Bench::new(ReflectorConfig {
        field_selector,
        ..ReflectorConfig::default()
    })
    .run(
        "
        resume 100 1 a@90 -> probe spec.nodeName=n1
        ok
        page 150 -> probe at 100 spec.nodeName=n1
        ok
        item a@90
        page 100 -> probe at 100 spec.nodeName=n1+metadata.name=a+metadata.namespace=n
        ",
    );
}

#[test]
fn questions_that_a_server_cannot_answer_end_in_a_list_and_one_that_is_away_is_waited_for() {
    check(
        "
        resume 100 1 a@90 -> probe
        http 503 -> retry server unavailable
        wait -> probe
        http 503 -> retry server unavailable
        wait -> probe
        http 503 -> relist snapshot not proven, stream rv=
        ",
    );
    let away = "refused -> retry connection refused\nwait -> probe\n".repeat(9);
    check(&format!("resume 100 1 a@90 -> probe\n{away}"));
}

#[test]
fn objects_of_a_type_that_is_gone_are_forgotten() {
    let retry = "http 404 -> retry not found\nwait -> stream rv=\n".repeat(5);
    check(&format!(
        "
        resume 100 1 a@90 -> probe
        http 404 -> relist snapshot not proven, stream rv=
        {retry}
        http 404 -> forget, retry not found
        ? -> no such kind
        "
    ));
}

#[test]
fn a_store_that_is_doubted_is_not_resumed_from_later() {
    let mut bench = shown();
    assert!(!bench.machine.may_resume_later());
    bench.run("mark 160 -> mark 160, caught up, resumed 100>160");
    assert!(bench.machine.may_resume_later());
    bench.run("add c@110 -> close, relist out of order, stream rv=160");
    assert!(!bench.machine.may_resume_later());
    bench.run(
        "
        ok
        add c@170 -> begin, item c@170
        end-mark 180 -> end 180
        ",
    );
    assert!(bench.machine.may_resume_later());
}
