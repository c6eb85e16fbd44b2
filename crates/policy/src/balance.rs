//! Which of several dispatchers a request comes to: in the runtime, and in the simulator.
//!
//! A choice costs O(1) ([`Balance::Jsq`]: O(dispatchers)), and allocates nothing.

use crate::rng::Rng;
use std::fmt;
use std::str::FromStr;

/// How the requests are spread over several dispatchers, each with workers of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Any, all equally likely.
    Random,
    /// Receive-side scaling: a request belongs to a flow, and each flow was dealt to a dispatcher at
    /// random once and for all.
    Rss,
    /// The dispatcher with the fewest jobs in the system for each of its workers; of equals, the
    /// first.
    #[default]
    Jsq,
    /// The better of two distinct ones drawn at random; of equals, the one drawn first.
    PowerOfTwo,
}

impl Balance {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Random, Self::Rss, Self::Jsq, Self::PowerOfTwo];

    /// Its name in options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Rss => "rss",
            Self::Jsq => "jsq",
            Self::PowerOfTwo => "power-of-two",
        }
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Balance {
    type Err = String;
    fn from_str(given: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|it| it.name() == given).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown balance `{given}` (known: {known})")
        })
    }
}

/// Jobs that a dispatcher and its workers hold, and how many workers these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Unfinished jobs.
    pub jobs: usize,
    /// Workers; at least one.
    pub workers: usize,
}

impl Share {
    /// Fewer jobs for each worker; compared without dividing.
    fn is_shorter(self, other: Self) -> bool {
        self.jobs * other.workers < other.jobs * self.workers
    }
}

/// Some flows that have most of the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotFlows {
    /// How many, at least one.
    pub flows: usize,
    /// Their share of all requests, from 0 to 1; each has as many of these.
    pub share: f64,
}

impl FromStr for HotFlows {
    type Err = String;
    fn from_str(given: &str) -> Result<Self, String> {
        let parts = given.split_once(':').and_then(|(flows, share)| {
            Some(Self { flows: flows.parse().ok()?, share: share.parse().ok()? })
        });
        parts.filter(|hot| hot.flows > 0 && (0.0..=1.0).contains(&hot.share)).ok_or_else(|| {
            format!(
                "`{given}` is no number of flows and their share of the requests, such as 2:0.9"
            )
        })
    }
}

/// Spreads requests over dispatchers.
pub struct Balancer {
    balance: Balance,
    dispatchers: usize,
    /// The dispatcher of each flow.
    flows: Vec<u16>,
    hot: Option<HotFlows>,
    random: Box<dyn FnMut() -> u64 + Send>,
}

impl Balancer {
    /// Over so many dispatchers, with `random` numbers over all of `u64`; [`Balance::Rss`] tells so
    /// many flows apart.
    ///
    /// # Panics
    /// Without dispatchers, or by flows without any.
    pub fn new(
        balance: Balance,
        dispatchers: usize,
        flows: usize,
        random: impl FnMut() -> u64 + Send + 'static,
    ) -> Self {
        assert!(dispatchers > 0, "requests come to a dispatcher");
        let random = Box::new(random);
        let mut balancer = Self { balance, dispatchers, flows: Vec::new(), hot: None, random };
        if balance == Balance::Rss {
            assert!(flows > 0, "receive-side scaling is by flows");
            balancer.flows = (0..flows).map(|_| balancer.below(dispatchers) as u16).collect();
        }
        balancer
    }

    /// A balancer with random numbers of its own, from a seed.
    ///
    /// # Panics
    /// As [`Balancer::new`].
    #[must_use]
    pub fn seeded(balance: Balance, dispatchers: usize, flows: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self::new(balance, dispatchers, flows, move || rng.next())
    }

    /// The first flows are hot. For requests that are not told the flow of.
    ///
    /// # Panics
    /// Where there are no others.
    #[must_use]
    pub fn with_hot(mut self, hot: Option<HotFlows>) -> Self {
        if let Some(hot) = hot.filter(|_| self.balance == Balance::Rss) {
            assert!(hot.flows < self.flows.len(), "hot flows are a part of all");
        }
        self.hot = hot;
        self
    }

