//! Loggers: a line comes out whole and once, with what its thread gave.

use curtail_sweep::inside::{compute, ticket};
use curtail_sweep::{Outcome, must};
use log::{Level, LevelFilter, Metadata, Record};
use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, Once, OnceLock};

static LOGGED: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
static BROKEN: OnceLock<String> = OnceLock::new();

/// Takes its time to be printed, amid a logger.
struct Slow(u64);

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.0)?;
        compute();
        write!(f, "{}", self.0)
    }
}

/// `begin N/N N/N end`, of one number.
fn look_at(line: &str) {
    let numbers: Vec<_> = line
        .trim_end()
        .strip_prefix("begin ")
        .and_then(|rest| rest.strip_suffix(" end"))
        .map(|rest| rest.split([' ', '/']).collect())
        .unwrap_or_default();
    if numbers.len() == 4 && numbers.iter().all(|number| *number == numbers[0]) {
        SEEN.fetch_add(1, Relaxed);
    } else {
        let _ = BROKEN.set(line.to_owned());
    }
}

fn all_seen() -> Result<(), String> {
    let (seen, logged) = (SEEN.load(Relaxed), LOGGED.load(Relaxed));
    must!(BROKEN.get().is_none(), "a line is broken: {:?}", BROKEN.get());
    must!(seen == logged, "{logged} lines were logged, {seen} came out");
    Ok(())
}

fn some_lines() -> Outcome {
    for _ in 0..10 {
        let id = ticket();
        LOGGED.fetch_add(1, Relaxed);
        log::info!("begin {} {} end", Slow(id), Slow(id));
        log::debug!("filtered {}", Slow(id));
    }
    must!(BROKEN.get().is_none(), "a line is broken: {:?}", BROKEN.get());
    Ok("logged".to_owned())
}

/// A logger as services have them: a buffer for each thread, which is borrowed while a line is made.
struct Buffered;

thread_local! {
    static LINE: RefCell<String> = const { RefCell::new(String::new()) };
}

impl log::Log for Buffered {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Info
    }

    fn log(&self, record: &Record<'_>) {
        use fmt::Write as _;
        if !self.enabled(record.metadata()) {
            return;
        }
        LINE.with_borrow_mut(|line| {
            line.clear();
            let _ = write!(line, "{}", record.args());
            look_at(line);
        });
    }

    fn flush(&self) {}
}

pub fn log() -> Outcome {
    static SET: Once = Once::new();
    SET.call_once(|| {
        log::set_logger(&Buffered).expect("the first");
        log::set_max_level(LevelFilter::Trace);
    });
    some_lines()
}

pub fn log_end() -> Result<(), String> {
    all_seen()
}

/// What env_logger prints to.
struct Lines;

static PRINTED: Mutex<Vec<u8>> = Mutex::new(Vec::new());

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut printed = PRINTED.lock().map_err(|_| io::Error::other("poisoned"))?;
        printed.extend_from_slice(bytes);
        while let Some(end) = printed.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = printed.drain(..=end).collect();
            look_at(&String::from_utf8_lossy(&line));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub fn env_logger() -> Outcome {
    static SET: Once = Once::new();
    SET.call_once(|| {
        env_logger::Builder::new()
            .parse_filters("warn,sweep_tasks=info")
            .format(|line, record| writeln!(line, "{}", record.args()))
            .target(env_logger::Target::Pipe(Box::new(Lines)))
            .init();
    });
    some_lines()
}

pub fn env_logger_end() -> Result<(), String> {
    log::logger().flush();
    all_seen()
}
