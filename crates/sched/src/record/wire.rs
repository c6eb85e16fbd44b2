//! Calls as bytes: a tag each, then numbers of seven bits a byte, the lowest first. Times are
//! differences from the call before, as they grow; no call without a setup is longer than 128 bytes.

use super::Call;
use crate::{Action, Arrival, Event, EventKind, Setup};
use curtail_policy::{ClassId, JobId, Nanos, WorkerId};
use std::fmt;

/// How a record begins.
pub const MAGIC: &[u8; 8] = b"CURTREC2";

/// Writes calls, one after the other.
#[derive(Default)]
pub(super) struct Writer {
    last: u64,
}

fn number(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn maybe(value: Option<u64>, to: &mut Vec<u8>) {
    to.push(u8::from(value.is_some()));
    value.into_iter().for_each(|value| number(value, to));
}

impl Writer {
    fn time(&mut self, now: Nanos, to: &mut Vec<u8>) {
        // Time never goes back; what does anyway is written as it was by wrapping.
        number(now.0.wrapping_sub(self.last), to);
        self.last = now.0;
    }

    fn head(&mut self, tag: u8, now: Nanos, on: WorkerId, to: &mut Vec<u8>) {
        to.push(tag);
        self.time(now, to);
        number(u64::from(on.0), to);
    }

    fn setup(setup: &Setup, to: &mut Vec<u8>) {
        let text = setup.to_string();
        number(text.len() as u64, to);
        to.extend_from_slice(text.as_bytes());
    }

    pub(super) fn write(&mut self, call: &Call, to: &mut Vec<u8>) {
        match call {
            Call::Begin(setup) => {
                to.push(0);
                Self::setup(setup, to);
            }
            Call::Switch { now, setup } => {
                to.push(1);
                self.time(*now, to);
                Self::setup(setup, to);
            }
            Call::Quantum { quantum } => {
                to.push(2);
                maybe(quantum.map(|quantum| quantum.0), to);
            }
            Call::Arrive { now, arrival, admitted } => {
                to.push(3);
                self.time(*now, to);
                number(u64::from(arrival.class.0), to);
                number(self.last.wrapping_sub(arrival.at.0), to);
                maybe(arrival.hint.map(|hint| hint.0), to);
                maybe(admitted.map(|job| u64::from(job.0)), to);
            }
            Call::Event { now, on, event } => {
                self.head(FIRST_EVENT + event_tag(event.what), *now, *on, to);
                number(u64::from(event.job.0), to);
                number(event.attained.0, to);
            }
            Call::Cancel { now, job, begun } => {
                to.push(if *begun { 20 } else { 19 });
                self.time(*now, to);
                number(u64::from(job.0), to);
            }
            Call::Serviced { on, quanta } => {
                to.push(4);
                number(u64::from(on.0), to);
                number(*quanta, to);
            }
            Call::WorkerUp { now, on } => self.head(5, *now, *on, to),
            Call::WorkerDown { now, on } => self.head(6, *now, *on, to),
            Call::QuantumOver { now, on, yields } => {
                self.head(if *yields { 8 } else { 7 }, *now, *on, to);
            }
            Call::Poll { now, action } => self.action(*now, *action, to),
        }
    }

    fn action(&mut self, now: Nanos, action: Option<Action>, to: &mut Vec<u8>) {
        match action {
            None => {
                to.push(9);
                self.time(now, to);
            }
            Some(Action::Run { job, on, quantum }) => {
                self.head(10, now, on, to);
                number(u64::from(job.0), to);
                maybe(quantum.map(|quantum| quantum.0), to);
            }
            Some(Action::Preempt { on }) => self.head(11, now, on, to),
            Some(Action::Drop { job }) => {
                to.push(21);
                self.time(now, to);
                number(u64::from(job.0), to);
            }
        }
    }
}

/// The tag of the first of [`EVENTS`].
const FIRST_EVENT: u8 = 12;
const EVENTS: [EventKind; 7] = [
    EventKind::Ended,
    EventKind::Preempted,
    EventKind::Yielded,
    EventKind::Blocked,
    EventKind::Woken,
    EventKind::Resumed,
    EventKind::Returned,
];

fn event_tag(what: EventKind) -> u8 {
    EVENTS.iter().position(|it| *it == what).unwrap_or_default() as u8
}

/// Bytes that are no record, or not a whole one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// The bytes end inside a call: what wrote them did not come to its end.
    CutOff,
    /// The bytes say something that no record says; what.
    Nonsense(String),
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff => f.write_str("it ends in the middle of a call"),
            Self::Nonsense(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Damaged {}

/// Reads calls, one after the other, from bytes that may come in pieces.
#[derive(Default)]
pub struct Reader {
    last: u64,
}

/// The bytes of one call, and how many of them were used.
struct Bytes<'a> {
    bytes: &'a [u8],
    used: usize,
}

impl Bytes<'_> {
    fn byte(&mut self) -> Result<u8, Damaged> {
        let byte = *self.bytes.get(self.used).ok_or(Damaged::CutOff)?;
        self.used += 1;
        Ok(byte)
    }

    fn number(&mut self) -> Result<u64, Damaged> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damaged::Nonsense("a number without end".to_owned()))
    }

    fn narrow<T: TryFrom<u64>>(&mut self) -> Result<T, Damaged> {
        let number = self.number()?;
        T::try_from(number)
            .map_err(|_| Damaged::Nonsense(format!("{number} is too large a number")))
    }

    fn maybe<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            other => Err(Damaged::Nonsense(format!("{other} is neither yes nor no"))),
        }
    }

    fn nanos(&mut self) -> Result<Nanos, Damaged> {
        self.number().map(Nanos)
    }

    fn worker(&mut self) -> Result<WorkerId, Damaged> {
        self.narrow().map(WorkerId)
    }

    fn id(&mut self) -> Result<JobId, Damaged> {
        self.narrow().map(JobId)
    }

    fn time(&mut self, last: &mut u64) -> Result<Nanos, Damaged> {
        *last = last.wrapping_add(self.number()?);
        Ok(Nanos(*last))
    }

    fn setup(&mut self) -> Result<Setup, Damaged> {
        let length: usize = self.narrow()?;
        let end = self.used.checked_add(length);
        let text = end.and_then(|end| self.bytes.get(self.used..end)).ok_or(Damaged::CutOff)?;
        self.used += length;
        let nonsense = |why: String| Damaged::Nonsense(why);
        let text = std::str::from_utf8(text).map_err(|error| nonsense(error.to_string()))?;
        text.parse().map_err(nonsense)
    }
}

