//! From the text back to calls, and those again to an allocator.

use super::HEAD;
use crate::{
    Allocator, Class, CoreId, CoreInfo, Detector, KthreadId, KthreadLook, Machine, Nanos, Program,
    ProgramId, Queue, Selector, Settings,
};
use std::str::{FromStr, SplitAsciiWhitespace};
use std::sync::{Arc, Mutex};

/// A record that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Damaged {
    /// Which, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: &'static str,
}

/// The first line at which an allocator decided otherwise than the record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which, from 1.
    pub line: usize,
    /// What the record says.
    pub recorded: String,
    /// What happened now.
    pub replayed: String,
}

/// Tells a new allocator everything that a record says, and compares its orders; `None`: they are the
/// same.
///
/// # Errors
/// A line that is none, or a machine that can't be.
pub fn replay(text: &str) -> Result<Option<Difference>, Damaged> {
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let mut head = |name| {
        let (line, text) = lines.next().ok_or(Damaged { line: 0, why: "it ends in the head" })?;
        let rest = text.strip_prefix(name).ok_or(Damaged { line, why: "the head is another" })?;
        Ok((line, rest))
    };
    head(HEAD)?;
    let (line, machine) = head("machine")?;
    let machine = read_machine(machine).ok_or(Damaged { line, why: "no machine" })?;
    let (line, settings) = head("settings")?;
    let settings = read_settings(settings).ok_or(Damaged { line, why: "no settings" })?;
    // Each call writes one line, which is what is compared.
    let written = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&written);
    let sink = Box::new(move |line: &str| line.clone_into(&mut sink.lock().expect("one thread")));
    let mut allocator = Allocator::recorded(machine, settings, sink)
        .map_err(|_| Damaged { line: 2, why: "a machine that can't be" })?;
    let mut looks = Vec::new();
    for (line, text) in lines {
        written.lock().expect("one thread").clear();
        call(&mut allocator, text, &mut looks).ok_or(Damaged { line, why: "no call" })?;
        let replayed = written.lock().expect("one thread").clone();
        if replayed != text {
            return Ok(Some(Difference { line, recorded: text.to_owned(), replayed }));
        }
    }
    Ok(None)
}

fn call(allocator: &mut Allocator, text: &str, looks: &mut Vec<KthreadLook>) -> Option<()> {
    let mut words = text.split_ascii_whitespace();
    let (what, now) = (words.next()?, Nanos(word(&mut words)?));
    match what {
        "add" => {
            let class = match words.next()? {
                "critical" => Class::LatencyCritical,
                "batch" => Class::Batch { looks: true },
                "blind" => Class::Batch { looks: false },
                _ => return None,
            };
            let mut number = || word(&mut words);
            let (kthreads, guaranteed, burstable) = (number()?, number()?, number()?);
            let program = Program { class, kthreads, guaranteed, burstable };
            allocator.add_program(now, program).ok()?;
        }
        "remove" => allocator.remove_program(now, ProgramId(word(&mut words)?)),
        "demote" => allocator.demote(now, ProgramId(word(&mut words)?)),
        "packets" => allocator.packets_waiting(now, ProgramId(word(&mut words)?)),
        "parked" => allocator.parked(now, kthread(words.next()?)?),
        "refused" => allocator.refused(now, kthread(words.next()?)?),
        "look" => {
            let program = ProgramId(word(&mut words)?);
            looks.clear();
            while let Some(state) = words.next() {
                looks.push(read_look(state, &mut words)?);
            }
            allocator.look(now, program, looks);
        }
        "order" | "nothing" => {
            let _compared_as_text = allocator.poll_order(now);
        }
        _ => return None,
    }
    Some(())
}

fn word<T: FromStr>(words: &mut SplitAsciiWhitespace<'_>) -> Option<T> {
    words.next()?.parse().ok()
}

fn kthread(text: &str) -> Option<KthreadId> {
    let (program, index) = text.split_once('.')?;
    Some(KthreadId { program: ProgramId(program.parse().ok()?), index: index.parse().ok()? })
}

fn read_look(state: &str, words: &mut SplitAsciiWhitespace<'_>) -> Option<KthreadLook> {
    let (parked, acknowledged) = match state {
        "pa" => (true, true),
        "p-" => (true, false),
        "ra" => (false, true),
        "r-" => (false, false),
        _ => return None,
    };
    let run = Queue { head: word(words)?, tail: word(words)? };
    let inbox = Queue { head: word(words)?, tail: word(words)? };
    let mut time = || match words.next()? {
        "-" => Some(None),
        at => Some(Some(Nanos(at.parse().ok()?))),
    };
    let (oldest_ready, next_timer) = (time()?, time()?);
    let stranded = word(words)?;
    Some(KthreadLook { parked, acknowledged, run, inbox, oldest_ready, next_timer, stranded })
}

fn read_machine(text: &str) -> Option<Machine> {
    let core = |text: &str| match text {
        "-" => Some(CoreInfo { sibling: None }),
        _ => Some(CoreInfo { sibling: Some(CoreId(text.parse().ok()?)) }),
    };
    Some(Machine { cores: text.split_ascii_whitespace().map(core).collect::<Option<_>>()? })
}

fn read_settings(text: &str) -> Option<Settings> {
    let value = |name: &str| {
        let mut pairs = text.split_ascii_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.find(|pair| pair.0 == name).map(|pair| pair.1)
    };
    let time = |name| Some(Nanos(value(name)?.parse().ok()?));
    let flag = |name| value(name)?.parse::<bool>().ok();
    let limit = |text: &str| Some(Nanos(text.parse().ok()?));
    let detector = match value("detector")?.split_once(':') {
        None if value("detector")? == "queues" => Detector::Queues,
        Some(("age", text)) => Detector::Age { limit: limit(text)? },
        Some(("either", text)) => Detector::Either { limit: limit(text)? },
        _ => return None,
    };
    Some(Settings {
        interval: time("interval")?,
        detector,
        selector: Selector { siblings: flag("siblings")?, affinity: flag("affinity")? },
        idler: flag("idler")?,
        grace: time("grace")?,
        give_up: time("give_up")?,
        rest: time("rest")?,
        rebalance: time("rebalance")?,
    })
}