    /// A flow, drawn.
    fn draw(&mut self) -> usize {
        let Some(HotFlows { flows, share }) = self.hot else { return self.below(self.flows.len()) };
        // Of 53 bits, as many as a fraction has.
        let is_hot = ((self.random)() >> 11) as f64 / (1_u64 << 53) as f64 <= share;
        if is_hot { self.below(flows) } else { flows + self.below(self.flows.len() - flows) }
    }

    fn below(&mut self, n: usize) -> usize {
        ((u128::from((self.random)()) * n as u128) >> 64) as usize
    }

    /// The dispatcher for the next request. `flow`: what tells the request's flow from others;
    /// `None`: any. `share`: how a dispatcher stands.
    #[inline]
    pub fn choose(&mut self, flow: Option<u64>, share: impl Fn(usize) -> Share) -> usize {
        let n = self.dispatchers;
        match self.balance {
            _ if n == 1 => 0,
            Balance::Random => self.below(n),
            Balance::Rss => {
                let flow = match flow {
                    Some(flow) => (flow % self.flows.len() as u64) as usize,
                    None => self.draw(),
                };
                usize::from(self.flows[flow])
            }
            Balance::Jsq => {
                (1..n).fold(0, |best, i| if share(i).is_shorter(share(best)) { i } else { best })
            }
            Balance::PowerOfTwo => {
                let first = self.below(n);
                let other = self.below(n - 1);
                let second = other + usize::from(other >= first);
                if share(second).is_shorter(share(first)) { second } else { first }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_flows_have_their_share() {
        let hot: HotFlows = "2:0.9".parse().unwrap();
        let mut balancer = Balancer::seeded(Balance::Rss, 16, 16, 7).with_hot(Some(hot));
        let mut of_hot = 0;
        for _ in 0..10_000 {
            of_hot += u32::from(balancer.draw() < 2);
        }
        assert!((8_850..9_150).contains(&of_hot), "{of_hot}");
        for nonsense in ["", "2", "0:0.5", "2:1.5", "2:x", "-1:0.5"] {
            nonsense.parse::<HotFlows>().unwrap_err();
        }
    }

    fn balancer(balance: Balance) -> Balancer {
        Balancer::seeded(balance, 3, 64, 1)
    }

    /// How many of 3,000 requests come to each, where they hold so many jobs.
    fn chosen(balance: Balance, jobs: [usize; 3], flow: Option<u64>) -> [usize; 3] {
        let mut balancer = balancer(balance);
        let mut hits = [0; 3];
        for _ in 0..3_000 {
            hits[balancer.choose(flow, |i| Share { jobs: jobs[i], workers: i + 1 })] += 1;
        }
        hits
    }

    #[test]
    fn each_by_its_rule() {
        // For each worker: 2, 3 and 1 jobs.
        let jobs = [2, 6, 3];
        assert_eq!(chosen(Balance::Jsq, jobs, None), [0, 0, 3_000]);
        assert_eq!(chosen(Balance::Jsq, [1, 2, 3], None), [3_000, 0, 0], "of equals, the first");
        let [first, second, third] = chosen(Balance::PowerOfTwo, jobs, None);
        // A third of the pairs is without the best; the worst is never the better.
        assert!((800..1_200).contains(&first) && second == 0 && third > 1_800, "{first} {third}");
        assert!(chosen(Balance::Random, jobs, None).iter().all(|&n| (800..1_200).contains(&n)));
        let mut of_a_flow = chosen(Balance::Rss, jobs, Some(70));
        of_a_flow.sort_unstable();
        assert_eq!(of_a_flow, [0, 0, 3_000], "a flow stays where it is");
        assert!(chosen(Balance::Rss, jobs, None).iter().all(|&n| n > 300));
    }

    #[test]
    fn names_are_read_back() {
        for balance in Balance::ALL {
            assert_eq!(balance.to_string().parse(), Ok(balance));
        }
        assert!("best".parse::<Balance>().unwrap_err().contains("power-of-two"));
    }
}
