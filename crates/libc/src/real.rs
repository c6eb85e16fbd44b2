//! libc's own functions, of which this program defines its own ones.

use libc::{c_char, c_void};
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// libc's own function of that name, found at the first call.
pub struct Real {
    name: &'static CStr,
    version: Option<&'static CStr>,
    found: AtomicPtr<c_void>,
}

impl Real {
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, version: None, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Condition variables exist in two layouts; an unversioned look-up may find the old one.
    pub const fn versioned(name: &'static CStr) -> Self {
        Self { version: Some(c"GLIBC_2.3.2"), ..Self::new(name) }
    }

    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find() } else { found }
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        let name: *const c_char = self.name.as_ptr();
        // SAFETY: valid C strings; both calls only look names up.
        let found = unsafe {
            let versioned = self.version.map_or(ptr::null_mut(), |version| {
                libc::dlvsym(libc::RTLD_NEXT, name, version.as_ptr())
            });
            if versioned.is_null() { libc::dlsym(libc::RTLD_NEXT, name) } else { versioned }
        };
        assert!(!found.is_null(), "the C library has no {:?}", self.name);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls libc's function. `real!(NAME, fn-type; arguments)`
#[macro_export]
#[doc(hidden)]
macro_rules! real {
    ($name:literal, $new:ident, $type:ty; $($argument:expr),*) => {{
        static REAL: $crate::real::Real = $crate::real::Real::$new($name);
        // SAFETY: libc's function of this name has this type (POSIX).
        let function: $type = unsafe { std::mem::transmute::<*mut libc::c_void, $type>(REAL.get()) };
        // SAFETY: the caller's own call, passed on.
        unsafe { function($($argument),*) }
    }};
}
