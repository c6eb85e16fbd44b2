//! What is printed of panics on kthreads.
//!
//! A panic's hook runs before the panic goes on, on the thread that panics. Under `RUST_BACKTRACE`
//! the standard library's own one reads the program's debugging information in there, which holds
//! the kthread and all that waits for it: a tenth of a second the first time.
//!
//! So where the hook is that one, a kthread writes the message by itself and goes on; it notes the
//! addresses on its stack, and an ordinary thread makes names of them and prints these ([`later`]).
//! A process that ends waits for them, for [`PATIENCE`] at most. One that is killed, or aborts by
//! something else than its panics, may lose the names, never the message.
//!
//! A hook of the program's own runs as it is.

use crate::thread::KThread;
use later::Later;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::ptr;
use std::sync::Once;
use std::time::Duration;

mod later;

type Hook = dyn Fn(&PanicHookInfo<'_>) + Send + Sync;

/// Frames of a stack that are printed.
const MOST_FRAMES: usize = 100;
/// How long the end of the process waits.
const PATIENCE: Duration = Duration::from_secs(30);
/// Messages of panics after which the standard library ends the process.
const LAST_WORDS: [&str; 2] =
    ["panic in a function that cannot unwind", "panic in a destructor during cleanup"];

/// Between the two, a short backtrace has its frames.
const FIRST: &str = "__rust_end_short_backtrace";
const LAST: &str = "__rust_begin_short_backtrace";

static TRACES: Later<Trace> = Later::new("curtail-panics", print);

/// As `RUST_BACKTRACE` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Short,
    Full,
}

/// A stack on which something panicked.
struct Trace {
    /// The thread, and where in the program.
    of: String,
    style: Style,
    addresses: Vec<usize>,
}

/// Has panics reported one at a time on each thread. A second one within the hook ends the process:
/// to the standard library it is a panic of the hook. So no other fiber runs meanwhile, and
/// whatever the hook waits for (standard error, say), it waits for in the kernel.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = take_hook();
        // What is left when the hook has been taken is the standard library's.
        let usual = take_hook();
        let style = style().filter(|_| is_same(&*hook, &*usual) && cfg!(panic = "unwind"));
        if style.is_some() {
            // SAFETY: the function may run at the end of the process, on any thread. Refused, where
            // there is no memory: then names may be lost at the end.
            let _ = unsafe { libc::atexit(flush_at_exit) };
        }
        set_hook(Box::new(move |info| match KThread::try_here() {
            None => hook(info),
            Some(here) => here.as_plain_thread(|| match style {
                Some(style) => report(info, style, &*hook),
                None => hook(info),
            }),
        }));
    });
}

fn style() -> Option<Style> {
    let value = std::env::var_os("RUST_BACKTRACE")?;
    match value.to_str() {
        Some("0") => None,
        Some("full") => Some(Style::Full),
        _ => Some(Style::Short),
    }
}

/// Whether both are the same function without captures. Of equal ones, each has the same table,
/// which one place in the standard library has made; where that is not so they count as different,
/// and the hook runs as it is.
#[allow(ambiguous_wide_pointer_comparisons, reason = "it is the tables that are compared")]
fn is_same(one: &Hook, other: &Hook) -> bool {
    size_of_val(one) == 0 && ptr::eq(one, other)
}

extern "C" fn flush_at_exit() {
    TRACES.flush(PATIENCE);
}

/// Writes the message, and has the rest written.
fn report(info: &PanicHookInfo<'_>, style: Style, usual: &Hook) {
    let message = info.payload_as_str().unwrap_or("Box<dyn Any>");
    if LAST_WORDS.contains(&message) {
        TRACES.flush(PATIENCE);
        return usual(info);
    }
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("<unnamed>");
    let id = rustix::thread::gettid().as_raw_nonzero();
    let of = match info.location() {
        Some(place) => format!("thread '{name}' ({id}) panicked at {place}"),
        None => format!("thread '{name}' ({id}) panicked"),
    };
    tell(&format!("\n{of}:\n{message}\n"));
    let trace = Trace { of, style, addresses: addresses() };
    if let Err(Trace { of, .. }) = TRACES.put(trace) {
        tell(&format!("note: no stack backtrace of this one: too many are being made ({of})\n"));
    }
}

/// On standard error, in one piece. Where that takes nothing, nothing can be printed.
fn tell(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Of the caller's stack, the latest call first.
fn addresses() -> Vec<usize> {
    let mut addresses = Vec::with_capacity(MOST_FRAMES);
    let note = |frame: &backtrace::Frame| {
        let address = frame.ip().addr();
        // A fiber's stack begins with none.
        if address != 0 {
            addresses.push(address);
        }
        address != 0 && addresses.len() < MOST_FRAMES
    };
    // SAFETY: on Linux the walk is the unwinder's, as a panic's own is, and any number of threads
    // may do it at a time. (The lock that the safe function takes is held while names are made.)
    unsafe { backtrace::trace_unsynchronized(note) };
    addresses
}

/// Makes names of a stack's addresses and prints them.
fn print(trace: &Trace) {
    let Trace { of, style, addresses } = trace;
    let mut lines = frames(addresses, *style);
    if lines.is_empty() {
        // Nothing says where the panic's own frames end: the program has no names.
        lines = frames(addresses, Style::Full);
    }
    let mut text = format!("stack backtrace of the panic: {of}\n");
    for (number, line) in lines.iter().enumerate() {
        let _ = writeln!(text, "{number:4}: {line}");
    }
    if *style == Style::Short {
        text.push_str("note: RUST_BACKTRACE=full shows all frames.\n");
    }
    tell(&text);
}

/// What is printed of each frame; of a function that others were inlined into, those first.
fn frames(addresses: &[usize], style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let mut shown = style == Style::Full;
    for &address in addresses {
        let mut known = false;
        backtrace::resolve(ptr::without_provenance_mut(address), |symbol| {
            known = true;
            let name = symbol.name().map_or("<unknown>".to_owned(), |name| format!("{name:#}"));
            let mark = style == Style::Short && (name.contains(FIRST) || name.contains(LAST));
            if mark {
                shown = name.contains(FIRST);
            }
            if mark || !shown {
                return;
            }
            let mut line = match style {
                Style::Short => name,
                Style::Full => format!("{address:#018x} - {name}"),
            };
            if let (Some(file), Some(number)) = (symbol.filename(), symbol.lineno()) {
                let _ = write!(line, "\n             at {}:{number}", file.display());
            }
            lines.push(line);
        });
        if !known && shown {
            lines.push(format!("{address:#018x} - <unknown>"));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_librarys_hook_is_known_from_others() {
        let ours: Box<Hook> = Box::new(|_| {});
        let other: Box<Hook> = Box::new(|_| tell("other"));
        assert!(is_same(&*ours, &*ours) && !is_same(&*ours, &*other));
        let number = std::hint::black_box(5);
        let holds: Box<Hook> = Box::new(move |_| tell(&number.to_string()));
        assert!(!is_same(&*holds, &*holds), "one with captures");
    }

    #[inline(never)]
    fn somewhere() -> Vec<usize> {
        std::hint::black_box(addresses())
    }

    #[test]
    fn addresses_get_names() {
        let all = frames(&somewhere(), Style::Full);
        assert!(all.iter().any(|line| line.contains("somewhere")), "{all:?}");
        // Without a panic nothing stands behind the first mark, as there is none.
        assert!(frames(&somewhere(), Style::Short).is_empty());
        assert_eq!(frames(&[16], Style::Full), ["0x0000000000000010 - <unknown>"]);
    }
}
