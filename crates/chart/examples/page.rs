//! Makes a page, and a picture beside it, of a result file:
//! `cargo run -p curtail-chart --example page -- runs.json page.html picture.svg`

use curtail_chart::{SvgOptions, svg};
use curtail_report::{HtmlOptions, Line, Metric, Quantile, html, read, write_text};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, page, picture] = args.as_slice() else {
        return Err("usage: page RUNS.json PAGE.html PICTURE.svg".into());
    };
    let runs = read(from)?;
    let line = Line {
        metric: Metric::Slowdown,
        quantile: Some(Quantile::P99_9),
        class: None,
        value: 50.0,
        name: "objective: p99.9 slowdown 50".into(),
    };
    let options = HtmlOptions { lines: vec![line], ideal: true, ..HtmlOptions::default() };
    write_text(page, &html(&runs, &options))?;
    let class = runs.first().and_then(|run| run.classes.first()).map(|class| class.name.clone());
    write_text(picture, &svg(&runs, &SvgOptions { class, ..SvgOptions::default() })?)?;
    print!("{}", curtail_report::table(&runs));
    Ok(())
}
