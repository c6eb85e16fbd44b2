//! Runs one check in one setting: on eight threads or jobs at once, over and over for most of a second.

use crate::{MARK, Outcome, SETTINGS};
use curtail::pool::{Class, Pool};
use curtail::{ClassId, Handle, Look, Runtime};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

const QUANTUM: Duration = Duration::from_micros(2);
/// Threads or jobs at once.
const AT_ONCE: usize = 8;
/// Threads or jobs end and others begin: what ends with a thread, and what a job leaves behind, is
/// tried as well.
const WAVES: usize = 12;
const WAVE: Duration = Duration::from_millis(50);

/// A crate's check.
#[derive(Clone, Copy)]
pub struct Check {
    /// The crate's, in the catalogue.
    pub name: &'static str,
    /// Called by many at once.
    pub run: fn() -> Outcome,
    /// What must hold when all have ended.
    pub end: fn() -> Result<(), String>,
}

impl Check {
    /// One that looks at nothing at the end.
    pub const fn new(name: &'static str, run: fn() -> Outcome) -> Self {
        Self { name, run, end: || Ok(()) }
    }

    /// One with an end.
    pub const fn with_end(
        name: &'static str,
        run: fn() -> Outcome,
        end: fn() -> Result<(), String>,
    ) -> Self {
        Self { name, run, end }
    }
}

/// A number that no other call has had.
pub fn ticket() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// Computes for a few microseconds, so that a quantum ends amid what the caller is doing.
#[inline(never)]
pub fn compute() -> u64 {
    let mut x = black_box(88_172_645_463_325_252_u64);
    for _ in 0..black_box(1_500) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x)
}

/// The body of `main`: `PROGRAM NAME SETTING`.
pub fn main(checks: &[Check]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, setting] = &arguments[..] else {
        eprintln!("usage: sweep-GROUP NAME SETTING");
        return ExitCode::from(2);
    };
    let Some(check) = checks.iter().find(|check| check.name == name) else {
        eprintln!("no check of {name} here");
        return ExitCode::from(2);
    };
    if !SETTINGS.contains(&setting.as_str()) {
        eprintln!("no setting {setting}: {}", SETTINGS.join(", "));
        return ExitCode::from(2);
    }
    let run = check.run;
    let preemptions = match std::thread::spawn(run).join() {
        Ok(Ok(expected)) => {
            let _ = EXPECTED.set(expected);
            in_setting(setting, run)
        }
        Ok(Err(error)) => {
            wrong(format!("on a thread of the kernel: {error}"));
            0
        }
        Err(panic) => {
            wrong(format!("on a thread of the kernel: {}", message(&*panic)));
            0
        }
    };
    if FIRST_WRONG.get().is_none()
        && let Err(error) = (check.end)()
    {
        wrong(format!("at the end: {error}"));
    }
    let result = serde_json::json!({
        "passes": PASSES.load(Relaxed),
        "preemptions": preemptions,
        "wrong": FIRST_WRONG.get(),
    });
    println!("\n{MARK}{result}");
    ExitCode::SUCCESS
}

static EXPECTED: OnceLock<String> = OnceLock::new();
static PASSES: AtomicU64 = AtomicU64::new(0);
static FIRST_WRONG: OnceLock<String> = OnceLock::new();
static IS_WRONG: AtomicBool = AtomicBool::new(false);

fn wrong(what: String) {
    let _ = FIRST_WRONG.set(what);
    IS_WRONG.store(true, Relaxed);
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("no text"))
}

/// One of eight, in one wave.
fn wave(run: fn() -> Outcome) {
    let until = Instant::now() + WAVE;
    let expected = EXPECTED.get().expect("it ran before");
    // Each runs once at least.
    loop {
        match run() {
            Ok(found) if found == *expected => {
                PASSES.fetch_add(1, Relaxed);
            }
            Ok(found) => return wrong(format!("{found:.200} instead of {expected:.200}")),
            Err(error) => return wrong(error),
        }
        if IS_WRONG.load(Relaxed) || Instant::now() >= until {
            return;
        }
    }
}

/// How many pre-emptions there were.
fn in_setting(setting: &str, run: fn() -> Outcome) -> u64 {
    match setting {
        "pool" => in_pool(run),
        "one" => in_threads(1, run),
        "two" => in_threads(2, run),
        _ => on_kernel_threads(run),
    }
}

fn waves() -> impl Iterator<Item = usize> {
    (0..WAVES).take_while(|_| !IS_WRONG.load(Relaxed))
}

fn on_kernel_threads(run: fn() -> Outcome) -> u64 {
    for _ in waves().take(4) {
        let threads = [(); AT_ONCE].map(|()| std::thread::spawn(move || wave(run)));
        for thread in threads {
            thread.join().unwrap_or_else(|panic| wrong(message(&*panic)));
        }
    }
    0
}

fn in_pool(run: fn() -> Outcome) -> u64 {
    static HANDLE: Mutex<Option<Handle>> = Mutex::new(None);
    let keep = |handle: &Handle, _: &str| {
        *HANDLE.lock().expect("no panic holds it") = Some(handle.clone());
    };
    let pool = Pool::builder().workers(2).quantum(QUANTUM).class(Class::named("job"));
    let pool = pool.on_build(keep).build().expect("a pool");
    for _ in waves() {
        let jobs = [(); AT_ONCE].map(|()| pool.run(ClassId(0), move || wave(run)));
        for job in jobs {
            job.wait().unwrap_or_else(|error| wrong(error.to_string()));
        }
    }
    let handle = HANDLE.lock().expect("no panic holds it").take();
    let stats = handle.and_then(|handle| handle.stats());
    let left = pool.shutdown(Duration::from_secs(5));
    if left > 0 {
        wrong(format!("{left} jobs did not end"));
    }
    stats.map_or(0, |stats| stats.preemptions)
}

fn in_threads(kthreads: usize, run: fn() -> Outcome) -> u64 {
    static LOOK: OnceLock<Look> = OnceLock::new();
    let keep = |look: &Look| {
        let _ = LOOK.set(look.clone());
    };
    Runtime::builder().kthreads(kthreads).quantum(QUANTUM).on_start(keep).run(move || {
        for _ in waves() {
            let threads = [(); AT_ONCE].map(|()| curtail::spawn(move || wave(run)));
            for thread in threads {
                thread.join().unwrap_or_else(|panic| wrong(message(&*panic)));
            }
        }
        let kthreads = LOOK.get().and_then(Look::kthreads).unwrap_or_default();
        kthreads.iter().map(|kthread| kthread.preemptions).sum()
    })
}
