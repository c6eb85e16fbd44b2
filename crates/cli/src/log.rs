//! What the runtime has to say while it runs: to standard error.
//!
//! Warnings and errors are told (a thread that could not be pinned, no pre-emption by signal, no
//! memory for a stack), or what the environment's `RUST_LOG` asks for: a level, or `TARGET=LEVEL`
//! with commas between. Set up once, by the main thread, before there are others.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Tells from now on.
pub(crate) fn listen() {
    let asked = std::env::var("RUST_LOG").unwrap_or_default();
    let filter = filter(&asked).unwrap_or_else(|problem| {
        say!("note: RUST_LOG: {problem}");
        usual()
    });
    let layer = fmt::layer().with_writer(std::io::stderr).log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(layer).init();
}

/// Where nothing is asked for.
fn usual() -> Targets {
    Targets::new().with_default(LevelFilter::WARN)
}

fn filter(asked: &str) -> Result<Targets, String> {
    if asked.trim().is_empty() {
        return Ok(usual());
    }
    asked.parse::<Targets>().map_err(|error| format!("`{asked}` is no filter: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn warnings_are_told_unless_something_else_is_asked_for() {
        let tells = |asked, level| filter(asked).unwrap().would_enable("curtail::worker", &level);
        for asked in ["", " ", "warn"] {
            assert!(tells(asked, Level::WARN) && !tells(asked, Level::INFO), "{asked}");
        }
        assert!(tells("curtail=info", Level::INFO) && !tells("curtail=info", Level::DEBUG));
        assert!(!tells("off", Level::ERROR));
        assert!(filter("curtail=loudly").unwrap_err().contains("curtail=loudly"));
    }
}
