//! `curtail_stats`: a copy of what the runtime counted, and the caller's own.

use crate::server::Look;
use curtail::ClassStats;
use hdrhistogram::Histogram;
use std::ffi::{CString, c_char};
use std::ptr;

/// `curtail_times`.
#[repr(C)]
pub struct CTimes {
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
    mean: f64,
}

impl CTimes {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |percentile| histogram.value_at_percentile(percentile);
        // Of nothing, all is 0.
        let mean = if histogram.is_empty() { 0.0 } else { histogram.mean() };
        let [p50, p90, p99, p99_9] = [50.0, 90.0, 99.0, 99.9].map(at);
        Self { p50, p90, p99, p99_9, max: histogram.max(), mean }
    }
}

/// `curtail_class_stats`.
#[repr(C)]
pub struct CClassStats {
    name: *const c_char,
    completed: u64,
    failed: u64,
    dropped: u64,
    sojourn_ns: CTimes,
    queueing_ns: CTimes,
    service_ns: CTimes,
}

/// `curtail_stats`.
#[repr(C)]
pub struct CStats {
    classes: *const CClassStats,
    class_count: usize,
    unknown: CClassStats,
    policy: *const c_char,
    quantum_ns: u64,
    preempt: *const c_char,
    preempt_note: *const c_char,
    decided: *const c_char,
    preemptions: u64,
    malformed: u64,
    unsent: u64,
    in_system: u64,
}

/// What the caller holds by its first field, and what that points to.
#[repr(C)]
struct Owned {
    stats: CStats,
    classes: Box<[CClassStats]>,
    texts: Vec<CString>,
}

/// Keeps a text, which does not move with the list.
fn keep(texts: &mut Vec<CString>, text: &str) -> *const c_char {
    // Ours have no zero bytes, and C's cannot.
    texts.push(CString::new(text.replace('\0', "")).unwrap_or_default());
    texts.last().map_or(ptr::null(), |text| text.as_ptr())
}

fn row(texts: &mut Vec<CString>, class: &ClassStats) -> CClassStats {
    CClassStats {
        name: keep(texts, &class.name),
        completed: class.completed,
        failed: class.failed,
        dropped: class.dropped,
        sojourn_ns: CTimes::of(&class.sojourn_ns),
        queueing_ns: CTimes::of(&class.queueing_ns),
        service_ns: CTimes::of(&class.service_ns),
    }
}

/// A copy for C, to be freed by [`curtail_stats_free`].
pub(crate) fn copy(look: &Look) -> *mut CStats {
    let mut texts = Vec::new();
    let classes: Box<[_]> = look.classes.iter().map(|class| row(&mut texts, class)).collect();
    let unknown = row(&mut texts, &look.unknown);
    let mut optional =
        |text: &Option<String>| text.as_ref().map_or(ptr::null(), |text| keep(&mut texts, text));
    let (preempt_note, decided) = (optional(&look.preempt_note), optional(&look.decided));
    let stats = CStats {
        classes: classes.as_ptr(),
        class_count: classes.len(),
        unknown,
        policy: keep(&mut texts, &look.policy),
        quantum_ns: look.quantum.map_or(0, |quantum| quantum.0),
        preempt: keep(&mut texts, &look.preempt.to_string()),
        preempt_note,
        decided,
        preemptions: look.preemptions,
        malformed: look.malformed,
        unsent: look.unsent,
        in_system: look.in_system as u64,
    };
    Box::into_raw(Box::new(Owned { stats, classes, texts })).cast()
}

/// See the header.
///
/// # Safety
/// `stats` is null, or from `curtail_server_stats` and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_stats_free(stats: *mut CStats) {
    if !stats.is_null() {
        // SAFETY: the caller's promise; `copy` made it, as the first field of an `Owned`.
        let Owned { stats: _, classes, texts } = *unsafe { Box::from_raw(stats.cast::<Owned>()) };
        drop((classes, texts));
    }
}
