//! The page as a file: complete, closed in itself, and safe from what stands in it.

use crate::common;

use common::{run, sweep};
use curtail_report::{HtmlOptions, Line, Metric, Quantile, Run, html};

fn data(page: &str) -> serde_json::Value {
    let open = "<script type=\"application/json\" id=\"data\">";
    let from = page.find(open).expect("a data element") + open.len();
    let to = from + page[from..].find("</script>").expect("its end");
    serde_json::from_str(&page[from..to]).expect("valid JSON")
}

#[test]
fn every_run_is_in_the_data_and_in_the_table() {
    let runs = sweep();
    let page = html(&runs, &HtmlOptions::default());
    let data = data(&page);
    let read: Vec<Run> = serde_json::from_value(data["runs"].clone()).unwrap();
    assert_eq!(read, runs);
    let drawn: usize = data["curves"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["runs"].as_array().unwrap().len())
        .sum();
    assert_eq!(drawn, runs.len());
    assert_eq!(page.matches("<tr class=\"first").count(), runs.len());
    assert!(page.contains("INVALID: the generator fell behind (500 dropped, 0.05%)"));
    assert_eq!(page.matches("<tr class=\"first invalid\">").count(), 1);
}

#[test]
fn nothing_is_fetched() {
    let page = html(&sweep(), &HtmlOptions::default()).to_lowercase();
    // The one address is in the licence comment of the library.
    let addresses: Vec<_> = page.match_indices("://").map(|(at, _)| &page[at - 5..]).collect();
    assert!(
        addresses.iter().all(|a| a.starts_with("https://github.com/leeoniya/uplot (v1")),
        "{addresses:?}"
    );
    for fetching in ["src=", "href=", "url(", "@import", "fetch(", "xmlhttprequest", "import("] {
        assert!(!page.contains(fetching), "the page contains {fetching}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn names_cannot_become_markup() {
    let evil = "</script><script>alert(1)</script><img src=x>&\"'\u{2028}";
    let mut bad = run(evil, None, 0.5, 1_000);
    bad.workload = evil.into();
    bad.classes[0].name = evil.into();
    bad.machine.cpu = Some(evil.into());
    bad.invalidate(evil);
    let line = Line {
        metric: Metric::Slowdown,
        quantile: Some(Quantile::P99_9),
        class: Some(evil.into()),
        value: 50.0,
        name: evil.into(),
    };
    let (title, summary) = (Some(evil.into()), vec![evil.into()]);
    let options = HtmlOptions { title, summary, lines: vec![line], ideal: true };
    let page = html(std::slice::from_ref(&bad), &options);
    let clean = html(&[run("a", None, 0.5, 1_000)], &HtmlOptions::default());
    for tag in ["<script", "</script", "<img", "alert(1)<"] {
        assert_eq!(page.matches(tag).count(), clean.matches(tag).count(), "{tag}");
    }
    let data = data(&page);
    assert_eq!(data["runs"][0]["policy"], evil);
    assert_eq!(data["lines"][0]["quantile"], "p99_9");
    assert_eq!(data["lines"][0]["name"], evil);
}

#[test]
fn a_page_of_no_runs_is_a_page() {
    let page = html(&[], &HtmlOptions::default());
    assert!(page.contains("<h1>No runs</h1>") && page.ends_with("</html>\n"));
    assert_eq!(data(&page)["runs"], serde_json::json!([]));
}
