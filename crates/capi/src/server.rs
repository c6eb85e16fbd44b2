//! `curtail_server`.
//!
//! Any thread's. The invariant: the pointer that C holds is one count of an `Arc`, which
//! `curtail_server_free` gives back; `curtail_server_run` holds one more while it runs.

use crate::app::{Application, CApp, ClassifyFn, Refusal, classify_by};
use crate::border::{CError, Failure, Status, given, guard};
use crate::contain::contain;
use crate::settings::Settings;
use crate::stats::{CStats, copy};
use curtail::net::{self, OpenError};
use curtail::{ChangeError, ClassStats, Handle, Nanos, Preempt, Report, Server, StartError, Stats};
use std::convert::Infallible;
use std::ffi::{CString, c_char, c_void};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `curtail_server`.
pub struct CServer {
    handle: Handle,
    address: CString,
    /// Until it is run.
    waiting: Mutex<Option<Server>>,
    refusal: Refusal,
    /// Tells when no thread uses the application any more.
    uses: Mutex<Receiver<Infallible>>,
    /// What it left when it had run.
    end: Mutex<Option<Look>>,
}

/// It is handed from thread to thread by C, where no compiler looks.
const _: fn() = || {
    fn any_thread<T: Send + Sync>() {}
    any_thread::<CServer>();
};

/// What is known of a server, running or ended.
pub(crate) struct Look {
    pub classes: Vec<ClassStats>,
    pub unknown: ClassStats,
    pub policy: String,
    pub quantum: Option<Nanos>,
    pub preempt: Preempt,
    pub preempt_note: Option<String>,
    pub decided: Option<String>,
    pub preemptions: u64,
    pub malformed: u64,
    pub unsent: u64,
    pub in_system: usize,
}

/// Of [`Stats`] and [`Report`], which call nearly everything the same.
macro_rules! look {
    ($of:expr, $in_system:ident) => {{
        let of = $of;
        Look {
            classes: of.classes,
            unknown: of.unknown,
            policy: of.policy,
            quantum: of.quantum,
            preempt: of.preempt,
            preempt_note: of.preempt_note,
            decided: of.decided,
            preemptions: of.preemptions,
            malformed: of.malformed,
            unsent: of.unsent,
            in_system: of.$in_system,
        }
    }};
}

impl From<Stats> for Look {
    fn from(stats: Stats) -> Self {
        look!(stats, in_system)
    }
}

impl From<Report> for Look {
    fn from(report: Report) -> Self {
        look!(report, abandoned)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// On standard error. That it is closed is no reason not to run.
fn say(note: &str) {
    let _ = writeln!(std::io::stderr(), "curtail: {note}");
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        let status = match error {
            StartError::Setup(_) => Status::Refused,
            StartError::System { .. } => Status::System,
            _ => Status::BadSetting,
        };
        Self::new(status, error)
    }
}

impl From<ChangeError> for Failure {
    fn from(error: ChangeError) -> Self {
        let status = match error {
            ChangeError::Ended => Status::Ended,
            ChangeError::Policy(_) => Status::BadSetting,
        };
        Self::new(status, error)
    }
}

impl CServer {
    /// # Safety
    /// As for [`curtail_server_new`].
    unsafe fn make(app: *const CApp, settings: *const Settings) -> Result<Self, Failure> {
        let refusal = Refusal::default();
        let (using, uses) = channel();
        // SAFETY: the caller's promises.
        let app = unsafe { Application::read(app, refusal.clone(), using)? };
        // SAFETY: as above.
        let settings = unsafe { given(settings, "the settings")? };
        let builder = settings.configure(Server::builder(app))?;
        let transport = net::open(settings.listen()?).map_err(|error| match error {
            OpenError::Url { .. } => Failure::setting(format!("listen: {error}")),
            error => Failure::new(Status::System, error),
        })?;
        let address = CString::new(transport.describe()).unwrap_or_default();
        let server = builder.transport(transport).build()?;
        let handle = server.handle();
        Ok(Self {
            handle,
            address,
            waiting: Mutex::new(Some(server)),
            refusal,
            uses: Mutex::new(uses),
            end: Mutex::default(),
        })
    }