impl Reader {
    /// The first call in `bytes`, which begin where the last call ended, and its length.
    ///
    /// # Errors
    /// [`Damaged::CutOff`]: with more bytes it may be a call; nothing is changed. Otherwise it is
    /// none.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(Call, usize), Damaged> {
        let mut from = Bytes { bytes, used: 0 };
        let mut last = self.last;
        let call = call(&mut from, &mut last)?;
        self.last = last;
        Ok((call, from.used))
    }
}

fn call(from: &mut Bytes, last: &mut u64) -> Result<Call, Damaged> {
    let tag = from.byte()?;
    match tag {
        0 => return from.setup().map(Call::Begin),
        2 => return Ok(Call::Quantum { quantum: from.maybe(Bytes::nanos)? }),
        4 => return Ok(Call::Serviced { on: from.worker()?, quanta: from.number()? }),
        1..=21 => {}
        _ => return Err(Damaged::Nonsense(format!("there is no call number {tag}"))),
    }
    let now = from.time(last)?;
    match tag {
        1 => return Ok(Call::Switch { now, setup: from.setup()? }),
        3 => {
            let arrival = Arrival {
                class: ClassId(from.narrow()?),
                at: Nanos(now.0.wrapping_sub(from.number()?)),
                hint: from.maybe(Bytes::nanos)?,
            };
            return Ok(Call::Arrive { now, arrival, admitted: from.maybe(Bytes::id)? });
        }
        9 => return Ok(Call::Poll { now, action: None }),
        19 | 20 => return Ok(Call::Cancel { now, job: from.id()?, begun: tag == 20 }),
        21 => {
            let action = Some(Action::Drop { job: from.id()? });
            return Ok(Call::Poll { now, action });
        }
        _ => {}
    }
    let on = from.worker()?;
    Ok(match tag {
        5 => Call::WorkerUp { now, on },
        6 => Call::WorkerDown { now, on },
        7 | 8 => Call::QuantumOver { now, on, yields: tag == 8 },
        10 => {
            let (job, quantum) = (from.id()?, from.maybe(Bytes::nanos)?);
            Call::Poll { now, action: Some(Action::Run { job, on, quantum }) }
        }
        11 => Call::Poll { now, action: Some(Action::Preempt { on }) },
        _ => {
            let what = EVENTS[usize::from(tag - FIRST_EVENT)];
            let (job, attained) = (from.id()?, from.nanos()?);
            Call::Event { now, on, event: Event { job, attained, what } }
        }
    })
}
