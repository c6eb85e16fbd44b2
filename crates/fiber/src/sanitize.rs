//! What sanitizers learn of stacks and switches: nothing, but where the compiler's flags say
//! `--cfg curtail_sanitize --cfg curtail_sanitize="address"` or `"thread"` beside the sanitizer itself (`ci/sanitize.sh`).
//!
//! The kthread on which the switch happens calls. [`Seen::leave`] comes right before the switch and
//! is inlined into the function that switches: the thread sanitizer counts calls and returns for
//! each stack.

#[cfg(not(curtail_sanitize))]
mod none {
    use crate::context::Context;

    /// What a sanitizer knows of one stack.
    #[derive(Debug)]
    pub(crate) struct Seen;

    impl Seen {
        pub(crate) const fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn begin(&self) {}

        #[inline(always)]
        pub(crate) unsafe fn leave(_: &Context, _: &Context, _: bool) {}

        #[inline(always)]
        pub(crate) unsafe fn arrive(_: &Context) {}
    }
}
#[cfg(not(curtail_sanitize))]
pub(crate) use none::Seen;

#[cfg(curtail_sanitize = "address")]
mod address {
    use crate::context::Context;
    use std::cell::Cell;
    use std::ffi::c_void;
    use std::mem::MaybeUninit;
    use std::ops::Range;
    use std::ptr;

    unsafe extern "C" {
        fn __sanitizer_start_switch_fiber(save: *mut *mut c_void, low: *const c_void, size: usize);
        fn __sanitizer_finish_switch_fiber(
            saved: *mut c_void,
            low: *mut *const c_void,
            size: *mut usize,
        );
        fn __asan_unpoison_memory_region(low: *const c_void, size: usize);
    }

    thread_local! {
        static OWN: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }

    /// The stack that the kernel or libc gave this kthread.
    fn own() -> Range<usize> {
        if OWN.get().0 == 0 {
            let mut low = ptr::null_mut();
            let mut size = 0;
            let mut attributes = MaybeUninit::<libc::pthread_attr_t>::zeroed();
            // SAFETY: libc fills in what is ours, and frees what it allocated for that.
            unsafe {
                libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr());
                libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut size);
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
            }
            OWN.set((low.addr(), low.addr() + size));
        }
        OWN.get().0..OWN.get().1
    }

    fn bounds(context: &Context) -> Range<usize> {
        let (_, stack, shown) = context.seen();
        match stack.is_empty() {
            false => stack,
            // SAFETY: what it stands for is alive as long as it is.
            true => unsafe { shown.as_ref() }.map_or_else(own, bounds),
        }
    }

    /// What a sanitizer knows of one stack: where its frames in the heap are while it does not run.
    #[derive(Debug)]
    pub(crate) struct Seen(Cell<*mut c_void>);

    impl Seen {
        pub(crate) const fn new() -> Self {
            Self(Cell::new(ptr::null_mut()))
        }

        pub(crate) fn begin(&self) {
            self.0.set(ptr::null_mut());
        }

        /// Of a stack that is left for good nothing stays marked: another thread will write there.
        ///
        /// # Safety
        /// As for [`crate::switch`], which follows.
        #[inline(always)]
        pub(crate) unsafe fn leave(from: &Context, to: &Context, for_good: bool) {
            let next = bounds(to);
            let low = ptr::with_exposed_provenance(next.start);
            // SAFETY: the bounds are those of the stack that runs next; the marks, of this one.
            unsafe {
                if for_good {
                    let left = bounds(from);
                    let start = ptr::with_exposed_provenance(left.start);
                    __asan_unpoison_memory_region(start, left.len());
                }
                let save = if for_good { ptr::null_mut() } else { from.seen().0.0.as_ptr() };
                __sanitizer_start_switch_fiber(save, low, next.len());
            }
        }

        /// # Safety
        /// `here` is the context of the stack that runs, which a switch has just come to.
        #[inline(always)]
        pub(crate) unsafe fn arrive(here: &Context) {
            // SAFETY: by contract; it was saved when this stack was left, or is null at its begin.
            unsafe {
                __sanitizer_finish_switch_fiber(
                    here.seen().0.0.get(),
                    ptr::null_mut(),
                    ptr::null_mut(),
                );
            }
        }
    }
}
#[cfg(curtail_sanitize = "address")]
pub(crate) use address::Seen;

#[cfg(curtail_sanitize = "thread")]
mod thread {
    use crate::context::Context;
    use std::cell::Cell;
    use std::ffi::{c_uint, c_void};
    use std::ptr;

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
    }

    thread_local! {
        /// The one that was left for good last.
        static ENDED: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
    }

    /// What a sanitizer knows of one stack: its clock and its calls.
    #[derive(Debug)]
    pub(crate) struct Seen(Cell<*mut c_void>);

    impl Seen {
        pub(crate) const fn new() -> Self {
            Self(Cell::new(ptr::null_mut()))
        }

        pub(crate) fn begin(&self) {
            // SAFETY: no flags are defined.
            self.0.set(unsafe { __tsan_create_fiber(0) });
        }

        /// A switch orders what was before it and what comes after: both are on this kthread.
        ///
        /// # Safety
        /// As for [`crate::switch`], which follows.
        #[inline(always)]
        pub(crate) unsafe fn leave(from: &Context, to: &Context, for_good: bool) {
            // SAFETY: the current one runs; the next was created by `begin`, or was current when its
            // stack was left.
            unsafe {
                let current = __tsan_get_current_fiber();
                from.seen().0.0.set(current);
                if for_good {
                    ENDED.set(current);
                }
                __tsan_switch_to_fiber(to.seen().0.0.get(), 0);
            }
        }

        /// # Safety
        /// As for [`crate::switch`], which has come here.
        #[inline(always)]
        pub(crate) unsafe fn arrive(_: &Context) {
            let ended = ENDED.replace(ptr::null_mut());
            if !ended.is_null() {
                // SAFETY: it has been left for good, and was a fiber's: kthreads come back.
                unsafe { __tsan_destroy_fiber(ended) };
            }
        }
    }
}
#[cfg(curtail_sanitize = "thread")]
pub(crate) use thread::Seen;

/// In the entry's assembly, before the first function of a new stack; keeps `rdi` and `rax`.
#[cfg(not(curtail_sanitize))]
macro_rules! arrive {
    () => {
        ""
    };
}
#[cfg(curtail_sanitize)]
macro_rules! arrive {
    () => {
        "push rdi
         push rax
         call curtail_sanitize_arrive
         pop rax
         pop rdi"
    };
}
pub(crate) use arrive;

/// What the entry calls.
#[cfg(curtail_sanitize)]
#[unsafe(no_mangle)]
unsafe extern "C" fn curtail_sanitize_arrive() {
    // SAFETY: what runs here is a fiber that has just begun, so it is current and alive.
    unsafe { Seen::arrive(&*crate::context::current()) };
}