    fn run(&self) -> Result<(), Failure> {
        let server = locked(&self.waiting).take();
        let server = server.ok_or_else(|| Failure::misuse("the server has been run before"))?;
        // Of a program without safepoints the server says it, once a process.
        if curtail::safepoint_kind() != curtail::SafepointKind::None {
            server.preempt().1.iter().for_each(|note| say(note));
        }
        let ended = catch_unwind(AssertUnwindSafe(|| server.run()));
        if let Some(reason) = locked(&self.refusal).take() {
            let what = format!("the application's setup_worker: {reason}");
            return Err(Failure::new(Status::Refused, what));
        }
        let report = match ended {
            Ok(Ok(report)) => report,
            Ok(Err(error)) => return Err(Failure::new(Status::System, error)),
            Err(payload) => return Err(Failure::panicked(&*payload)),
        };
        report.notes.iter().for_each(|note| say(note));
        *locked(&self.end) = Some(report.into());
        Ok(())
    }

    /// Returns when no function of the application will be called again: the server has ended, and
    /// so have the handlers that it gave up and that went on. However long that takes: what they use
    /// goes when this returns.
    fn await_the_last_use(&self) {
        // One that was never run.
        drop(locked(&self.waiting).take());
        let Err(_) = locked(&self.uses).recv();
    }

    fn stats(&self) -> Result<*mut CStats, Failure> {
        if locked(&self.end).is_none()
            && let Some(stats) = self.handle.stats()
        {
            return Ok(copy(&stats.into()));
        }
        let nothing = "the server does not run: there is nothing to look at";
        locked(&self.end).as_ref().map(copy).ok_or_else(|| Failure::new(Status::Ended, nothing))
    }
}

/// A classifier that was given to a running server; dropped where it is in use no longer.
struct Given {
    classify: Option<ClassifyFn>,
    context: *mut c_void,
    release: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
}

// SAFETY: the header says that any thread may release the context, and call the classifier.
unsafe impl Send for Given {}
// SAFETY: the header says that several may call it at once.
unsafe impl Sync for Given {}

impl Drop for Given {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the application's own function, as it promised; once. No caller is left to
            // tell of an exception.
            let _ = contain(|| unsafe { release(self.context) });
        }
    }
}

/// See the header.
///
/// # Safety
/// `app` is null, or of the size that it names with all that it points to valid, functions and context
/// until the server is freed; `settings` is null or from `curtail_settings_new`; `server` and `error`
/// are null or valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_server_new(
    app: *const CApp,
    settings: *const Settings,
    server: *mut *const CServer,
    error: *mut CError,
) -> Status {
    let call = || {
        // SAFETY: the caller's promise; nothing is there that needs a drop.
        let to = unsafe { server.as_mut() };
        let to = to.ok_or_else(|| Failure::misuse("where to put the server is NULL"))?;
        *to = ptr::null();
        // SAFETY: the caller's promises.
        *to = Arc::into_raw(Arc::new(unsafe { CServer::make(app, settings) }?));
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { guard(error, call) }
}

/// Calls for a server.
///
/// # Safety
/// `server` is null or not freed, and not freed meanwhile; `error` is null or valid to write to.
unsafe fn with(
    server: *const CServer,
    error: *mut CError,
    call: impl FnOnce(&CServer) -> Result<(), Failure>,
) -> Status {
    // SAFETY: the caller's promises.
    unsafe { guard(error, || call(given(server, "the server")?)) }
}

/// See the header.
///
/// # Safety
/// `server` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_server_address(server: *const CServer) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { server.as_ref() }.map_or(ptr::null(), |server| server.address.as_ptr())
}

