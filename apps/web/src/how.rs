//! Where the handlers run.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use clap::ValueEnum;
use curtail::ClassId;
use curtail::pool::{Builder, Class, Pool};
use curtail_tower::PoolLayer;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

/// The class of short requests.
pub const SHORT: ClassId = ClassId(0);
/// The class of long ones.
pub const LONG: ClassId = ClassId(1);

/// Where the handlers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum How {
    /// On tokio's threads, as if they were short
    None,
    /// On tokio's threads for what blocks
    SpawnBlocking,
    /// On a pool of Curtail's, by class
    Curtail,
}

/// A site with a way to run it.
#[derive(Debug)]
pub struct Chosen {
    /// What serves.
    pub site: Router,
    /// The pool, where there is one: it is shut down last.
    pub pool: Option<Pool>,
}

/// The class of a request, by its path.
pub fn classify<B>(request: &http::Request<B>) -> ClassId {
    if request.uri().path() == "/echo" { SHORT } else { LONG }
}

impl How {
    /// The site with its handlers running there.
    ///
    /// # Errors
    /// Where the pool can't be started.
    pub fn apply(self, site: Router, pool: Builder) -> Result<Chosen, curtail::StartError> {
        Ok(match self {
            Self::None => Chosen { site, pool: None },
            Self::SpawnBlocking => Chosen { site: site.layer(from_fn(blocking)), pool: None },
            Self::Curtail => {
                let short = Class::named("short");
                let pool = pool.class(short).class(Class::named("long").limit(256)).build()?;
                let site = site.layer(PoolLayer::new(pool.clone(), classify));
                Chosen { site, pool: Some(pool) }
            }
        })
    }
}

async fn blocking(request: Request, next: Next) -> Response {
    let runtime = Handle::current();
    let handler = spawn_blocking(move || runtime.block_on(next.run(request)));
    handler.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}
