//! The command as a user meets it: exit codes, one-line errors, JSON, a server and its client.
//!
//! Runs are short and nothing is asserted about speed: the machine may be busy.

use crate::common;
use crate::server;

use common::{curtail, json, run};
use serde_json::Value;
use server::Server;
use std::io::Write;
use std::process::{Output, Stdio};

#[test]
fn bad_usage_is_one_line_and_two() {
    for (line, says) in [
        ("", "--help"),
        ("frobnicate", "'frobnicate'"),
        ("bench --nonsense", "'--nonsense'"),
        ("bench --load 70", "`70`"),
        ("bench --load 0.1..0.9", "no step"),
        ("bench --load -0.5", "`-0.5`: nothing here may be negative"),
        ("bench --duration -5ms", "`-5ms`"),
        ("sim --jobs -3", "`-3`"),
        ("sim --jobs 1.5k", "`1.5k`"),
        ("bench --load 0.5 --rate 5k", "--rate"),
        ("bench --rate 5x", "`5x`"),
        ("bench --duration 5", "`5`"),
        ("bench --duration 1s --warmup 2s", "--warmup"),
        ("bench --workload tpch", "`tpch`"),
        ("bench --classes short:1us", "`short:1us`"),
        ("bench --policy tqq", "tqq"),
        ("bench --policy fcfs --ties msq", "fcfs"),
        ("bench --preempt sometimes", "`sometimes`"),
        ("bench --quantum 0", "quantum"),
        ("bench --arrivals sometimes", "`sometimes`"),
        ("bench --find-max", "--slo"),
        ("bench --workers 0", "0"),
        ("bench --classes a:0:1 --load 0.5", "--rate"),
        ("serve --app spin", "--listen"),
        ("serve --app spin --listen https://127.0.0.1:1", "https://127.0.0.1:1"),
        ("serve --app spin --listen xdp://192.0.2.1:4000", "is not IFACE/IP:PORT"),
        ("serve --app spin --listen dpdk://192.0.2.1:4000", "is not DEVICE/IP:PORT"),
        ("serve --app spin --listen udp://127.0.0.1:0 --policy fcfs,tq", "one policy"),
        ("serve --app spin --listen udp://127.0.0.1:0 --preempt never,clock", "--preempt"),
        ("load", "URL"),
        ("load ftp://127.0.0.1:1", "`ftp://127.0.0.1:1`"),
        ("load udp://127.0.0.1:9 --load 0.5", "--workers"),
        ("load udp://127.0.0.1:9 --rate 1k --app kv", "`short`"),
        ("load udp://127.0.0.1:9 --rate 1k --service short:1us", "`long`"),
        ("load udp://127.0.0.1:9 --find-max", "--slo"),
        ("report", "FILE"),
        ("sim --jobs 5 --duration 1s", "--jobs"),
        ("sim --jobs 0", "0"),
        ("sim --replay x --jobs 5", "--replay"),
        ("sim --replay x --policy tq", "--replay"),
        ("sim --replay x --figure all", "--replay"),
        ("sim --figure tq-1 --dispatchers 2", "--figure"),
        ("sim --figure tq-1 --jbsq 2", "--figure"),
        ("sim --figure tq-1 --ring-delay 1us", "--figure"),
        ("sim --figure tq-1 --pinned", "--figure"),
        ("sim --figure tq-1 --classifier random", "--figure"),
        ("bench --record x --policy tq,fcfs", "--record"),
        ("sim --phases 5s", "`5s`"),
        ("sim --phase 1s:load=0.5", "`1s:load=0.5`"),
        ("sim --phases persephone --rate 5k", "--load"),
        ("sim --phases persephone --workload tpcc", "--workload"),
        ("sim --find-max", "--slo"),
        ("sim --balance somehow", "`somehow`"),
        ("sim --hints some", "`some`"),
        ("sim --workers 2000", "2000 workers"),
        ("sim --workers 2 --dispatchers 3", "3 dispatchers"),
        ("sim --dispatch-cost 5", "`5`"),
        ("sim --instrumentation much", "`much`"),
    ] {
        let output = run(line);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{line}: {stderr}");
        assert!(stderr.starts_with("curtail: ") && stderr.contains(says), "{line}: {stderr}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn failure_is_one_line_and_one() {
    for (line, says) in [
        ("report /nonexistent/results.json", "/nonexistent/results.json"),
        ("sim --trace /nonexistent/trace.csv", "/nonexistent/trace.csv"),
        ("sim --costs /nonexistent/costs.toml", "/nonexistent/costs.toml"),
        ("load udp://127.0.0.1:9 --rate 1k --wait 1ms", "udp://127.0.0.1:9"),
        ("load tcp://127.0.0.1:9 --rate 1k --wait 1ms", "tcp://127.0.0.1:9"),
        ("policies --json /nonexistent/policies.json", "/nonexistent/policies.json"),
        ("serve --app spin --listen udp://192.0.2.1:4000", "192.0.2.1:4000"),
        ("serve --app spin --listen xdp://no-such-one/192.0.2.1:4000", "no such network interface"),
        (
            "serve --app spin --listen udp://127.0.0.1:0 --policy shenango --record r",
            "a dispatcher",
        ),
    ] {
        let output = run(line);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{line}: {stderr}");
        assert!(stderr.starts_with("curtail: ") && stderr.contains(says), "{line}: {stderr}");
    }
}

#[test]
fn help_and_version_succeed() {
    for line in ["--help", "--version", "bench --help", "sim --help", "serve --help", "load --help"]
    {
        let output = run(line);
        assert!(output.status.success() && !output.stdout.is_empty(), "{line}");
        assert!(output.stderr.is_empty(), "{line}");
    }
}

#[test]
fn listings_are_tables_and_json() {
    let names = |value: &Value| -> Vec<String> {
        let items = value.as_array().unwrap().iter();
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let policies = names(&json(&["policies"]));
    let expect = "fcfs dfcfs jbsq ps shinjuku concord tq steal shenango shenango-ps fp sjf srpt edf wrr \
                  drr shinjuku-mq static-partition cscq darc darc-static darc-ps auto";
    assert_eq!(policies.join(" "), expect);
    let table = String::from_utf8(run("policies").stdout).unwrap();
    for name in &policies {
        // With their other names behind them.
        let first = |line: &str| line.split([',', ' ']).next() == Some(name.as_str());
        assert!(table.lines().any(first), "{name} in {table}");
    }
    let workloads = json(&["workloads"]);
    let expect = "extreme-bimodal high-bimodal tpcc exp1 exp10 fixed1 bimodal-90-10 rocksdb-50 \
                  rocksdb-0.5 zippydb usr";
    assert_eq!(names(&workloads).join(" "), expect);
    let share = workloads[0]["classes"][1]["share"].as_f64().unwrap();
    assert!((share - 0.005).abs() < 1e-12);
    let findings = json(&["doctor", "--quick"]);
    for what in
        ["cores", "tsc", "safepoints", "io_uring", "capabilities", "lowest rank", "sessions"]
    {
        let has = findings.as_array().unwrap().iter().any(|finding| finding["what"] == what);
        assert!(has, "{what} in {findings}");
    }
    let table = String::from_utf8(run("workloads").stdout).unwrap();
    assert!(table.lines().any(|line| line.starts_with("tpcc ") && line.contains("Table 4")));
}

/// What every result says of itself, whatever the machine was doing.
fn check(run: &Value, verb: &str) {
    assert_eq!((&run["schema"], &run["verb"]), (&Value::from(1), &Value::from(verb)), "{run}");
    let count = |name: &str| run[name].as_u64().unwrap_or_else(|| panic!("{name} in {run}"));
    assert_eq!(count("offered"), count("completed") + count("dropped"), "{run}");
    assert_eq!(run["valid"].as_bool().unwrap(), run["invalid_reason"].is_null(), "{run}");
    let classes = run["classes"].as_array().unwrap();
    let by_class: u64 = classes.iter().map(|class| class["count"].as_u64().unwrap()).sum();
    assert_eq!(by_class, count("completed"), "{run}");
}

#[test]
fn bench_gives_one_object() {
    let classes = "short:2us:90,long:20us:10";
    let arguments =
        ["bench", "--classes", classes, "--rate", "2k", "--duration", "300ms", "--policy", "fcfs"];
    let run = json(&arguments);
    check(&run, "bench");
    assert_eq!((&run["policy"], &run["workload"]), (&"fcfs".into(), &classes.into()));
    assert_eq!(run["offered_rps"], 2_000.0);
    // Poisson arrivals over 270 ms at a fixed seed: 540 in the mean.
    let offered = run["offered"].as_u64().unwrap();
    assert!((400..700).contains(&offered), "{offered}");
    assert!(run["completed"].as_u64() > Some(0), "{run}");
    assert!(run["sojourn_ns"]["p50"].as_u64().unwrap() >= 2_000, "{run}");
    assert!(run["slowdown"]["p50"].as_f64().unwrap() >= 0.9, "{run}");
    let share = run["noise"]["disturbed_share"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&share));
    let long = &run["classes"][1];
    assert!(long["sojourn_ns"]["p50"].as_u64().unwrap() >= 20_000, "{run}");
}

#[test]
fn the_same_seed_offers_the_same() {
    let offered = |seed: &str| {
        let arguments = [
            "bench",
            "--workload",
            "fixed1",
            "--rate",
            "5k",
            "--duration",
            "100ms",
            "--seed",
            seed,
        ];
        json(&arguments)["offered"].as_u64().unwrap()
    };
    let seven = offered("7");
    assert_eq!(offered("7"), seven);
    // Another seed offers something else; that it is as many, by chance, is not so for all of three.
    assert!(["8", "9", "10"].iter().any(|seed| offered(seed) != seven), "{seven} with any seed");
}

#[test]
fn a_sweep_is_an_array_and_makes_a_report() {
    let arguments = [
        "bench",
        "--workload",
        "exp10",
        "--load",
        "0.05..0.1/0.05",
        "--policy",
        "fcfs,tq,shenango",
        "--quantum",
        "2us,5us",
        "--duration",
        "50ms",
        "--slo",
        "p99 slowdown 1000",
    ];
    let runs = json(&arguments);
    // c-FCFS has no use for quanta, the others run with both; each at two loads.
    assert_eq!(runs.as_array().unwrap().len(), 10, "{runs}");
    for run in runs.as_array().unwrap() {
        check(run, "bench");
    }
    let mut report = curtail()
        .args(["report", "-", "--markdown"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    report.stdin.take().unwrap().write_all(runs.to_string().as_bytes()).unwrap();
    let output = report.wait_with_output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && table.contains("| tq"), "{table}");
}

#[test]
fn find_max_searches() {
    // All requests come in the first half of the run, at twice the rate. So at the highest load half
    // of them wait for 50 ms and more, and at low ones they wait for the machine at most.
    let output = curtail()
        .args(["bench", "--find-max", "--slo", "p50 sojourn 20ms", "--classes", "a:100us:1"])
        .args(["--policy", "fcfs", "--workers", "1", "--arrivals", "step:2:200ms"])
        .args(["--duration", "200ms", "--json", "-"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let runs: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Whether a run at that load says that it meets the objective, or that it does not.
    let has_run = |load: f64, meets: bool| {
        runs.as_array().unwrap().iter().any(|run| {
            let here = (run["load"].as_f64().unwrap() - load).abs() < 0.000_6;
            let within = run["sojourn_ns"]["p50"].as_u64().is_some_and(|ns| ns <= 20_000_000);
            here && meets == (within && run["valid"] == true && run["dropped"] == 0)
        })
    };
    let line = said.lines().find(|line| line.contains("p50 sojourn 20ms")).expect("it concludes");
    let loads: Vec<f64> = line
        .split("load ")
        .skip(1)
        .map(|rest| rest.split(' ').next().and_then(|load| load.parse().ok()).expect("a load"))
        .collect();
    if line.contains("does not meet") {
        // A machine that has no time for us: it must have been asked for the least.
        assert!(loads == [0.01] && has_run(0.01, false), "{line}\n{runs}");
        return;
    }
    let [most, fails] = loads[..] else { panic!("the objective is crossed: {line}\n{runs}") };
    assert!(most < fails && fails - most < 0.011_5, "{line}");
    assert!(has_run(most, true) && has_run(fails, false), "{line}\n{runs}");
}

fn drive(scheme: &str, signal: rustix::process::Signal) {
    let server = Server::start(&format!("{scheme}://127.0.0.1:0"));
    assert!(server.url.starts_with(scheme) && !server.url.ends_with(":0"), "{}", server.url);
    let run = json(&[
        "load",
        &server.url,
        "--classes",
        "a:5us:9,b:50us:1",
        "--rate",
        "500",
        "--duration",
        "500ms",
        "--connections",
        "2",
        "--timeout",
        "20s",
    ]);
    check(&run, "load");
    // The loopback loses nothing at this rate, and 20 s are enough for any machine.
    assert_eq!(run["dropped"], 0, "{run}");
    assert!(run["completed"].as_u64().unwrap() > 100, "{run}");
    assert!(run["sojourn_ns"]["p50"].as_u64().unwrap() >= 5_000, "{run}");
    assert!(run["undisturbed"]["sojourn_ns"].as_object().unwrap().is_empty(), "{run}");
    let summary = server.stop(signal);
    check(&summary, "serve");
    // The client's warm-up and greetings are in the server's count.
    assert!(summary["completed"].as_u64() > run["completed"].as_u64(), "{summary}");
}

#[test]
fn a_server_and_its_client_over_udp() {
    drive("udp", rustix::process::Signal::INT);
}

#[test]
fn a_server_and_its_client_over_tcp() {
    drive("tcp", rustix::process::Signal::TERM);
}

#[test]
fn a_server_without_requests_ends_too() {
    let server = Server::start("udp://127.0.0.1:0,tcp://127.0.0.1:0");
    assert_eq!(server.url.split(',').count(), 2, "{}", server.url);
    let summary = server.stop(rustix::process::Signal::TERM);
    assert_eq!((&summary["completed"], &summary["verb"]), (&0.into(), &"serve".into()));
}

/// A load of 1 is 20 requests a second. They are few, and the last one is due 49 ms before the end or more,
/// so that a busy machine keeps up.
const FEW: &str = "--classes a:50ms:1 --arrivals uniform --duration 299ms --max-lateness 10s \
                    --timeout 10s --workers 1 --json -";

/// As few, in a third of the time. How fast they are served is up to the machine.
const SHORT: &str = "--classes a:1ms:1 --duration 100ms --timeout 2s --workers 1 --json -";

fn load(url: &str, line: &str, more: &[&str]) -> Output {
    curtail().args(["load", url]).args(line.split_whitespace()).args(more).output().unwrap()
}

/// The loads that were tried, and what was said last.
fn searched(url: &str, line: &str, slo: &str) -> (Vec<f64>, String) {
    let output = load(url, line, &["--find-max", "--slo", slo]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    let runs: Vec<Value> = serde_json::from_slice(&output.stdout).expect("nothing but JSON");
    assert!(runs.iter().all(|run| run["verb"] == "load"), "{runs:?}");
    let loads = runs.iter().map(|run| run["load"].as_f64().unwrap()).collect();
    (loads, stderr.lines().last().unwrap().to_owned())
}

fn all_near(found: &[f64], expected: &[f64]) -> bool {
    let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
    found.len() == expected.len() && found.iter().zip(expected).all(near)
}

#[test]
fn the_highest_load_is_searched_and_the_search_ends() {
    let server = Server::start("udp://127.0.0.1:0");
    // What no request can meet, and what all meet, is decided by one run a load.
    let (loads, said) = searched(&server.url, FEW, "max sojourn 1us");
    assert!(all_near(&loads, &[0.5, 0.4, 0.2, 0.01]), "{loads:?}");
    assert!(said.starts_with(&server.url), "{said}");
    assert!(
        said.contains("does not meet max sojourn 1us, not even at load 0.010 (0.2/s)"),
        "{said}"
    );
    let (loads, said) = searched(&server.url, FEW, "p50 sojourn 60s");
    assert!(all_near(&loads, &[0.5, 0.6, 0.8, 1.0]), "{loads:?}: {said}");
    assert!(said.ends_with("at every load up to load 1.000 (20/s)"), "{said}");
    // Whatever the machine does: at most six loads to bracket it and six to halve the bracket.
    let (loads, said) = searched(&server.url, SHORT, "p99 sojourn 4ms");
    assert!(loads.len() <= 3 * 12, "{loads:?}");
    assert!(said.contains(" p99 sojourn 4ms"), "{said}");
}

#[test]
fn each_run_stands_against_the_objective() {
    let server = Server::start("tcp://127.0.0.1:0");
    let output = load(&server.url, FEW, &["--load", "0.2,0.4", "--slo", "a: max sojourn 1us"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(common::measured(&output), "{stderr}");
    let verdict = |line: &&str| line.contains("/s does not meet a: max sojourn 1us");
    assert_eq!(stderr.lines().filter(verdict).count(), 2, "{stderr}");
}

#[test]
fn a_search_without_a_capacity_is_bad_usage() {
    let server = Server::start("udp://127.0.0.1:0");
    for (more, says) in [
        (&["--rate", "1k"][..], "chooses the loads itself"),
        (&["--classes", "a:0:1", "--workers", "1"], "make no load"),
        (&[], "--workers"),
    ] {
        let slo = ["load", &server.url, "--find-max", "--slo", "p99 sojourn 1ms"];
        let output = curtail().args(slo).args(more).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains(says), "{more:?}: {stderr}");
    }
}
