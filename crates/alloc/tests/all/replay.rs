//! Records are played again to the same orders; a change of a decision, and damage, are found.

use crate::common;

use common::chaos::Chaos;
use curtail_alloc::record::replay;
use curtail_alloc::{Allocator, Machine, Settings};
use std::sync::{Arc, Mutex};

/// A record of so many random steps.
fn record(seed: u64, steps: u32) -> String {
    let text = Arc::new(Mutex::new(String::new()));
    let to = Arc::clone(&text);
    let sink = Box::new(move |line: &str| {
        let mut text = to.lock().unwrap();
        text.push_str(line);
        text.push('\n');
    });
    let machine = Machine::of_siblings(4);
    let allocator = Allocator::recorded(machine, Settings::default(), sink).unwrap();
    let mut chaos = Chaos::new(allocator, 4, seed);
    for _ in 0..steps {
        chaos.step(None);
    }
    drop(chaos);
    Arc::into_inner(text).unwrap().into_inner().unwrap()
}

#[test]
fn the_same_calls_bring_the_same_orders() {
    for seed in 1..=5 {
        let text = record(seed, 5_000);
        assert!(text.lines().filter(|line| line.starts_with("order")).count() > 500);
        assert_eq!(replay(&text), Ok(None));
    }
}

#[test]
fn a_decision_that_differs_is_found() {
    let text = record(1, 5_000);
    let (at, line) =
        text.lines().enumerate().filter(|(_, it)| it.contains(" wake ")).nth(3).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[at] = line.replace("wake", "signal");
    let found = replay(&lines.join("\n")).unwrap().unwrap();
    assert_eq!((found.line, found.replayed.as_str()), (at + 1, line));
}

#[test]
fn damage_is_named_with_its_line() {
    let text = "curtail-alloc 1\nmachine - -\nsettings interval=5000 detector=queues siblings=true \
                affinity=true idler=false grace=1 give_up=2 rest=3 rebalance=4\n";
    assert_eq!(replay(text), Ok(None));
    for (damaged, says) in [
        (String::new(), "line 0: it ends in the head"),
        (text.replace("alloc 1", "alloc 2"), "line 1: the head is another"),
        (text.replace("- -", "- x"), "line 2: no machine"),
        (text.replace("- -", "1 -"), "line 2: a machine that can't be"),
        (text.replace("queues", "age"), "line 3: no settings"),
        (text.replace("grace=1 ", ""), "line 3: no settings"),
        (format!("{text}look 5 0 ra 1 2 3"), "line 4: no call"),
        (format!("{text}add 0 critical 1 3 0 = 0"), "line 4: no call"),
        (format!("{text}remove 0 0\nfly 3"), "line 5: no call"),
    ] {
        assert_eq!(replay(&damaged).unwrap_err().to_string(), says);
    }
}
