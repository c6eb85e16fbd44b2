//! A small web shop on axum: one request is short, three compute for milliseconds.
//!
//! | request | what it does |
//! |---|---|
//! | `POST /echo` | sends JSON back |
//! | `GET /page?rows=N` | a page of N rows, from a template |
//! | `GET /search?pattern=P` | how often a regular expression occurs in a text |
//! | `GET /report?customers=N` | what the N best customers have spent, by SQLite |
//!
//! [`site`] is what a service on axum looks like before Curtail; [`How::apply`] is all that is added.
#![forbid(unsafe_code)]

mod how;
mod orders;
mod pages;

pub use how::{Chosen, How, LONG, SHORT, classify};
pub use orders::{Orders, Spent};

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::{get, post};
use axum::{Json, Router};
use pages::Pages;
use serde::Deserialize;
use std::error::Error;
use std::sync::Arc;

/// What went wrong, for a client.
type Failure = (StatusCode, String);

/// What the handlers share.
struct Shop {
    orders: Orders,
    pages: Pages,
}

#[derive(Deserialize)]
struct Page {
    #[serde(default = "some_rows")]
    rows: usize,
}

#[derive(Deserialize)]
struct Search {
    #[serde(default = "some_pattern")]
    pattern: String,
}

#[derive(Deserialize)]
struct Report {
    #[serde(default = "some_customers")]
    customers: u32,
}

fn some_rows() -> usize {
    2_000
}

fn some_pattern() -> String {
    r"\b(\w*an\w*)\s+(\w*or\w*)\b".to_owned()
}

fn some_customers() -> u32 {
    10
}

/// The service, as it is without any pool.
///
/// # Errors
/// Where its database can't be made.
pub fn site() -> Result<Router, Box<dyn Error + Send + Sync>> {
    let shop = Shop { orders: Orders::make()?, pages: Pages::new()? };
    Ok(Router::new()
        .route("/echo", post(echo))
        .route("/page", get(page))
        .route("/search", get(search))
        .route("/report", get(report))
        .with_state(Arc::new(shop)))
}

async fn echo(Json(value): Json<serde_json::Value>) -> Json<serde_json::Value> {
    Json(value)
}

async fn page(
    State(shop): State<Arc<Shop>>,
    Query(page): Query<Page>,
) -> Result<Html<String>, Failure> {
    shop.pages.page(page.rows).map(Html)
}

async fn search(
    State(shop): State<Arc<Shop>>,
    Query(search): Query<Search>,
) -> Result<String, Failure> {
    shop.pages.search(&search.pattern).map(|found| format!("{found}\n"))
}

async fn report(
    State(shop): State<Arc<Shop>>,
    Query(report): Query<Report>,
) -> Result<Json<Vec<Spent>>, Failure> {
    let best = shop.orders.best(report.customers);
    best.map(Json).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
