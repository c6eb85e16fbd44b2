//! A service on axum whose handlers run on a pool, each by its request's class; and a client.
#![forbid(unsafe_code)]

use axum::Router;
use axum::routing::get;
use curtail::ClassId;
use curtail::pool::{Class, Pool};
use curtail_tower::PoolLayer;
use std::error::Error;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn price() -> &'static str {
    "12.50"
}

/// Computes for a while; without a pool, all other requests of its thread would wait.
async fn report() -> String {
    let primes = (2..20_000_u32).filter(|n| (2..).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    format!("{} primes", primes.count())
}

async fn ask(address: std::net::SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (short, long) = (Class::named("short"), Class::named("long").limit(64));
    let pool = Pool::builder().class(short).class(long).build()?;
    let layer = PoolLayer::new(pool.clone(), |request: &http::Request<_>| {
        ClassId(u16::from(request.uri().path() == "/report"))
    });
    let site = Router::new().route("/price", get(price)).route("/report", get(report));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move { axum::serve(listener, site.layer(layer)).await });

    let (price, report) = tokio::join!(ask(address, "/price"), ask(address, "/report"));
    println!("price: {}\nreport: {}", price?, report?);

    serving.abort();
    let _ = serving.await;
    tokio::task::spawn_blocking(move || pool.shutdown(Duration::from_secs(5))).await?;
    Ok(())
}
