//! `web`: see the library, and `web --help`.
#![forbid(unsafe_code)]

use clap::Parser;
use curtail::Spec;
use curtail::pool::{Builder, Pool};
use std::error::Error;
use std::future::IntoFuture;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use web::How;

/// Requests under way have this long at the end.
const LIMIT: Duration = Duration::from_secs(5);

/// An axum service with a short request (POST /echo) and long ones (GET /page, /search, /report).
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Where to listen; port 0: any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Where the handlers run
    #[arg(long, value_name = "HOW", default_value = "curtail")]
    pool: How,
    /// Workers of Curtail's pool; by default one for each core
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// How long a request may run while others are ready, in microseconds
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..))]
    quantum_us: Option<u64>,
    /// The policy of Curtail's pool; see `curtail policies`
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
}

impl Args {
    fn builder(&self) -> Result<Builder, Box<dyn Error + Send + Sync>> {
        let mut builder = Pool::builder();
        if let Some(workers) = self.workers {
            builder = builder.workers(workers);
        }
        if let Some(name) = &self.policy {
            builder = builder.policy(Spec::preset(name)?);
        }
        if let Some(quantum) = self.quantum_us {
            builder = builder.quantum(Duration::from_micros(quantum));
        }
        Ok(builder)
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("web: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: &Args) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let chosen = args.pool.apply(web::site()?, args.builder()?)?;
    let listener = TcpListener::bind(args.listen).await;
    let listener = listener.map_err(|error| format!("{}: {error}", args.listen))?;
    println!("http://{}", listener.local_addr()?);
    if let Some((how, note)) = chosen.pool.as_ref().map(Pool::preempt) {
        eprintln!("pre-emption: {how}{}", note.map_or_else(String::new, |why| format!(": {why}")));
    }

    let (end, ends) = tokio::sync::oneshot::channel::<()>();
    let serving = axum::serve(listener, chosen.site).with_graceful_shutdown(async {
        let _ = ends.await;
    });
    let serving = tokio::spawn(serving.into_future());
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    // No new connections; what is under way is answered.
    let _ = end.send(());
    if let Ok(ended) = tokio::time::timeout(LIMIT, serving).await {
        ended??;
    } else {
        eprintln!("web: connections are still open after {LIMIT:?}, and are cut");
    }
    if let Some(pool) = chosen.pool {
        let left = tokio::task::spawn_blocking(move || shut_down(&pool)).await?;
        if left > 0 {
            eprintln!("web: {left} requests are left unanswered");
        }
    }
    Ok(())
}

/// How many jobs were left; tells what was served.
fn shut_down(pool: &Pool) -> usize {
    let left = pool.shutdown(LIMIT);
    for class in pool.stats() {
        eprintln!("{}: {} served, {} given up", class.name, class.completed, class.given_up);
    }
    left
}
