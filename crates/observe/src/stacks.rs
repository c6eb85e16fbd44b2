//! All stacks of this process, as they are sent and printed.

use curtail_report::{Stacks, SuspendedFrames, ThreadFrames};

/// Of the kernel's threads, and of what is suspended; not of the same moment.
pub(crate) fn now() -> Stacks {
    let thread = |stack: curtail::ThreadStack| ThreadFrames {
        tid: stack.tid,
        name: stack.name,
        frames: stack.frames,
    };
    let group = |stack: curtail::SuspendedStack| SuspendedFrames {
        what: if stack.requests { "request" } else { "thread" }.to_owned(),
        class: stack.class,
        count: stack.count as u64,
        numbers: stack.numbers,
        names: stack.names,
        frames: stack.frames,
    };
    let suspended = curtail::suspended();
    Stacks {
        verb: "stacks".to_owned(),
        pid: std::process::id(),
        threads: curtail::stacks().into_iter().map(thread).collect(),
        suspended: suspended.stacks.into_iter().map(group).collect(),
        left_out: suspended.left_out as u64,
    }
}
