//! A page of pictures, each with words and a table: one HTML file, for a double click, offline.

use crate::Chart;
use curtail_report::{Error, STYLE, escape};
use std::fmt::Write as _;

/// A picture and what belongs to it.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// Paragraphs above the picture.
    pub text: Vec<String>,
    /// The picture.
    pub chart: Chart,
    /// The tables below it.
    pub tables: Vec<Listing>,
}

/// A table of texts.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// What it lists.
    pub caption: String,
    /// What its columns are.
    pub heads: Vec<String>,
    /// Its rows, a cell for each column.
    pub rows: Vec<Vec<String>>,
    /// Its cells are figures, set to the right, all but the first column's.
    pub figures: bool,
}

/// The sections as one self-contained page.
///
/// # Errors
/// A chart with nothing to draw.
pub fn page(title: &str, sections: &[Section]) -> Result<String, Error> {
    let title = escape(title);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}figure svg {{ max-width: 100%; height: auto; }}\n\
         </style>\n</head>\n<body>\n<header><h1>{title}</h1></header>\n<main>\n"
    );
    for section in sections {
        let _ = writeln!(page, "<section>\n<h2>{}</h2>", escape(&section.heading));
        for paragraph in &section.text {
            let _ = writeln!(page, "<p>{}</p>", escape(paragraph));
        }
        let _ = writeln!(page, "<figure>\n{}</figure>", section.chart.svg()?);
        for table in &section.tables {
            push_table(&mut page, table);
        }
        page.push_str("</section>\n");
    }
    page.push_str("</main>\n<footer>Made by Curtail.</footer>\n</body>\n</html>\n");
    Ok(page)
}

fn push_table(page: &mut String, table: &Listing) {
    let class = |column: usize| if table.figures && column > 0 { " class=\"n\"" } else { "" };
    let _ = write!(
        page,
        "<div class=\"wide\" tabindex=\"0\"><table class=\"runs\"><caption>{}</caption>\n<thead><tr>",
        escape(&table.caption)
    );
    for (column, head) in table.heads.iter().enumerate() {
        let _ = write!(page, "<th scope=\"col\"{}>{}</th>", class(column), escape(head));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr class=\"first\">");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(page, "<td{}>{}</td>", class(column), escape(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChartCurve, ChartPoint};

    #[test]
    fn a_page_holds_everything_and_no_markup_of_others() {
        let point = ChartPoint { x: 1.0, y: 2.0, ..ChartPoint::default() };
        let curve = ChartCurve { label: "<i>".into(), points: vec![point] };
        let section = Section {
            heading: "a & b".into(),
            text: vec!["<script>".into()],
            chart: Chart { curves: vec![curve], ..Chart::default() },
            tables: vec![Listing {
                caption: "c".into(),
                heads: vec!["x".into(), "<y>".into()],
                rows: vec![vec!["1".into(), "2".into()]],
                figures: true,
            }],
        };
        let page = page("t", std::slice::from_ref(&section)).unwrap();
        assert!(page.contains("a &amp; b") && page.contains("&lt;script&gt;"));
        assert!(page.contains("&lt;y&gt;") && page.contains("<td class=\"n\">2</td>"));
        assert!(!page.contains("<script") && !page.contains("<i>"));
        assert!(super::page("t", &[Section::default()]).is_err());
    }
}
