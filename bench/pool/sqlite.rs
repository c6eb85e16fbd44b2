//! `pool-sqlite MODE`: an axum service with one SQLite connection, in memory, behind one mutex, as
//! many have it: `GET /short/KEY` reads a row, `GET /long/ROWS` adds up so many. Prints its port.
//! MODE is where the queries run:
//!
//! * `curtail`: the handlers, whole, behind a `PoolLayer` with a class for each of the two;
//! * `spawn_blocking`: on tokio's threads for that.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{Request, StatusCode};
use axum::routing::get;
use curtail::ClassId;
use curtail::pool::{Class, Pool};
use curtail_tower::PoolLayer;
use rusqlite::Connection;
use std::sync::{Arc, Mutex};

const ROWS: i64 = 200_000;
const SHORT: &str = "SELECT value FROM entry WHERE key = ?";
const LONG: &str = "SELECT sum(value * key % 7) FROM entry WHERE key < ?";

type Db = Arc<Mutex<Connection>>;
type Answer = Result<String, StatusCode>;

fn ask(db: &Db, sql: &str, number: i64) -> Answer {
    let db = db.lock().expect("no query panics");
    let mut statement = db.prepare_cached(sql).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let value = statement.query_row([number], |row| row.get::<_, i64>(0));
    value.map(|value| value.to_string()).map_err(|_| StatusCode::NOT_FOUND)
}

async fn short(State(db): State<Db>, Path(key): Path<i64>) -> Answer {
    ask(&db, SHORT, key)
}

async fn long(State(db): State<Db>, Path(rows): Path<i64>) -> Answer {
    ask(&db, LONG, rows)
}

async fn elsewhere(db: Db, sql: &'static str, number: i64) -> Answer {
    let asked = tokio::task::spawn_blocking(move || ask(&db, sql, number)).await;
    asked.unwrap_or(Err(StatusCode::INTERNAL_SERVER_ERROR))
}

async fn short_elsewhere(State(db): State<Db>, Path(key): Path<i64>) -> Answer {
    elsewhere(db, SHORT, key).await
}

async fn long_elsewhere(State(db): State<Db>, Path(rows): Path<i64>) -> Answer {
    elsewhere(db, LONG, rows).await
}

fn filled() -> rusqlite::Result<Connection> {
    let mut db = Connection::open_in_memory()?;
    db.execute("CREATE TABLE entry (key INTEGER PRIMARY KEY, value INTEGER NOT NULL)", [])?;
    let all = db.transaction()?;
    {
        let mut insert = all.prepare("INSERT INTO entry VALUES (?, ?)")?;
        for key in 0..ROWS {
            insert.execute([key, key * 31 % 1_009])?;
        }
    }
    all.commit()?;
    Ok(db)
}

#[tokio::main]
async fn main() {
    let db: Db = Arc::new(Mutex::new(filled().expect("memory")));
    let routes = match std::env::args().nth(1).as_deref() {
        Some("curtail") => {
            let pool = Pool::builder().class(Class::named("short")).class(Class::named("long"));
            let pool = pool.build().expect("a pool");
            let layer = PoolLayer::new(pool, |request: &Request<_>| {
                ClassId(u16::from(request.uri().path().starts_with("/long")))
            });
            Router::new()
                .route("/short/{key}", get(short))
                .route("/long/{rows}", get(long))
                .layer(layer)
        }
        Some("spawn_blocking") => Router::new()
            .route("/short/{key}", get(short_elsewhere))
            .route("/long/{rows}", get(long_elsewhere)),
        _ => panic!("pool-sqlite curtail|spawn_blocking"),
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    println!("{}", listener.local_addr().expect("bound").port());
    axum::serve(listener, routes.with_state(db)).await.expect("it serves");
}
