//! Tables and properties of the budget.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn whole(bytes: u64) -> Load {
    Load {
        held: bytes,
        reached: Some(Form::Whole),
        whole: bytes,
        compressed: Some(bytes / 4),
        reduced: None,
    }
}

fn reducible(bytes: u64) -> Load {
    Load {
        reduced: Some(bytes / 20),
        ..whole(bytes)
    }
}

fn change(id: u64, to: Form) -> Order {
    Order::Change {
        id: MemberId(id),
        to,
    }
}

/// Informers that carry out orders at once.
struct World {
    budget: Budget,
    now: Instant,
}

impl World {
    fn new(limit: u64, loads: &[Load]) -> Self {
        let mut world = Self {
            budget: Budget::new(limit),
            now: Instant::from_millis(1),
        };
        for (id, load) in loads.iter().enumerate() {
            world.budget.load(MemberId(id as u64), *load);
        }
        world
    }

    /// Decides, and carries out the orders.
    fn decide(&mut self) -> Vec<Order> {
        let orders = self.budget.decide(self.now);
        for order in &orders {
            if let Order::Change { id, to } = order {
                let mut load = self.budget.members[id].load;
                load.reached = Some(*to);
                load.held = load.size(*to).unwrap();
                self.budget.load(*id, load);
            }
        }
        orders
    }

    fn wait(&mut self, time: Duration) -> Vec<Order> {
        self.now += time;
        self.decide()
    }

    /// Changes the number of bytes of an informer, in the form that it has.
    fn resize(&mut self, id: u64, of: Load) {
        let reached = self.budget.members[&MemberId(id)].load.reached;
        let held = reached.and_then(|form| of.size(form)).unwrap_or(of.held);
        self.budget.load(
            MemberId(id),
            Load {
                held,
                reached,
                ..of
            },
        );
    }
}

#[test]
fn steps_are_given_up_in_their_order_and_the_largest_informer_first() {
    let check = |limit: u64, decoded: u64, expected: &[Order], is_over: bool| {
        let mut world = World::new(limit, &[reducible(400), whole(1_000), reducible(600)]);
        world.budget.decoded(decoded);
        assert_eq!(world.decide(), expected, "{limit} for {decoded}");
        let report = world.budget.report();
        assert_eq!(report.is_over, is_over, "{limit} for {decoded}");
        assert!(is_over || report.held <= limit, "{report}");
        assert_eq!(world.decide(), [], "everything is decided at once");
    };
    let all = [
        Order::DropDecoded,
        change(1, Form::Compressed),
        change(2, Form::Compressed),
        change(0, Form::Compressed),
        change(2, Form::Reduced),
        change(0, Form::Reduced),
    ];
    check(3_000, 500, &[], false);
    check(2_500, 500, &[], false);
    check(2_499, 500, &all[..1], false);
    check(1_999, 500, &all[..2], false);
    check(1_249, 0, &all[..3], false);
    check(799, 500, &all[..4], false);
    check(499, 0, &all[..5], false);
    check(300, 0, &all, false);
    check(299, 0, &all, true);
}

#[test]
fn an_informer_that_is_changing_its_form_counts_with_what_it_will_have() {
    let mut budget = Budget::new(1_000);
    budget.load(MemberId(1), whole(800));
    budget.load(MemberId(2), whole(700));
    let orders = [Order::DropDecoded, change(1, Form::Compressed)];
    assert_eq!(budget.decide(Instant::ZERO), orders);
    assert_eq!(budget.decide(Instant::ZERO), []);
    assert_eq!(budget.report().held, 1_500, "until it is done");
    // It has less in common than was thought.
    let wrong = Load {
        held: 500,
        reached: Some(Form::Compressed),
        compressed: Some(500),
        ..whole(800)
    };
    budget.load(MemberId(1), wrong);
    let orders = [change(2, Form::Compressed)];
    assert_eq!(budget.decide(Instant::ZERO), orders);
}

#[test]
fn a_form_that_cannot_be_had_is_passed_over() {
    let mut budget = Budget::new(100);
    let load = Load {
        compressed: None,
        ..reducible(400)
    };
    budget.load(MemberId(1), load);
    let orders = [Order::DropDecoded, change(1, Form::Reduced)];
    assert_eq!(budget.decide(Instant::ZERO), orders);
    // One that was thought to be, and is not.
    let mut budget = Budget::new(100);
    budget.load(MemberId(1), whole(300));
    assert_eq!(budget.decide(Instant::ZERO).len(), 2);
    budget.load(
        MemberId(1),
        Load {
            compressed: None,
            ..whole(300)
        },
    );
    assert_eq!(budget.decide(Instant::ZERO), []);
    assert!(budget.report().is_over);
    budget.forget(MemberId(1));
    assert_eq!(budget.decide(Instant::ZERO), []);
    assert!(!budget.report().is_over);
}

