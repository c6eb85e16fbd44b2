//! Calls as bytes: a tag each, then numbers of seven bits a byte, the lowest first. Times are
//! differences from the call before, as they grow; no call but the first is longer than 128 bytes.

use super::{Call, Decided, Header};
use crate::{ClassId, Job, JobId, Nanos, WorkerId};
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

    fn job(&self, job: &Job, to: &mut Vec<u8>) {
        number(u64::from(job.id.0), to);
        number(u64::from(job.class.0), to);
        number(self.last.wrapping_sub(job.arrived.0), to);
        number(job.attained.0, to);
        maybe(job.pinned.map(|on| u64::from(on.0)), to);
        maybe(job.hint.map(|hint| hint.0), to);
    }

    fn head(&mut self, tag: u8, now: Nanos, on: WorkerId, to: &mut Vec<u8>) {
        to.push(tag);
        self.time(now, to);
        number(u64::from(on.0), to);
    }

    pub(super) fn write(&mut self, call: &Call, to: &mut Vec<u8>) {
        match call {
            Call::Begin(header) => {
                let text = header.to_string();
                to.push(0);
                number(text.len() as u64, to);
                to.extend_from_slice(text.as_bytes());
            }
            Call::Arrive { now, job, refused } => {
                to.push(if *refused { 2 } else { 1 });
                self.time(*now, to);
                self.job(job, to);
            }
            Call::Inherit { now, job } => {
                to.push(3);
                self.time(*now, to);
                self.job(job, to);
            }
            Call::Adopt { now, on, job } => {
                self.head(4, *now, *on, to);
                self.job(job, to);
            }
            Call::Yielded { now, on, job } => {
                self.head(5, *now, *on, to);
                self.job(job, to);
            }
            Call::Completed { now, on, job, attained } => {
                self.head(6, *now, *on, to);
                number(u64::from(job.0), to);
                number(attained.0, to);
            }
            Call::Blocked { now, on, job } => {
                self.head(7, *now, *on, to);
                number(u64::from(job.0), to);
            }
            Call::Woken { now, on, job } => {
                self.head(8, *now, *on, to);
                self.job(job, to);
            }
            Call::Resumed { now, on, job } => {
                self.head(9, *now, *on, to);
                number(u64::from(job.0), to);
            }
            Call::Serviced { on, quanta } => {
                to.push(10);
                number(u64::from(on.0), to);
                number(*quanta, to);
            }
            Call::SetQuantum { quantum } => {
                to.push(11);
                maybe(quantum.map(|quantum| quantum.0), to);
            }
            Call::Decide { now, decision } => self.decision(*now, *decision, to),
            Call::Renewed { now, on } => self.head(15, *now, *on, to),
            Call::WorkerUp { now, on } => self.head(16, *now, *on, to),
            Call::WorkerDown { now, on } => self.head(17, *now, *on, to),
        }
    }

    fn decision(&mut self, now: Nanos, decision: Decided, to: &mut Vec<u8>) {
        match decision {
            Decided::Idle => {
                to.push(12);
                self.time(now, to);
            }
            Decided::Run { job, on, quantum } => {
                self.head(13, now, on, to);
                number(u64::from(job.0), to);
                maybe(quantum.map(|quantum| quantum.0), to);
            }
            Decided::Preempt { on } => self.head(14, now, on, to),
        }
    }
}

/// Bytes that are no record, or not a whole one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damaged {
    /// They end inside a call: what wrote them did not come to its end.
    CutOff,
    /// They say something that no record says; what.
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

    fn job(&mut self, now: Nanos) -> Result<Job, Damaged> {
        Ok(Job {
            id: self.id()?,
            class: ClassId(self.narrow()?),
            arrived: Nanos(now.0.wrapping_sub(self.number()?)),
            attained: self.nanos()?,
            pinned: self.maybe(Self::worker)?,
            hint: self.maybe(Self::nanos)?,
        })
    }

    fn header(&mut self) -> Result<Header, Damaged> {
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
        0 => return from.header().map(Call::Begin),
        10 => return Ok(Call::Serviced { on: from.worker()?, quanta: from.number()? }),
        11 => return Ok(Call::SetQuantum { quantum: from.maybe(Bytes::nanos)? }),
        1..=17 => {}
        _ => return Err(Damaged::Nonsense(format!("there is no call number {tag}"))),
    }
    let now = from.time(last)?;
    match tag {
        1 | 2 => return Ok(Call::Arrive { now, job: from.job(now)?, refused: tag == 2 }),
        3 => return Ok(Call::Inherit { now, job: from.job(now)? }),
        12 => return Ok(Call::Decide { now, decision: Decided::Idle }),
        _ => {}
    }
    let on = from.worker()?;
    Ok(match tag {
        4 => Call::Adopt { now, on, job: from.job(now)? },
        5 => Call::Yielded { now, on, job: from.job(now)? },
        6 => Call::Completed { now, on, job: from.id()?, attained: from.nanos()? },
        7 => Call::Blocked { now, on, job: from.id()? },
        8 => Call::Woken { now, on, job: from.job(now)? },
        9 => Call::Resumed { now, on, job: from.id()? },
        13 => {
            let (job, quantum) = (from.id()?, from.maybe(Bytes::nanos)?);
            Call::Decide { now, decision: Decided::Run { job, on, quantum } }
        }
        14 => Call::Decide { now, decision: Decided::Preempt { on } },
        15 => Call::Renewed { now, on },
        16 => Call::WorkerUp { now, on },
        _ => Call::WorkerDown { now, on },
    })
}
