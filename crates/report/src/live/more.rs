//! Of a running server: its oldest requests, where code stalled, and what was lost on the way.

use super::{Live, columns, printable};
use crate::duration;
use crate::units::count;
use serde::{Deserialize, Serialize};

/// A request in progress.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveRequest {
    /// The name of its class.
    pub class: String,
    /// How long it has been in the system.
    pub age_ns: u64,
    /// The service that it has had, as far as its worker has told.
    pub attained_ns: u64,
    /// `waiting`, `on worker 0`, `blocked on worker 0`.
    pub state: String,
}

/// A place where code ran for long without a safepoint, or blocked in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveStall {
    /// The innermost function that is no library's.
    pub function: String,
    /// How often.
    pub count: u64,
    /// The longest so far.
    pub longest_ns: u64,
    /// The stack of the last one, innermost first.
    pub stack: Vec<String>,
}

/// Counts of transports whose names contain one of these are of what was lost.
const LOSSES: [&str; 9] =
    ["dropped", "refused", "errors", "too_long", "cut", "unread", "stalled", "evicted", "starved"];

impl Live {
    /// What was lost, on one line; what was taken in is no news.
    pub(super) fn losses(&self, out: &mut String) {
        let losses = self
            .transports
            .iter()
            .filter(|(name, count)| **count > 0 && LOSSES.iter().any(|loss| name.contains(loss)));
        let losses: Vec<_> =
            losses.map(|(name, lost)| format!("{} {}", printable(name), count(*lost))).collect();
        if !losses.is_empty() {
            out.push_str(&format!("{}\n", losses.join(", ")));
        }
    }

    pub(super) fn requests_table(&self, out: &mut String) {
        if self.requests.is_empty() {
            return;
        }
        let head = ["oldest", "age", "served", "state"].map(str::to_owned).to_vec();
        let row = |request: &LiveRequest| {
            let times = [request.age_ns, request.attained_ns].map(|ns| duration(ns as f64));
            let [age, served] = times;
            vec![printable(&request.class), age, served, printable(&request.state)]
        };
        out.push('\n');
        columns(std::iter::once(head).chain(self.requests.iter().map(row)), out);
    }

    pub(super) fn stalls_table(&self, out: &mut String) {
        if self.stalls.is_empty() {
            return;
        }
        let head = ["stalls in", "times", "longest"].map(str::to_owned).to_vec();
        let row = |stall: &LiveStall| {
            let longest = duration(stall.longest_ns as f64);
            vec![printable(&stall.function), count(stall.count), longest]
        };
        out.push('\n');
        columns(std::iter::once(head).chain(self.stalls.iter().map(row)), out);
        // Of the most frequent one.
        for frame in self.stalls.first().iter().flat_map(|stall| &stall.stack) {
            out.push_str(&format!("    {}\n", printable(frame)));
        }
    }
}