#[test]
fn steps_return_one_by_one_once_there_has_been_room_for_long_enough() {
    let mut world = World::new(1_000, &[whole(2_000), whole(1_200)]);
    world.budget.decoded(300);
    assert_eq!(world.decide().len(), 3);
    // Room for what is there now, but not for what it would be: 70 % of 1,000 bytes.
    world.resize(0, whole(800));
    world.resize(1, whole(600));
    assert_eq!(world.decide(), []);
    assert_eq!(world.wait(CALM), []);
    world.resize(1, whole(400));
    assert_eq!(world.wait(CALM), [], "from now on there is room");
    assert_eq!(world.budget.next_wake(), Some(world.now + CALM));
    assert_eq!(world.wait(CALM - Duration::from_nanos(1)), []);
    // Too much for a moment: the time begins anew.
    world.resize(1, whole(900));
    assert_eq!(world.decide(), []);
    world.resize(1, whole(400));
    assert_eq!(world.wait(Duration::from_secs(1)), []);
    assert_eq!(world.wait(CALM), [change(1, Form::Whole)]);
    world.resize(0, whole(80));
    assert_eq!(world.wait(Duration::from_secs(1)), []);
    assert_eq!(world.wait(CALM), [change(0, Form::Whole)]);
    // 480 bytes, and 45 of the 300 of decoded values, which were of 3,200 bytes.
    assert_eq!(world.decide(), []);
    assert_eq!(world.wait(CALM), [Order::KeepDecoded]);
    assert_eq!(world.budget.next_wake(), None);
    assert_eq!(world.wait(CALM), []);
}

#[test]
fn a_step_back_passes_over_a_form_that_is_larger_than_one_before_it() {
    let mut world = World::new(1_000, &[reducible(8_000)]);
    assert_eq!(world.decide().len(), 3);
    // What compression costs by itself is more than the few objects that are left.
    let few = Load {
        held: 10,
        reached: Some(Form::Reduced),
        compressed: Some(900),
        reduced: Some(10),
        whole: 200,
    };
    world.budget.load(MemberId(0), few);
    assert_eq!(world.decide(), []);
    assert_eq!(world.wait(CALM), [change(0, Form::Whole)]);
}

fn load() -> impl Strategy<Value = Load> {
    (0u64..1_000, 0u64..120, 0u64..120, any::<[bool; 2]>()).prop_map(
        |(bytes, compressed, reduced, [can_compress, can_reduce])| Load {
            held: bytes,
            reached: Some(Form::Whole),
            whole: bytes,
            // Some forms are no smaller: they save nothing, and are passed over.
            compressed: can_compress.then_some(bytes * compressed / 100),
            reduced: can_reduce.then_some(bytes * reduced / 100),
        },
    )
}

proptest! {
    /// Whatever informers hold, come to hold and can give up: never above the budget while a step is left,
    /// no step returns before its time, and what is decided about loads that stay is decided for good.
    #[test]
    fn the_budget_holds_while_a_step_is_left_and_nothing_goes_back_and_forth(
        limit in 1u64..4_000,
        first in prop::collection::vec(load(), 1..6),
        steps in prop::collection::vec((0usize..6, load(), 0u64..500, 0u64..40_000), 0..60),
    ) {
        let mut world = World::new(limit, &first);
        world.decide();
        let mut given_up = Instant::ZERO;
        for (id, load, decoded, millis) in steps {
            world.resize((id % first.len()) as u64, load);
            if world.budget.report().keeps_decoded {
                world.budget.decoded(decoded);
            }
            let forms = |world: &World| -> Vec<Form> {
                world.budget.members.values().map(|member| member.wanted).collect()
            };
            let before = forms(&world);
            let orders = world.wait(Duration::from_millis(millis));
            let after = forms(&world);
            let grows = before.iter().zip(&after).any(|(before, after)| before < after);
            let returns = before.iter().zip(&after).any(|(before, after)| before > after);
            prop_assert!(!(grows && returns), "a decision is in one direction");
            let report = world.budget.report();
            if returns || orders.contains(&Order::KeepDecoded) {
                prop_assert_eq!(orders.len(), 1);
                prop_assert!(world.now.since(given_up) >= CALM);
                prop_assert!(report.held * 100 <= limit * 70);
            }
            if grows || orders.contains(&Order::DropDecoded) {
                given_up = world.now;
            }
            let next = world.budget.members.values().any(|member| member.next().is_some());
            prop_assert!(report.held <= limit || !next && !report.keeps_decoded);
            prop_assert_eq!(report.is_over, report.held > limit);
        }
        // Loads that stay: each step returns at most once, and none is given up again.
        let mut orders = Vec::new();
        for _ in 0..60 {
            orders.extend(world.wait(CALM));
        }
        prop_assert!(orders.len() <= 2 * first.len() + 1);
        prop_assert!(!orders.contains(&Order::DropDecoded));
    }
}

#[test]
fn an_order_that_is_taken_back_before_it_is_carried_out_saves_what_it_says() {
    let mut budget = Budget::new(500);
    let (mut now, id) = (Instant::ZERO, MemberId(1));
    budget.load(id, whole(1_000));
    let orders = budget.decide(now);
    assert!(orders.contains(&change(1, Form::Compressed)), "{orders:?}");
    let compressed = Load {
        held: 60,
        reached: Some(Form::Compressed),
        compressed: Some(60),
        ..whole(240)
    };
    budget.load(id, compressed);
    let mut returned = Vec::new();
    for _ in 0..4 {
        now += CALM;
        returned.extend(budget.decide(now));
    }
    assert!(returned.contains(&change(1, Form::Whole)), "{returned:?}");
    // Half of the way, its objects become many: it goes back, and counts as on its way.
    let half = Load {
        held: 900,
        reached: None,
        compressed: Some(450),
        ..whole(1_800)
    };
    budget.load(id, half);
    assert_eq!(
        budget.decide(now).last(),
        Some(&change(1, Form::Compressed))
    );
    assert!(!budget.report().is_over);
    assert_eq!(budget.decide(now), []);
}
