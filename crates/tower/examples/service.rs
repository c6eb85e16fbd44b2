//! The book's service on axum: one endpoint is slow, and no other waits for it.

use axum::{Router, extract::Request, routing::get};
use curtail::ClassId;
use curtail::pool::{Class, Pool};
use curtail_tower::PoolLayer;

async fn price() -> &'static str {
    "12.50\n"
}

/// Computes for a second or so. On tokio's threads, others would wait for it.
async fn report() -> String {
    let is_prime = |n: &u32| (2..).take_while(|d| d * d <= *n).all(|d| !n.is_multiple_of(d));
    format!("{} primes\n", (2..3_000_000).filter(is_prime).count())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let site = Router::new().route("/price", get(price)).route("/report", get(report));

    // These five lines are all that is new: each handler runs on a pool, by its request's class.
    let (short, long) = (Class::named("short"), Class::named("long").limit(256));
    let pool = Pool::builder().class(short).class(long).build()?;
    let site = site.layer(PoolLayer::new(pool, |request: &Request| {
        ClassId(u16::from(request.uri().path() == "/report"))
    }));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    axum::serve(listener, site).await?;
    Ok(())
}
