//! `curtail report`: results that were written as JSON, as a table, a page or a picture.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use curtail_report::Run;

/// `curtail report`.
#[derive(Args)]
pub(crate) struct Report {
    /// Results, as `--json` wrote them; `-`: standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Write one offline page with all plots to FILE
    #[arg(long, value_name = "FILE")]
    html: Option<String>,
    /// Write a picture to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<String>,
    /// Write all results as one array to FILE; `-`: to standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
    /// A table for documents, instead of the one for terminals
    #[arg(long)]
    markdown: bool,
    /// The page's title; by default made of the workloads
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

impl Report {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let mut runs: Vec<Run> = Vec::new();
        for file in &self.files {
            runs.extend(curtail_report::read(file)?);
        }
        if self.json.as_deref() != Some("-") {
            let markdown = self.markdown;
            let show = if markdown { curtail_report::markdown } else { curtail_report::table };
            output::text(&show(&runs))?;
        }
        if let Some(file) = &self.html {
            curtail_report::write_text(file, &self.page(&runs))?;
        }
        if let Some(file) = &self.svg {
            let options = curtail_chart::SvgOptions::default();
            curtail_report::write_text(file, &curtail_chart::svg(&runs, &options)?)?;
        }
        if let Some(file) = &self.json {
            curtail_report::write_runs(file, &runs)?;
        }
        Ok(())
    }

    fn page(&self, runs: &[Run]) -> String {
        let options =
            curtail_report::HtmlOptions { title: self.title.clone(), ..Default::default() };
        curtail_report::html(runs, &options)
    }
}
