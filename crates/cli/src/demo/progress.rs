//! How far it is, on standard error: a bar where that is a terminal, a line a run elsewhere. Drawn
//! between runs only, as during a run the cores have other things to do.

use crate::output;
use indicatif::ProgressBar;
use std::io::{IsTerminal, stderr};

pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    /// Runs begun.
    begun: usize,
}

impl Progress {
    pub(super) fn new(total: usize) -> Self {
        let bar = stderr().is_terminal().then(|| output::bar(Some(total as u64), output::RUNS));
        Self { bar, total, begun: 0 }
    }

    /// Something beside the runs begins.
    pub(super) fn say(&mut self, what: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.begun as u64);
                bar.set_message(what.to_owned());
                bar.tick();
            }
            None => say!("{what}"),
        }
    }

    /// The next run begins.
    pub(super) fn next(&mut self, what: &str) {
        match &self.bar {
            Some(_) => self.say(what),
            None => say!("{}/{} {what}", self.begun + 1, self.total),
        }
        self.begun += 1;
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
