//! A program that wants pre-emption and has no safepoints says so, once, on standard error.
//!
//! It is right in all it does, and a long request holds its worker: what looks like a slow runtime is
//! a plain build. So this does not wait for somebody who listens to the log.

use curtail_fiber::safepoint::Kind;
use std::io::Write;
use std::sync::Once;

/// The variable that silences it, whatever its value.
const SILENCED_BY: &str = "CURTAIL_QUIET";

/// A server or pool starts that wants pre-emption (`wants`), or a runtime with a quantum.
pub fn say_once(wants: bool, kind: Kind) {
    static SAID: Once = Once::new();
    if wants && kind == Kind::None && std::env::var_os(SILENCED_BY).is_none() {
        SAID.call_once(|| {
            // A warning that can't be written is lost.
            let _ = std::io::stderr().write_all(TEXT.as_bytes());
        });
    }
}

const TEXT: &str = "curtail: PRE-EMPTION IS OFF: this program was built without safepoints. Build it \
                    with cargo curtail build --release, curtail-cc or curtail-c++. To do without: ask \
                    for no pre-emption, or set CURTAIL_QUIET=1\n";
