//! `switch`: what it costs to yield and to start something, for our fibers and their peers, all
//! on one core.

use crate::Size;
use crate::figure::{Contestant, Figure, Report};
use crate::machine::{Cores, Pinned};
use crate::peers::switches;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use curtail_fiber::{
    Context, ContextKind, FiberStack, Label, Locals, StackPool, switch_back, switch_back_for_good,
    switch_in,
};
use std::cell::RefCell;
use std::path::Path;
use std::time::Instant;

const STACK: usize = 64 * 1_024;

fn per_call(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

/// A stack that this thread resumes, as a worker does its requests.
struct Resumed {
    stack: FiberStack,
    context: Context,
    /// Where this thread waits meanwhile.
    back: Context,
}

/// The first function on such a stack.
type First = unsafe extern "C" fn(*mut ()) -> !;

impl Resumed {
    fn new(pool: &mut StackPool) -> Box<Self> {
        let stack = pool.take().expect("memory for a stack");
        Box::new(Self { stack, context: Context::new(), back: Context::new() })
    }

    /// Readies the stack, which is idle.
    fn prepare(&mut self, first: First) {
        let (this, top) = (&raw mut *self, self.stack.top());
        // SAFETY: the stack is ours alone, and nothing is on it.
        unsafe { self.context.prepare(&self.stack, top, first, this.cast(), ContextKind::Request) };
        self.context.set_label(Label::default());
    }

    fn run(&self) {
        self.back.stands_for_caller();
        // SAFETY: this stack waits here; the other one was prepared, or gave up.
        unsafe { switch_in(&raw const self.back, &raw const self.context) };
    }
}

/// Gives up for ever and ever.
unsafe extern "C" fn gives_up(resumed: *mut ()) -> ! {
    // SAFETY: what `prepare` passed; its resumer waits.
    let resumed = unsafe { &*resumed.cast::<Resumed>() };
    loop {
        // SAFETY: as above.
        unsafe { switch_back(&raw const resumed.context, &raw const resumed.back) };
    }
}

/// Does nothing.
unsafe extern "C" fn ends(resumed: *mut ()) -> ! {
    // SAFETY: as in `gives_up`; this stack is not come back to.
    unsafe {
        let resumed = &*resumed.cast::<Resumed>();
        switch_back_for_good(&raw const resumed.context, &raw const resumed.back)
    }
}

/// Our stack resumed and given up again.
fn fiber_switch(pool: &mut StackPool, count: u64) -> f64 {
    let mut resumed = Resumed::new(pool);
    resumed.prepare(gives_up);
    resumed.run();
    let start = Instant::now();
    (0..count).for_each(|_| resumed.run());
    per_call(start, count)
}

/// A task run on an idle stack, as the runtime runs a request.
fn fiber_task(pool: &mut StackPool, count: u64) -> f64 {
    let mut resumed = Resumed::new(pool);
    let start = Instant::now();
    for _ in 0..count {
        resumed.prepare(ends);
        resumed.run();
    }
    per_call(start, count)
}

fn coroutine_switch(count: u64) -> f64 {
    let stack = DefaultStack::new(STACK).expect("memory for a stack");
    let mut coroutine = Coroutine::with_stack(stack, move |yielder, ()| {
        for _ in 0..count {
            yielder.suspend(());
        }
    });
    let start = Instant::now();
    for _ in 0..count {
        assert!(matches!(coroutine.resume(()), CoroutineResult::Yield(())));
    }
    let time = per_call(start, count);
    assert!(matches!(coroutine.resume(()), CoroutineResult::Return(())));
    time
}

/// A coroutine made on a stack that was used before, run to its end.
fn coroutine_start(count: u64) -> f64 {
    let mut stack = DefaultStack::new(STACK).expect("memory for a stack");
    let start = Instant::now();
    for _ in 0..count {
        let mut coroutine: Coroutine<(), (), (), _> = Coroutine::with_stack(stack, |_, ()| {});
        assert!(matches!(coroutine.resume(()), CoroutineResult::Return(())));
        stack = coroutine.into_stack();
    }
    per_call(start, count)
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime without drivers asks the system for nothing")
}

/// Two tasks that yield to each other.
fn tokio_yield(count: u64) -> f64 {
    let give_way = move || async move {
        for _ in 0..count / 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio_runtime().block_on(async {
        let start = Instant::now();
        let both = [tokio::spawn(give_way()), tokio::spawn(give_way())];
        for task in both {
            task.await.expect("it only yields");
        }
        per_call(start, count)
    })
}

fn tokio_spawn(count: u64) -> f64 {
    tokio_runtime().block_on(async {
        let start = Instant::now();
        for _ in 0..count {
            tokio::spawn(async {}).await.expect("it does nothing");
        }
        per_call(start, count)
    })
}

/// Two threads on one core that yield to each other.
fn thread_yield(count: u64) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..count / 2).for_each(|_| std::thread::yield_now()));
        }
    });
    per_call(start, count)
}

fn thread_spawn(count: u64) -> f64 {
    let start = Instant::now();
    for _ in 0..count {
        std::thread::spawn(|| {}).join().expect("it does nothing");
    }
    per_call(start, count)
}

/// Runs the benchmark; `go`: the Go program, where there is one.
#[must_use]
pub fn run(size: Size, go: Option<&Path>) -> Report {
    let mut report = Report::new("switch", size);
    if go.is_none() {
        report.notes.push("go: skipped, there is no Go toolchain here".to_owned());
    }
    let core = Cores::pair().map(|cores| cores.here);
    let _pin = Pinned::to(core);
    let rounds = size.pick(2, 21);
    let many = size.pick(200, 1_000_000);
    let few = size.pick(20, 2_000);
    let pool = RefCell::new(StackPool::new(STACK, Locals::Own).expect("a stack of 64 KiB"));
    let trouble = RefCell::new(None);
    let ask_go = |pick: fn(&crate::peers::Switches) -> f64| {
        let answer = switches(go.expect("asked only where there is Go"), many, core);
        answer.map_or_else(
            |error| {
                *trouble.borrow_mut() = Some(format!("go: {error}"));
                f64::NAN
            },
            |found| pick(&found),
        )
    };
    let mut figure =
        |what: &str, ours: &mut [Contestant<'_>], go_value: &mut dyn FnMut() -> f64| {
            let mut all: Vec<Contestant<'_>> = Vec::new();
            all.extend(
                ours.iter_mut().map(|(name, run)| (*name, &mut **run as &mut dyn FnMut() -> f64)),
            );
            if go.is_some() {
                all.push(("go, goroutine", go_value));
            }
            report.figures.push(Figure::measure(what, "ns", false, rounds, &mut all));
        };
    figure(
        "yield and be resumed",
        &mut [
            ("curtail, fiber", &mut || fiber_switch(&mut pool.borrow_mut(), many)),
            ("corosensei, bare", &mut || coroutine_switch(many)),
            ("tokio, task", &mut || tokio_yield(many)),
            ("thread", &mut || thread_yield(few * 10)),
        ],
        &mut || ask_go(|found| found.yield_ns),
    );
    figure(
        "start something empty and see its end",
        &mut [
            ("curtail, task on a fiber", &mut || fiber_task(&mut pool.borrow_mut(), many)),
            ("corosensei, stack reused", &mut || coroutine_start(many)),
            ("tokio, task", &mut || tokio_spawn(many)),
            ("thread", &mut || thread_spawn(few)),
        ],
        &mut || ask_go(|found| found.spawn_ns),
    );
    report.notes.extend(trouble.into_inner());
    report
}
