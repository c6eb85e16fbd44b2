//! Looks as they are read and shown.

use super::*;

fn live() -> Live {
    let times = |p50| Quantiles { p50, p99: 3 * p50, p99_9: 4 * p50, ..Quantiles::default() };
    let recent = Counted {
        completed: 2_000,
        sojourn_ns: Some(times(1_500)),
        queueing_ns: Some(times(500)),
        service_ns: Some(Quantiles { mean: 900.0, ..Quantiles::default() }),
        ..Counted::default()
    };
    let total = Counted { completed: 70_000, dropped: 3, ..recent };
    Live {
        schema: SCHEMA,
        verb: "top".to_owned(),
        pid: 77,
        app: "spin".to_owned(),
        listen: "udp://127.0.0.1:4000".to_owned(),
        uptime_s: 12.0,
        recent_s: 2.0,
        policy: "darc".to_owned(),
        quantum_ns: None,
        preempt: "never".to_owned(),
        preempt_note: None,
        decided: Some("worker 0 for short".to_owned()),
        in_system: 3,
        waiting: 1,
        malformed: 0,
        unsent: 0,
        preemptions: 9,
        ticks: None,
        classes: vec![
            LiveClass { name: "short".to_owned(), total, recent },
            LiveClass { name: "unknown".to_owned(), ..LiveClass::default() },
        ],
        requests: vec![LiveRequest {
            class: "short".to_owned(),
            age_ns: 3_000_000,
            attained_ns: 2_000,
            state: "blocked on worker 0".to_owned(),
        }],
        stalls: vec![LiveStall {
            function: "lib::parse".to_owned(),
            count: 3,
            longest_ns: 20_000_000,
            stack: vec!["lib::parse (a.rs:1)".to_owned()],
        }],
        transports: BTreeMap::from([("tcp_refused".to_owned(), 2), ("tcp_accepted".to_owned(), 5)]),
        workers: vec![LiveWorker { holds: 2, cpu_share: Some(0.5), ..LiveWorker::default() }],
        allocator: None,
    }
}

#[test]
fn a_line_is_read_as_it_was_written() {
    let line = live().line().unwrap();
    assert_eq!((line.lines().count(), line.ends_with('\n')), (1, true));
    assert_eq!(Live::parse(77, line.as_bytes()).unwrap(), live());
    // Fields of a later version with the same schema do no harm, and ones left out neither.
    let more = line.replacen('{', "{\"more\": [1], ", 1);
    assert_eq!(Live::parse(77, more.as_bytes()).unwrap(), live());
    let least = br#"{"verb": "top", "pid": 77, "policy": "tq"}"#;
    assert_eq!(Live::parse(77, least).unwrap().classes, []);
}

#[test]
fn garbage_is_refused_in_one_line() {
    let newer = br#"{"schema": 99, "everything": "different"}"#;
    let other = live().line().unwrap().replace("77", "78");
    let mut cut = live().line().unwrap().into_bytes();
    cut.truncate(cut.len() / 2);
    for (line, says) in [
        (&b""[..], "EOF"),
        (b"\xff\xfe\x00", "expected value"),
        (b"[]", "invalid length"),
        (b"{\"verb\": 5}", "invalid type"),
        (b"{\"verb\": \"top\", \"pid\": -1, \"policy\": \"\"}", "invalid value"),
        (newer, "schema 99"),
        (other.as_bytes(), "process 78"),
        (&cut, "EOF"),
    ] {
        let error = Live::parse(77, line).unwrap_err().to_string();
        assert!(error.contains(says) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn a_person_sees_classes_and_workers() {
    let table = live().table();
    for words in ["spin, process 77", "darc, each runs to completion; ", "worker 0 for short"] {
        assert!(table.contains(words), "{table}");
    }
    let row = table.lines().find(|line| line.starts_with("short")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    let expected = "short 2,000 1.00 k/s 0 0 1.50 µs 4.50 µs 6.00 µs 1.50 µs 900 ns 70,000 4.50 µs";
    assert_eq!(cells.join(" "), expected);
    // Every request had a class. The kernel has not said on which core the worker is.
    assert!(!table.contains("unknown"), "{table}");
    assert!(table.lines().any(|line| line.ends_with("50%             –")), "{table}");
    let lines: Vec<String> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "tcp_refused 2",
        "short 3.00 ms 2.00 µs blocked on worker 0",
        "lib::parse 3 20.0 ms",
        "lib::parse (a.rs:1)",
    ] {
        assert!(lines.iter().any(|other| other == line), "{line}: {table}");
    }
}

#[test]
fn threads_with_a_quantum_are_not_said_to_run_to_completion() {
    let mut threads = live();
    (threads.listen, threads.quantum_ns, threads.preempt) =
        (String::new(), Some(20_000), "clock".to_owned());
    let table = threads.table();
    assert!(table.contains("darc, quantum 20.0 µs, pre-empted by clock; "), "{table}");
    assert!(table.starts_with("spin, process 77, up "), "{table}");
    threads.preempt = "never".to_owned();
    assert!(threads.table().contains("darc, nothing is pre-empted; "), "{}", threads.table());
}

#[test]
fn nothing_steers_the_terminal() {
    let mut live = live();
    live.decided = Some("\x1b[2Jgone\r\n".to_owned());
    live.classes[0].name = "\u{9b}2J".to_owned();
    assert!(live.table().chars().all(|c| c == '\n' || !c.is_control()), "{}", live.table());
}