/// See the header.
///
/// # Safety
/// As for [`curtail_server_set_quantum`]; freeing is allowed meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_server_run(server: *const CServer, error: *mut CError) -> Status {
    let call = || {
        // SAFETY: the caller's promise.
        unsafe { given(server, "the server") }?;
        // SAFETY: it came from `Arc::into_raw`, and C's own count is alive now.
        let server = unsafe {
            Arc::increment_strong_count(server);
            Arc::from_raw(server)
        };
        server.run()
    };
    // SAFETY: the caller's promise.
    unsafe { guard(error, call) }
}

/// See the header.
///
/// # Safety
/// `server` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_server_shutdown(server: *const CServer) {
    let call = |server: &CServer| {
        server.handle.shutdown();
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(server, ptr::null_mut(), call) };
}

/// See the header.
///
/// # Safety
/// As for [`curtail_server_set_quantum`]; `policy` is null or from `curtail_settings_new`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_server_switch(
    server: *const CServer,
    policy: *const Settings,
    error: *mut CError,
) -> Status {
    let call = |server: &CServer| {
        // SAFETY: the caller's promise.
        let spec = unsafe { given(policy, "the policy") }?.only_policy()?;
        Ok(server.handle.switch(spec)?)
    };
    // SAFETY: the caller's promise.
    unsafe { with(server, error, call) }
}

/// See the header.
///
/// # Safety
/// `server` is null or not freed, and not freed meanwhile; `error` is null or valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_server_set_quantum(
    server: *const CServer,
    quantum_ns: u64,
    error: *mut CError,
) -> Status {
    let quantum = (quantum_ns > 0).then_some(Nanos(quantum_ns));
    let call = |server: &CServer| Ok(server.handle.set_quantum(quantum)?);
    // SAFETY: the caller's promise.
    unsafe { with(server, error, call) }
}

/// See the header.
///
/// # Safety
/// As for [`curtail_server_set_quantum`]; `classify` may be called with `context` until `release` is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_server_classify_by(
    server: *const CServer,
    classify: Option<ClassifyFn>,
    context: *mut c_void,
    release: Option<unsafe extern "C-unwind" fn(*mut c_void)>,
    error: *mut CError,
) -> Status {
    let given = Given { classify, context, release };
    let call = move |server: &CServer| {
        // The whole of it moves, so that it is released with the last call.
        let given = given;
        let Some(classify) = given.classify else { return Ok(server.handle.classify_by(None)?) };
        let by = move |request: &[u8]| {
            let given = &given;
            classify_by(classify, given.context, request)
        };
        Ok(server.handle.classify_by(Some(Box::new(by)))?)
    };
    // SAFETY: the caller's promise.
    unsafe { with(server, error, call) }
}

/// See the header.
///
/// # Safety
/// As for [`curtail_server_set_quantum`]; `stats` is null or valid to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_server_stats(
    server: *const CServer,
    stats: *mut *mut CStats,
    error: *mut CError,
) -> Status {
    let call = |server: &CServer| {
        // SAFETY: the caller's promise; nothing is there that needs a drop.
        let to = unsafe { stats.as_mut() };
        let to = to.ok_or_else(|| Failure::misuse("where to put the statistics is NULL"))?;
        *to = ptr::null_mut();
        *to = server.stats()?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { with(server, error, call) }
}

/// See the header.
///
/// # Safety
/// `server` is null or not freed, and in no other call but [`curtail_server_run`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn curtail_server_free(server: *const CServer) {
    let call = |of: &CServer| {
        of.handle.shutdown();
        of.await_the_last_use();
        // SAFETY: C's own count, which it gives back.
        drop(unsafe { Arc::from_raw(server) });
        Ok(())
    };
    // SAFETY: the caller's promise. `of` is not used after the drop.
    unsafe { with(server, ptr::null_mut(), call) };
}
