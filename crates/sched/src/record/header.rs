//! What a recorded scheduler was made from, as text: lines of `key value`.
//!
//! A specification is written with its fields, and once more as Rust shows it: what is read back
//! must show the same, so that a field that this text does not know of is noticed.

use crate::Setup;
use curtail_policy::{ClassPlan, DarcOptions, Nanos, Spec};
use std::fmt;
use std::str::FromStr;

/// A name on one line without spaces.
fn escape(name: &str) -> String {
    name.chars()
        .flat_map(|c| match c {
            '%' | '-' | ' ' | '\n' | '\r' | '\t' => {
                format!("%{:02x}", u32::from(c)).chars().collect::<Vec<_>>()
            }
            c => vec![c],
        })
        .collect()
}

fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut name = parts.next()?.to_owned();
    for part in parts {
        let code = u8::from_str_radix(part.get(..2)?, 16).ok()?;
        name.push(char::from(code));
        name.push_str(&part[2..]);
    }
    Some(name)
}

struct Maybe<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Maybe<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => write!(f, "{value}"),
            None => f.write_str("-"),
        }
    }
}

impl<T: FromStr> FromStr for Maybe<T> {
    type Err = T::Err;
    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "-" { Ok(Self(None)) } else { text.parse().map(|value| Self(Some(value))) }
    }
}

fn ns(nanos: Option<Nanos>) -> Maybe<u64> {
    Maybe(nanos.map(|nanos| nanos.0))
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec { name, dispatch, core, ties, victim, preempt, jbsq, .. } = &self.spec;
        let Self { workers, jobs, seed, pins, keeps_room, .. } = self;
        writeln!(f, "size {workers} {jobs} {seed} {pins} {keeps_room}")?;
        // Its code is in no record.
        let key = if self.spec.own.is_some() { "own" } else { "policy" };
        writeln!(f, "{key} {name}")?;
        writeln!(f, "parts {dispatch} {core} {ties} {victim} {preempt} {jbsq}")?;
        let (quantum, reserved) = (ns(self.spec.quantum), Maybe(self.spec.reserved));
        let (preemptive, conserving) = (self.spec.preemptive, self.spec.work_conserving);
        writeln!(f, "options {quantum} {reserved} {preemptive} {conserving}")?;
        let DarcOptions { delta_percent, window, slowdown, deviation_percent, spillway } =
            self.spec.darc;
        writeln!(f, "darc {delta_percent} {window} {slowdown} {deviation_percent} {spillway}")?;
        for plan in &self.spec.classes {
            let name = Maybe(plan.name.as_deref().map(escape));
            let (deadline, service) = (ns(plan.deadline), ns(plan.service));
            let (priority, occurrence) = (Maybe(plan.priority), Maybe(plan.occurrence));
            let (weight, bound) = (plan.weight, Maybe(plan.bound));
            writeln!(
                f,
                "class {name} {weight} {priority} {deadline} {service} {occurrence} {bound}"
            )?;
        }
        writeln!(f, "shown {:?}", self.spec)
    }
}

/// The words of a line, one after the other.
struct Words<'a> {
    line: &'a str,
    words: std::str::SplitWhitespace<'a>,
}

impl Words<'_> {
    fn next<T: FromStr>(&mut self) -> Result<T, String> {
        let word = self.words.next().and_then(|word| word.parse().ok());
        word.ok_or_else(|| format!("`{}` says nothing known here", self.line))
    }

    fn nanos(&mut self) -> Result<Option<Nanos>, String> {
        Ok(self.next::<Maybe<u64>>()?.0.map(Nanos))
    }

    fn class(&mut self) -> Result<ClassPlan, String> {
        let name = self.next::<Maybe<String>>()?.0;
        Ok(ClassPlan {
            name: name.map(|name| unescape(&name).unwrap_or(name)),
            weight: self.next()?,
            priority: self.next::<Maybe<u16>>()?.0,
            deadline: self.nanos()?,
            service: self.nanos()?,
            occurrence: self.next::<Maybe<u32>>()?.0,
            bound: self.next::<Maybe<u32>>()?.0,
        })
    }
}

impl FromStr for Setup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut header: Option<Self> = None;
        let (mut size, mut shown) = (None, None);
        for line in text.lines() {
            let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut words = Words { line, words: rest.split_whitespace() };
            let words = &mut words;
            match (key, &mut header) {
                ("size", _) => {
                    let (workers, jobs) = (words.next()?, words.next()?);
                    let (seed, pins) = (words.next()?, words.next()?);
                    // Records of earlier versions end here.
                    size = Some((workers, jobs, seed, pins, words.next().unwrap_or(false)));
                }
                ("policy", _) => {
                    let (workers, jobs, seed, pins, keeps_room) =
                        size.ok_or("there is no size before the policy")?;
                    let spec = Spec::preset(rest).map_err(|error| error.to_string())?;
                    header = Some(Self { spec, workers, jobs, seed, pins, keeps_room });
                }
                ("own", _) => {
                    return Err(format!(
                        "`{rest}` is a policy of the program's own, which is not here"
                    ));
                }
                ("shown", _) => shown = Some(rest),
                (key, Some(Self { spec, .. })) => set(spec, key, words)?,
                (_, None) => return Err(format!("`{line}` comes before a policy")),
            }
        }
        let header = header.ok_or("there is no policy in it")?;
        let reads = format!("{:?}", header.spec);
        match shown {
            Some(shown) if shown == reads => Ok(header),
            _ => Err(format!(
                "the policy `{}` was recorded by another version, with options that this one lacks: {}",
                header.spec.name,
                shown.unwrap_or("nothing is shown")
            )),
        }
    }
}

fn set(spec: &mut Spec, key: &str, words: &mut Words) -> Result<(), String> {
    match key {
        "parts" => {
            (spec.dispatch, spec.core, spec.ties) = (words.next()?, words.next()?, words.next()?);
            (spec.victim, spec.preempt, spec.jbsq) = (words.next()?, words.next()?, words.next()?);
        }
        "options" => {
            spec.quantum = words.nanos()?;
            spec.reserved = words.next::<Maybe<u16>>()?.0;
            (spec.preemptive, spec.work_conserving) = (words.next()?, words.next()?);
        }
        "darc" => {
            spec.darc = DarcOptions {
                delta_percent: words.next()?,
                window: words.next()?,
                slowdown: words.next()?,
                deviation_percent: words.next()?,
                spillway: words.next()?,
            };
        }
        "class" => spec.classes.push(words.class()?),
        // A line of a later version: what it changed shows in the end.
        _ => {}
    }
    Ok(())
}
