//! The kernel's list of this process's timers: a file of its own, so that no other test has any.

use curtail_signal::{self as signal, Code, Owner};

#[test]
fn an_owner_takes_its_timer_with_it() {
    let Ok(before) = std::fs::read_to_string("/proc/self/timers") else {
        return; // A kernel without that file.
    };
    assert_eq!(before, "");
    assert!(Owner::new(1 << 32).is_err(), "there is no code to interrupt");
    // SAFETY: there is none.
    unsafe { signal::allow(Code::default()) };
    let owner = Owner::new(1 << 32).unwrap();
    assert!(std::fs::read_to_string("/proc/self/timers").unwrap().contains("ID: "));
    drop(owner);
    assert_eq!(std::fs::read_to_string("/proc/self/timers").unwrap(), "");
}
