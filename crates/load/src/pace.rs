//! What is due, and in what order.

use curtail_workload::Request;

/// Makes requests in the order of their times.
pub trait Source {
    /// A request. One is made ahead of its time, and its memory is used again for the next.
    type Request: Default;

    /// Replaces `next` by the next request: when it is due, in nanoseconds since the start. `None`:
    /// there are no more.
    fn draw(&mut self, next: &mut Self::Request) -> Option<u64>;
}

impl<I: Iterator<Item = Request>> Source for I {
    type Request = Request;

    fn draw(&mut self, next: &mut Request) -> Option<u64> {
        *next = self.next()?;
        Some(next.at_ns)
    }
}

/// Hands out requests when they are due. Times are nanoseconds since a start of the caller's.
#[derive(Debug)]
pub struct Pace<S: Source> {
    source: S,
    next: S::Request,
    /// When `next` is due; `None`: there are no more.
    due_ns: Option<u64>,
    end_ns: u64,
}

impl<S: Source> Pace<S> {
    /// The requests that are due before `end_ns`.
    pub fn new(source: S, end_ns: u64) -> Self {
        let mut pace = Self { source, next: S::Request::default(), due_ns: None, end_ns };
        pace.draw();
        pace
    }

    /// When the next request is due; `None`: all have been handed out.
    pub fn due_ns(&self) -> Option<u64> {
        self.due_ns
    }

    /// What makes the requests.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Hands out what is due, at most so many. `send` gets each with the time when it was due and the
    /// time now; it answers whether there was room. True: there was none, and that request is the
    /// next again.
    ///
    /// # Errors
    /// What `send` says; that request is the next again.
    pub fn send_due<E>(
        &mut self,
        mut now_ns: impl FnMut() -> u64,
        at_most: usize,
        mut send: impl FnMut(&S::Request, u64, u64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        for _ in 0..at_most {
            let Some(due_ns) = self.due_ns else { break };
            let now_ns = now_ns();
            if due_ns > now_ns {
                break;
            }
            if !send(&self.next, due_ns, now_ns)? {
                return Ok(true);
            }
            self.draw();
        }
        Ok(false)
    }

    /// Gives up the rest: `each` gets every request that was not handed out, and when it was due.
    pub fn skip_rest(&mut self, mut each: impl FnMut(&S::Request, u64)) {
        while let Some(due_ns) = self.due_ns {
            each(&self.next, due_ns);
            self.draw();
        }
    }

    fn draw(&mut self) {
        self.due_ns = self.source.draw(&mut self.next).filter(|&due_ns| due_ns < self.end_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_workload::{Arrivals, Mix, Requests, Until};
    use std::convert::Infallible;

    /// One each microsecond, from the first on.
    fn pace(end_ns: u64) -> Pace<Requests> {
        let mix = Mix::parse("a:500ns:1").unwrap();
        Pace::new(Requests::new(&mix, Arrivals::Uniform, 1e6, 1, Until::Jobs(u64::MAX)), end_ns)
    }

    fn sent(pace: &mut Pace<Requests>, now_ns: u64, at_most: usize) -> Vec<u64> {
        let mut sent = Vec::new();
        let full = pace.send_due(
            || now_ns,
            at_most,
            |request, due_ns, now| {
                assert_eq!((request.at_ns, now), (due_ns, now_ns));
                sent.push(due_ns);
                Ok::<_, Infallible>(true)
            },
        );
        assert_eq!(full, Ok(false));
        sent
    }

    #[test]
    fn what_is_due_comes_once_and_in_order() {
        let mut pace = pace(10_000);
        assert!(sent(&mut pace, 0, 8).is_empty());
        assert_eq!(sent(&mut pace, 2_500, 8), [1_000, 2_000]);
        assert_eq!(sent(&mut pace, 9_000, 2), [3_000, 4_000], "no more than that");
        assert_eq!(pace.due_ns(), Some(5_000));
        assert_eq!(sent(&mut pace, 50_000, 8).len(), 5, "what is due at the end is none of these");
        assert_eq!((pace.due_ns(), sent(&mut pace, 50_000, 8).len()), (None, 0));
    }

    #[test]
    fn what_has_no_room_or_fails_is_next_again() {
        let mut pace = pace(4_000);
        assert_eq!(
            pace.send_due(|| 9_000, 8, |_, due_ns, _| Ok::<_, ()>(due_ns < 2_000)),
            Ok(true)
        );
        assert_eq!(pace.send_due(|| 9_000, 8, |_, due_ns, _| Err::<bool, _>(due_ns)), Err(2_000));
        let mut left = Vec::new();
        pace.skip_rest(|_, due_ns| left.push(due_ns));
        assert_eq!((left, pace.due_ns()), (vec![2_000, 3_000], None));
    }

    #[test]
    fn time_is_read_for_each_request() {
        let mut pace = pace(u64::MAX);
        let mut clock = 0;
        let tick = || {
            clock += 1_500;
            clock
        };
        let mut late = Vec::new();
        let each = |_: &Request, due_ns: u64, now_ns: u64| {
            late.push(now_ns - due_ns);
            Ok::<_, Infallible>(true)
        };
        assert_eq!(pace.send_due(tick, 3, each), Ok(false));
        assert_eq!(late, [500, 1_000, 1_500]);
    }
}
