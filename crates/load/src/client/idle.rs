//! Asking an idle server, one request at a time: whether it is there, and what its service takes.

use super::Client;
use super::wire::{Answer, Outcome};
use crate::Error;
use std::time::{Duration, Instant};

/// Requests of each class whose service times are asked for.
const ASKED: usize = 41;
/// Service times are asked for no longer than this.
const AT_MOST: Duration = Duration::from_millis(500);
/// After this long a request is repeated.
const RETRY: Duration = Duration::from_millis(100);
/// Between two requests to an address where no server listens.
const PAUSE: Duration = Duration::from_millis(20);
/// Unanswered requests in a row, after which an idle server counts as gone.
const GONE: u32 = 20;

/// What to say of another server.
pub(super) fn not_ours(status: u16) -> String {
    format!(
        "it answered {status} to a POST for --app, as no server of Curtail's does: for any web server, \
         --method GET"
    )
}

impl Client {
    /// Waits until the server answers, for up to `wait_ns`.
    ///
    /// # Errors
    /// It does not.
    pub fn greet(&mut self, wait_ns: u64) -> Result<(), Error> {
        let until = Instant::now() + Duration::from_nanos(wait_ns);
        let mut patience = RETRY;
        loop {
            let answer = self.ask(0, patience);
            // A server whose service takes longer answers in time, too, in the end.
            patience =
                (2 * patience).min(until.saturating_duration_since(Instant::now())).max(RETRY);
            match answer {
                Ok(Some(_)) => return Ok(()),
                Err(failure) if Instant::now() >= until => return Err(failure),
                Ok(None) if Instant::now() >= until => {
                    let waited = curtail_workload::format_duration(wait_ns);
                    let url = self.url();
                    return Err(Error::new(format!("{url}: no answer within {waited}")));
                }
                Ok(None) => {}
                // No server listens, and the kernel says so at once: it may be starting.
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// What each class's service takes by the server's own measure, on the median, in nanoseconds.
    /// An idle server pre-empts no request, so nothing but service is in it. 0: it does not say.
    ///
    /// # Errors
    /// A request fails, or no answers come any more.
    pub fn idle_services(&mut self, classes: usize) -> Result<Vec<u32>, Error> {
        let mut services = Vec::new();
        for class in 0..classes {
            let mut times: Vec<u64> = Vec::new();
            let start = Instant::now();
            let mut unanswered = 0;
            while times.len() < ASKED && (times.is_empty() || start.elapsed() < AT_MOST) {
                match self.ask(class as u16, RETRY)? {
                    Some(Answer { outcome: Outcome::Done, service_ns, .. }) => {
                        times.push(service_ns);
                        unanswered = 0;
                    }
                    Some(Answer { outcome: Outcome::Failed, .. }) => {
                        let url = self.url();
                        return Err(Error::new(format!("{url}: a request failed at the server")));
                    }
                    Some(_) | None => unanswered += 1,
                }
                if unanswered == GONE {
                    let url = self.url();
                    return Err(Error::new(format!("{url}: the server stopped answering")));
                }
            }
            times.sort_unstable();
            services.push(u32::try_from(times[times.len() / 2]).unwrap_or(u32::MAX));
        }
        Ok(services)
    }
}
