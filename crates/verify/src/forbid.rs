//! Places where no safepoint may be: the rules of `pass/src/guard/exclude.cpp`, told from the linked program.

use crate::finding::{Finding, What};
use crate::handlers;
use crate::names;
use crate::notes::REASONS;
use crate::probes::Kind;
use crate::program::Program;
use std::collections::HashMap;

/// Everything that is known of forbidden places in one program.
pub struct Rules<'a> {
    program: &'a Program<'a>,
    keep_out: &'a [String],
    startup: HashMap<u64, &'static str>,
    handlers: HashMap<usize, u64>,
}

impl<'a> Rules<'a> {
    /// `keep_out`: names and globs of functions, beside what is built in.
    #[must_use]
    pub fn new(program: &'a Program<'a>, keep_out: &'a [String]) -> Self {
        let startup = program.image.startup();
        Rules { program, keep_out, startup, handlers: handlers::find(program) }
    }

    /// Is a name on the list? Of a Rust function's name, what is generic in it may be left out.
    #[must_use]
    pub fn is_kept_out(&self, name: &str) -> bool {
        self.keep_out.iter().any(|glob| glob == name || names::matches(glob, name))
    }

    /// Why a function may have no safepoint.
    #[must_use]
    pub fn reason(&self, function: usize) -> Option<String> {
        let program = self.program;
        let extent = &program.image.functions[function];
        if let Some(note) = program.notes.function(extent.address).filter(|note| note.why != 0) {
            let text = REASONS.get(usize::from(note.why)).unwrap_or(&"left alone");
            return Some((*text).to_owned());
        }
        if let Some(what) = self.startup.get(&extent.address) {
            return Some(format!("a {what}"));
        }
        if let Some(at) = self.handlers.get(&function) {
            return Some(format!("a signal handler (set at {at:#x})"));
        }
        let names = program.image.names.at(extent.address);
        names.iter().find_map(|name| self.name_reason(name))
    }

    fn name_reason(&self, symbol: &str) -> Option<String> {
        let readable = names::demangle(symbol);
        if self.is_kept_out(symbol) || self.is_kept_out(&readable) {
            return Some("on the keep-out list".into());
        }
        let root = names::root_of(&readable);
        let mangled = readable != symbol;
        let ours = (root == "curtail" || root.starts_with("curtail_"))
            && !names::calls_the_user(&readable);
        if symbol.starts_with("curtail_safepoint") || mangled && ours {
            return Some("a part of Curtail".into());
        }
        if mangled && root == "__rustc"
            || names::is_listed("allocator", symbol)
            || readable.contains(" as core::alloc::global::GlobalAlloc>::")
            || mangled
                && ["::operator new", "::operator delete"].iter().any(|of| readable.contains(of))
        {
            return Some("an allocator".into());
        }
        let kinds = [
            ("initialiser", "a static initialiser"),
            ("exception", "exception support"),
            ("kept-out", "kept out by default"),
        ];
        let found = kinds.into_iter().find(|(kind, _)| names::is_listed(kind, symbol));
        found.map(|(_, why)| why.to_owned())
    }

    /// Safepoints in functions that may have none. Inside the runtime, those by hand are its own.
    #[must_use]
    pub fn check(&self, inlined: &dyn Fn(u64) -> Vec<String>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (function, probes) in self.program.probes.iter().enumerate() {
            if probes.is_empty() {
                continue;
            }
            let reason = self.reason(function);
            let runtime = reason.as_deref() == Some("a part of Curtail");
            for probe in probes {
                if runtime && probe.kind == Kind::ByHand {
                    continue;
                }
                let why = reason.clone().or_else(|| self.inlined_reason(&inlined(probe.address)));
                if let Some(why) = why {
                    let detail = format!("a safepoint in {why}");
                    findings.push(Finding::new(What::Forbidden, function, probe.address, detail));
                }
            }
        }
        findings
    }

    /// A function that is to be kept out may have been inlined; line tables tell.
    fn inlined_reason(&self, frames: &[String]) -> Option<String> {
        if self.keep_out.is_empty() {
            return None;
        }
        let frame = frames
            .iter()
            .find(|name| self.is_kept_out(name) || self.is_kept_out(&names::demangle(name)))?;
        Some(format!("{}, on the keep-out list, inlined here", names::demangle(frame)))
    }
}
