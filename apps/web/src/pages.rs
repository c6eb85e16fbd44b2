//! Pages from a template, and a text to search in.

use crate::Failure;
use axum::http::StatusCode;
use minijinja::{Environment, context};
use regex::RegexBuilder;
use serde::Serialize;

const TEMPLATE: &str = "<!doctype html><title>Stock</title><table>\
{% for item in items %}<tr class=\"{{ 'odd' if loop.index0 is odd else 'even' }}\">\
<td>{{ item.name | upper }}</td><td>{{ item.pieces }}</td>\
<td>{% if item.pieces < 10 %}soon gone{% else %}in stock{% endif %}</td></tr>
{% endfor %}</table>
";
/// Rows of a page at most.
const ROWS: usize = 100_000;
/// Words of the text.
const WORDS: usize = 40_000;
/// Bytes of a compiled pattern at most.
const COMPILED: usize = 1 << 20;
const SYLLABLES: [&str; 8] = ["an", "ber", "cor", "dol", "em", "for", "gan", "hor"];

#[derive(Serialize)]
struct Item {
    name: String,
    pieces: usize,
}

/// The template and the text.
pub(crate) struct Pages {
    templates: Environment<'static>,
    text: String,
}

impl Pages {
    pub(crate) fn new() -> Result<Self, minijinja::Error> {
        let mut templates = Environment::new();
        templates.add_template("stock.html", TEMPLATE)?;
        Ok(Self { templates, text: text() })
    }

    pub(crate) fn page(&self, rows: usize) -> Result<String, Failure> {
        if rows > ROWS {
            return Err((StatusCode::BAD_REQUEST, format!("at most {ROWS} rows\n")));
        }
        let item = |n: usize| Item { name: format!("item <{n}>"), pieces: n * 7 % 50 };
        let items: Vec<Item> = (0..rows).map(item).collect();
        let template = self.templates.get_template("stock.html");
        let page = template.and_then(|template| template.render(context! { items }));
        page.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
    }

    pub(crate) fn search(&self, pattern: &str) -> Result<usize, Failure> {
        let pattern = RegexBuilder::new(pattern).size_limit(COMPILED).build();
        let pattern = pattern.map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")))?;
        Ok(pattern.find_iter(&self.text).count())
    }
}

/// Words without a meaning, the same every time.
fn text() -> String {
    let mut dice = 1_u32;
    let mut words = String::new();
    for _ in 0..WORDS {
        for _ in 0..2 {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            words.push_str(SYLLABLES[(dice >> 29) as usize]);
        }
        words.push(' ');
    }
    words
}
