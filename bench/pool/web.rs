//! `pool-web MODE`: an axum service whose requests compute, `GET /short/STEPS` and `GET /long/STEPS`.
//! Prints its port. MODE is how the computing is done:
//!
//! * `curtail`: on a pool of Curtail's, with a class for each of the two;
//! * `spawn_blocking`: on tokio's threads for that;
//! * `tokio_inline`: in the handler;
//! * `rayon`: on a rayon pool, with a oneshot for the value.
//!
//! Everything has its defaults: as many threads as there are cores to run on.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::Router;
use curtail::ClassId;
use curtail::pool::{Class, Pool};
use std::hint::black_box;
use std::sync::Arc;

const SHORT: ClassId = ClassId(0);
const LONG: ClassId = ClassId(1);

enum Mode {
    Curtail(Pool),
    SpawnBlocking,
    Inline,
    Rayon(rayon::ThreadPool),
}

/// Work of so many steps, alike in every program and in the client.
fn work(steps: u64) -> u64 {
    let mut x = black_box(steps) | 1;
    for _ in 0..steps {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    x
}

async fn answer(mode: &Mode, class: ClassId, steps: u64) -> Result<String, StatusCode> {
    let value = match mode {
        Mode::Inline => Some(work(steps)),
        Mode::Curtail(pool) => pool.run(class, move || work(steps)).await.ok(),
        Mode::SpawnBlocking => tokio::task::spawn_blocking(move || work(steps)).await.ok(),
        Mode::Rayon(pool) => {
            let (value, comes) = tokio::sync::oneshot::channel();
            pool.spawn(move || {
                let _ = value.send(work(steps));
            });
            comes.await.ok()
        }
    };
    value.map(|value| value.to_string()).ok_or(StatusCode::SERVICE_UNAVAILABLE)
}

async fn short(State(mode): State<Arc<Mode>>, Path(steps): Path<u64>) -> Result<String, StatusCode> {
    answer(&mode, SHORT, steps).await
}

async fn long(State(mode): State<Arc<Mode>>, Path(steps): Path<u64>) -> Result<String, StatusCode> {
    answer(&mode, LONG, steps).await
}

/// `curtail`, or `curtail:POLICY` with `quantum=20us`-like settings for those who compare them.
fn pool(settings: &str) -> Pool {
    let mut pool = Pool::builder().class(Class::named("short")).class(Class::named("long"));
    for setting in settings.split(',').filter(|setting| !setting.is_empty()) {
        let (key, value) = setting.split_once('=').expect("KEY=VALUE");
        let number = || value.parse::<u64>().expect("a number");
        pool = match key {
            "policy" => pool.policy(curtail::Spec::preset(value).expect("a policy")),
            "quantum_us" => pool.quantum(std::time::Duration::from_micros(number())),
            "slice_us" => {
                let slice = Some(number()).filter(|slice| *slice > 0);
                pool.kernel_slice(slice.map(std::time::Duration::from_micros))
            }
            "nice" => pool.kernel_nice(number() as u32),
            "workers" => pool.workers(number() as usize),
            "core" => pool.cores([number() as usize]),
            other => panic!("no setting {other}"),
        };
    }
    let pool = pool.build().expect("a pool");
    if let (how, Some(why)) = pool.preempt() {
        eprintln!("pre-emption: {how}: {why}");
    }
    pool
}

#[tokio::main]
async fn main() {
    let mode = std::env::args().nth(1).expect("a mode");
    let mode = match mode.split_once(':').unwrap_or((&mode, "")) {
        ("curtail", settings) => Mode::Curtail(pool(settings)),
        ("spawn_blocking", _) => Mode::SpawnBlocking,
        ("tokio_inline", _) => Mode::Inline,
        ("rayon", _) => {
            Mode::Rayon(rayon::ThreadPoolBuilder::new().build().expect("a pool of rayon's"))
        }
        _ => panic!("no mode {mode}"),
    };
    let routes = Router::new()
        .route("/short/{steps}", get(short))
        .route("/long/{steps}", get(long))
        .with_state(Arc::new(mode));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    println!("{}", listener.local_addr().expect("bound").port());
    axum::serve(listener, routes).await.expect("it serves");
}
