//! `curtail sim --figure` at a size that a test can afford: each figure keeps what the paper says of
//! it as far as ours does at all, and the same seed gives the same figure.

use crate::common;

use common::{json, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A directory that goes when its test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let unique = format!("curtail-figures-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(unique))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn draw(name: &str, jobs: &str, dir: &Path, more: &[&str]) -> Value {
    let dir = dir.to_str().expect("a plain path");
    let arguments = ["sim", "--figure", name, "--jobs", jobs, "--figures-dir", dir];
    json(&[&arguments[..], more].concat())[0].take()
}

/// The paper's statements, and how they stand.
fn statements(name: &str, jobs: &str) -> Vec<Value> {
    let scratch = Scratch::new(name);
    let figure = draw(name, jobs, &scratch.0, &[]);
    let statements = figure["statements"].as_array().unwrap();
    for statement in statements {
        // What a failure has to say.
        println!("{}\n  {}: {}", statement["paper"], statement["verdict"], statement["ours"]);
    }
    statements.clone()
}

/// Which of the paper's statements hold.
fn agrees(name: &str, jobs: &str) -> Vec<bool> {
    statements(name, jobs).iter().map(|it| it["agrees"].as_bool().unwrap()).collect()
}

#[test]
fn late_pre_emption_costs_little() {
    assert_eq!(agrees("concord-5", "60000")[..2], [true, true]);
}

#[test]
fn quick_allocators_are_more_efficient() {
    assert_eq!(agrees("shenango-1", "50000"), [true, true, true]);
}

#[test]
fn slow_allocators_have_long_tails_and_leave_more() {
    let found = statements("shenango-8", "30000");
    assert_eq!(found[0]["parts"]["order"], true, "{}", found[0]);
    assert_eq!(agrees("shenango-8-batch", "30000"), [true]);
}

#[test]
fn a_flag_leaves_more_than_a_signal() {
    assert_eq!(agrees("cores-programs", "20000"), [true]);
}

#[test]
fn small_quanta_shorten_the_tail_and_their_price_limits_them() {
    assert_eq!(agrees("tq-1", "60000"), [true]);
    assert_eq!(agrees("tq-2", "100000")[..2], [true, true]);
}

#[test]
fn ties_to_the_most_serviced_help_long_requests() {
    let scratch = Scratch::new("tq-4");
    let figure = draw("tq-4", "200000", &scratch.0, &[]);
    // Single points are of a thousand long requests: the middle of each curve is compared.
    let middle = |label: &str| {
        let curves = figure["curves"].as_array().unwrap();
        let curve = curves.iter().find(|curve| curve["label"] == label).unwrap();
        let points = curve["points"].as_array().unwrap().iter();
        let at = |point: &Value, axis: &str| point[axis].as_f64().unwrap();
        let points = points.filter(|point| (2.6e6..3.8e6).contains(&at(point, "x")));
        points.map(|point| at(point, "y")).sum::<f64>()
    };
    let [one, msq, random] = ["CT", "TLS, MSQ", "TLS, random"].map(middle);
    assert!(one < msq && msq < random, "{one} {msq} {random}");
}

#[test]
fn darc_sustains_more_than_time_sharing_and_that_more_than_c_fcfs() {
    let found = statements("persephone-1", "60000");
    assert_eq!((&found[0]["agrees"], &found[3]["agrees"]), (&true.into(), &true.into()));
    let darc = &found[2]["parts"];
    assert_eq!((&darc["order"], &darc["rate"]), (&true.into(), &true.into()), "{darc}");
}

#[test]
fn interrupts_protect_the_better_the_faster_they_are() {
    assert_eq!(agrees("persephone-10", "30000"), [true, true]);
    assert!(agrees("persephone-10-long", "30000")[0]);
}

#[test]
fn darc_reserves_for_tpcc_what_the_paper_says() {
    assert_eq!(agrees("persephone-tpcc", "50000"), [true]);
}

/// Short runs: what `auto` has learnt in the first tenth must do, and seeds differ more.
#[test]
fn auto_is_seldom_worse_than_the_best_of_the_others() {
    let scratch = Scratch::new("auto");
    let figure = draw("auto", "6000", &scratch.0, &[]);
    let cells = figure["cells"].as_array().unwrap();
    assert!(cells.len() >= 120, "{}", cells.len());
    let ratio = |cell: &Value| cell["ratio"].as_f64().unwrap();
    let beyond: Vec<&Value> = cells.iter().filter(|cell| ratio(cell) > 1.5).collect();
    assert!(20 * beyond.len() <= cells.len(), "{beyond:#?}");
    let page = fs::read_to_string(scratch.0.join("auto.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("auto/best"));
}

#[test]
fn a_seed_makes_a_figure() {
    let scratch = Scratch::new("seed");
    let file = |kind: &str| fs::read_to_string(scratch.0.join(format!("tq-1.{kind}"))).unwrap();
    let first = draw("tq-1", "5000", &scratch.0, &["--threads", "1"]);
    let before = (file("svg"), file("json"));
    let again = draw("tq-1", "5000", &scratch.0, &["--threads", "4"]);
    assert_eq!(again, first);
    assert_eq!((file("svg"), file("json")), before);
    let other = draw("tq-1", "5000", &scratch.0, &["--seed", "2"]);
    assert_ne!(other["curves"], first["curves"]);
    let page = file("html");
    assert!(
        page.contains("<svg")
            && page.contains("What the paper says")
            && page.ends_with("</html>\n")
    );
}

#[test]
fn what_makes_no_figure_is_said() {
    let output = run("sim --figure concord-60");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("no figure `concord-60`") && stderr.contains("tq-4"), "{stderr}");
    assert_eq!(output.status.code(), Some(2));
    let output = run("sim --figure tq-1 --policy fcfs");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let output = run("sim --figures-dir x");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
