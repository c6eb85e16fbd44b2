//! `curtail_settings`: in the words of the command line.
//!
//! One thread's at a time, as the header says. A value is checked when it is set; whether they fit each
//! other, when they are used.

use crate::border::{CError, Failure, Status, given, guard, text};
use curtail::policy::{Shape, UnknownPolicy};
use curtail::{DispatcherMode, Preempt, ServerBuilder, Spec};
use curtail_observe::Observable;
use std::ffi::c_char;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// `curtail_settings`.
#[derive(Default)]
pub struct Settings {
    policy: Option<Spec>,
    shape: Shape,
    server: ServerSettings,
    /// One that is of the server and not of its policy, if any is set.
    of_server: Option<&'static str>,
}

#[derive(Default)]
struct ServerSettings {
    listen: Option<String>,
    workers: Option<usize>,
    dispatchers: Option<usize>,
    cores: Option<Vec<usize>>,
    preempt: Preempt,
    dispatcher: DispatcherMode,
    capacity: Option<usize>,
    stack_kib: Option<usize>,
    drain: Option<Duration>,
    seed: Option<u64>,
    record: Option<PathBuf>,
    keep_out: Vec<String>,
    observable: Option<String>,
    by_hand: bool,
}

const OF_POLICY: &[&str] = &[
    "policy",
    "quantum",
    "jbsq",
    "ties",
    "core",
    "victim",
    "work-conserving",
    "preemptive",
    "reserved",
    "weights",
    "priorities",
    "deadlines",
    "queue-bounds",
    "delta",
    "profile-window",
    "profile-slowdown",
    "profile-deviation",
    "spillway",
];
const OF_SERVER: &[&str] = &[
    "listen",
    "workers",
    "dispatchers",
    "cores",
    "preempt",
    "dispatcher",
    "capacity",
    "stack-kib",
    "drain",
    "seed",
    "record",
    "keep-out",
    "observable",
    "safepoints-by-hand",
];

fn plain<T: FromStr<Err: Display>>(value: &str) -> Result<T, String> {
    value.parse().map_err(|error: T::Err| error.to_string())
}

fn within<T: FromStr<Err: Display> + PartialOrd + Display>(
    value: &str,
    range: RangeInclusive<T>,
) -> Result<T, String> {
    let number: T = plain(value)?;
    if range.contains(&number) {
        return Ok(number);
    }
    Err(format!("from {} to {}", range.start(), range.end()))
}

fn list<T>(value: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    value.split(',').map(|part| item(part.trim())).collect()
}

fn duration(value: &str) -> Result<u64, String> {
    curtail_notation::duration_ns(value).map_err(|error| error.to_string())
}

fn factor_percent(value: &str) -> Result<u32, String> {
    let factor: f64 = within(value, 1.0..=1e6)?;
    Ok((factor * 100.0).round() as u32)
}

impl Settings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let done = if OF_POLICY.contains(&name) {
            self.set_policy(name, value)
        } else if let Some(known) = OF_SERVER.iter().find(|&&known| known == name) {
            self.server.set(name, value).map(|()| self.of_server = Some(known))
        } else {
            let known = OF_POLICY.iter().chain(OF_SERVER).copied().collect();
            let unknown = UnknownPolicy { what: "setting", given: name.to_owned(), known };
            return Err(Failure::setting(unknown));
        };
        done.map_err(|reason| Failure::setting(format!("{name} `{value}`: {reason}")))
    }

    fn set_policy(&mut self, name: &str, value: &str) -> Result<(), String> {
        let shape = &mut self.shape;
        match name {
            "policy" => {
                self.policy = Some(Spec::preset(value).map_err(|unknown| unknown.to_string())?);
            }
            "quantum" => shape.quantum_ns = Some(duration(value)?),
            "jbsq" => shape.jbsq = Some(within(value, 1..=u16::MAX)?),
            "ties" => shape.ties = Some(plain(value)?),
            "core" => shape.core = Some(plain(value)?),
            "victim" => shape.victim = Some(plain(value)?),
            "work-conserving" => shape.work_conserving = Some(plain(value)?),
            "preemptive" => shape.preemptive = Some(plain(value)?),
            "reserved" => shape.reserved = Some(plain(value)?),
            "weights" => shape.weights = list(value, plain)?,
            "priorities" => shape.priorities = list(value, plain)?,
            "deadlines" => shape.deadlines_ns = list(value, duration)?,
            "queue-bounds" => shape.queue_bounds = list(value, plain)?,
            "delta" => shape.delta_percent = Some(factor_percent(value)?),
            "profile-window" => shape.profile_window = Some(within(value, 1..=u32::MAX)?),
            "profile-slowdown" => shape.profile_slowdown = Some(within(value, 1..=u32::MAX)?),
            "profile-deviation" => shape.profile_deviation_percent = Some(plain(value)?),
            "spillway" => shape.spillway = Some(within(value, 1..=u16::MAX)?),
            other => unreachable!("{other} is in OF_POLICY"),
        }
        Ok(())
    }

    /// The policy in its shape; the usual one where none is named.
    pub(crate) fn spec(&self) -> Result<Spec, Failure> {
        let usual = || Spec::preset("tq").expect("tq is in the catalogue");
        let policy = self.policy.clone().unwrap_or_else(usual);
        self.shape.given_to(policy).map_err(Failure::setting)
    }

    /// The policy alone, for a server that runs.
    pub(crate) fn only_policy(&self) -> Result<Spec, Failure> {
        if let Some(setting) = self.of_server {
            let what = format!("{setting} is for the start: a server that runs changes its policy");
            return Err(Failure::setting(what));
        }
        if self.policy.is_none() {
            return Err(Failure::setting("no policy is named"));
        }
        self.spec()
    }

    /// Where to listen.
    pub(crate) fn listen(&self) -> Result<&str, Failure> {
        let missing = "listen is not set: udp://IP:PORT, tcp://IP:PORT, or both with a comma";
        self.server.listen.as_deref().ok_or_else(|| Failure::setting(missing))
    }

    /// A server with these settings.
    pub(crate) fn configure(&self, builder: ServerBuilder) -> Result<ServerBuilder, Failure> {
        Ok(self.server.configure(builder.policy(self.spec()?)))
    }
}

