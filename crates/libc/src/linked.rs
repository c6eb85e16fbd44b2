//! What the runtime calls of the interposed functions, and so why the linker takes them into every
//! program that has kthreads.

/// Of the calling thread, which becomes a kthread: before its first fiber runs.
///
/// `curtail-rt` knows it by this name alone: a program of it without these functions does not link.
#[unsafe(no_mangle)]
fn curtail_libc_prepare_kthread() {
    assert!(are_linked());
    crate::futex::learn_token();
}

/// Names the interposed functions, so that the linker takes their modules.
fn are_linked() -> bool {
    let functions: [*const (); 13] = [
        crate::identity::pthread_getattr_np as *const (),
        crate::identity::pthread_key_create as *const (),
        crate::identity::pthread_key_delete as *const (),
        crate::futex::syscall as *const (),
        crate::futex::sched_yield as *const (),
        crate::pthread::pthread_mutex_lock as *const (),
        crate::pthread::pthread_cond_wait as *const (),
        crate::once::pthread_once as *const (),
        crate::resolve::getaddrinfo as *const (),
        crate::sleep::nanosleep as *const (),
        crate::sleep::clock_nanosleep as *const (),
        crate::sleep::usleep as *const (),
        crate::sleep::sleep as *const (),
    ];
    std::hint::black_box(functions).iter().all(|function| !function.is_null())
}