impl ServerSettings {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "listen" => self.listen = Some(value.to_owned()),
            "workers" => self.workers = Some(within(value, 1..=Spec::MAX_WORKERS)?),
            "dispatchers" => self.dispatchers = Some(within(value, 1..=Spec::MAX_WORKERS)?),
            "cores" => {
                self.cores =
                    Some(curtail_notation::cores(value).map_err(|error| error.to_string())?)
            }
            "preempt" => self.preempt = plain(value)?,
            "dispatcher" => {
                self.dispatcher = match value {
                    "auto" => DispatcherMode::Auto,
                    "busy" => DispatcherMode::Busy,
                    "blocking" => DispatcherMode::Blocking,
                    _ => return Err("auto, busy or blocking".to_owned()),
                }
            }
            "capacity" => self.capacity = Some(within(value, 1..=1 << 22)?),
            "stack-kib" => self.stack_kib = Some(within(value, 16..=65_536)?),
            "drain" => self.drain = Some(Duration::from_nanos(duration(value)?)),
            "seed" => self.seed = Some(plain(value)?),
            "record" => self.record = Some(value.into()),
            "keep-out" => self.keep_out.push(value.to_owned()),
            "observable" => self.observable = Some(value.to_owned()),
            "safepoints-by-hand" => self.by_hand = plain(value)?,
            other => unreachable!("{other} is in OF_SERVER"),
        }
        Ok(())
    }

    fn configure(&self, mut builder: ServerBuilder) -> ServerBuilder {
        builder = builder
            .preempt(self.preempt)
            .dispatcher(self.dispatcher)
            .dispatchers(self.dispatchers.unwrap_or(1))
            .keep_out(self.keep_out.iter().cloned());
        if let Some(workers) = self.workers {
            builder = builder.workers(workers);
        }
        if let Some(cores) = &self.cores {
            builder = builder.cores(cores.clone());
        }
        if let Some(jobs) = self.capacity {
            builder = builder.capacity(jobs);
        }
        if let Some(kib) = self.stack_kib {
            builder = builder.stack_size(kib * 1024);
        }
        if let Some(limit) = self.drain {
            builder = builder.drain(limit);
        }
        if let Some(seed) = self.seed {
            builder = builder.seed(seed);
        }
        if let Some(file) = &self.record {
            builder = builder.record(file);
        }
        if let Some(name) = &self.observable {
            builder = builder.observable(name);
        }
        if self.by_hand { builder.safepoints_by_hand() } else { builder }
    }
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn curtail_settings_new() -> *mut Settings {
    Box::into_raw(Box::default())
}

/// See the header.
///
/// # Safety
/// `settings` is null, or from [`curtail_settings_new`] and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_settings_free(settings: *mut Settings) {
    if !settings.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(settings) });
    }
}

/// See the header.
///
/// # Safety
/// `settings` as for [`curtail_settings_free`], and used by no other thread meanwhile; the texts
/// are null or end in a zero byte; `error` is null or valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_set(
    settings: *mut Settings,
    name: *const c_char,
    value: *const c_char,
    error: *mut CError,
) -> Status {
    let call = || {
        // SAFETY: the caller's promises.
        let (name, value) = unsafe { (text(name, "the name")?, text(value, "the value")?) };
        // SAFETY: the caller's promise.
        unsafe { given(settings, "the settings") }?;
        // SAFETY: not null, and used by no other thread meanwhile.
        unsafe { &mut *settings }.set(name, value)
    };
    // SAFETY: the caller's promise.
    unsafe { guard(error, call) }
}
