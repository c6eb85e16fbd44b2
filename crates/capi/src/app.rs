//! `curtail_app` as the runtime's [`App`].
//!
//! Made by the thread that makes the server, called by the runtime's threads. The invariant: functions
//! and context are what the application promised to keep valid, for any thread, as long as there is
//! the server; whatever may call with the context holds a [`Use`] of it, and `curtail_server_free`
//! waits until there is none.

use crate::border::{CError, Failure, given, text};
use crate::contain::contain;
use curtail::{App, Class, ClassId, Nanos, Response, WorkerId};
use std::convert::Infallible;
use std::ffi::{c_char, c_int, c_void};
use std::mem::size_of;
use std::panic::resume_unwind;
use std::ptr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// `curtail_classify_fn`.
pub type ClassifyFn = unsafe extern "C-unwind" fn(*mut c_void, *const u8, usize) -> u16;

type Answer = unsafe extern "C-unwind" fn(*mut c_void, *const u8, usize, *mut Response);

/// `curtail_class`.
#[repr(C)]
pub struct CClass {
    name: *const c_char,
    service_ns: u64,
}

/// `curtail_app`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CApp {
    size: usize,
    context: *mut c_void,
    classes: *const CClass,
    class_count: usize,
    setup: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut CError) -> c_int>,
    setup_worker: Option<
        unsafe extern "C-unwind" fn(*mut c_void, u16, *mut *mut c_void, *mut CError) -> c_int,
    >,
    teardown_worker: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut c_void)>,
    classify: Option<ClassifyFn>,
    hint: Option<unsafe extern "C-unwind" fn(*mut c_void, *const u8, usize) -> u64>,
    handle: Option<Handler>,
    failed: Option<Answer>,
    overloaded: Option<Answer>,
}

type Handler =
    unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *const u8, usize, *mut Response) -> c_int;

/// Why a worker was not set up, for the caller that runs the server.
pub(crate) type Refusal = Arc<Mutex<Option<String>>>;

/// Nothing is ever sent: that all are gone is the message.
pub(crate) type Use = Sender<Infallible>;

/// An application whose functions are C's.
pub(crate) struct Application {
    functions: CApp,
    handle: Handler,
    classes: Vec<Class>,
    refusal: Refusal,
    uses: Use,
}

// SAFETY: the header tells the application that any thread may call its functions with its context;
// everything else is the runtime's own.
unsafe impl Send for Application {}
// SAFETY: as above, at once.
unsafe impl Sync for Application {}

impl Application {
    /// Reads what the application said of itself.
    ///
    /// # Safety
    /// `app` is null, or of the size that it names, with classes as many as it names.
    pub(crate) unsafe fn read(
        app: *const CApp,
        refusal: Refusal,
        uses: Use,
    ) -> Result<Self, Failure> {
        // SAFETY: the first field is there in any version of the header.
        let size = *unsafe { given(app.cast::<usize>(), "the application") }?;
        if size != size_of::<CApp>() {
            let what = format!(
                "curtail_app.size is {size}, not {}: set it to sizeof(curtail_app), and compile with \
                 the header of this library",
                size_of::<CApp>()
            );
            return Err(Failure::misuse(what));
        }
        // SAFETY: not null, and as large as we think.
        let functions = unsafe { *app };
        let handle = functions.handle.ok_or(Failure::misuse("curtail_app.handle is NULL"))?;
        // SAFETY: the caller's promise.
        let classes = unsafe { classes(functions.classes, functions.class_count) }?;
        Ok(Self { functions, handle, classes, refusal, uses })
    }

    fn answer(&self, answer: Option<Answer>, request: &[u8], response: &mut Response) {
        let Some(answer) = answer else { return };
        let (context, bytes) = (self.functions.context, request.as_ptr());
        // SAFETY: the application's own function, as it promised.
        let ended = contain(|| unsafe { answer(context, bytes, request.len(), response) });
        if ended.is_err() {
            // Half an answer is none.
            response.clear();
        }
    }
}

/// # Safety
/// There are `count` at `first`, with valid texts; or it is null.
unsafe fn classes(first: *const CClass, count: usize) -> Result<Vec<Class>, Failure> {
    if first.is_null() || count == 0 {
        return match count {
            0 => Ok(vec![Class::named("request")]),
            _ => Err(Failure::misuse("curtail_app.classes is NULL")),
        };
    }
    if count > usize::from(u16::MAX) {
        return Err(Failure::misuse(format!("curtail_app.class_count is {count}: at most 65535")));
    }
    // SAFETY: the caller's promise.
    let classes = unsafe { std::slice::from_raw_parts(first, count) };
    let read = |(number, class): (usize, &CClass)| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(class.name, &format!("curtail_app.classes[{number}].name")) }?;
        let hint = (class.service_ns > 0).then_some(Nanos(class.service_ns));
        Ok(Class { name: name.to_owned(), hint })
    };
    classes.iter().enumerate().map(read).collect()
}

impl App for Application {
    type Worker = Worker;

    fn classes(&self) -> Vec<Class> {
        self.classes.clone()
    }

    fn setup(&self) -> Result<(), String> {
        let Some(setup) = self.functions.setup else { return Ok(()) };
        let mut error = CError::blank();
        // SAFETY: the application's own function, as it promised.
        match contain(|| unsafe { setup(self.functions.context, &raw mut error) }) {
            Ok(0) => Ok(()),
            Ok(answer) => Err(error.words(&format!("it returned {answer}"))),
            Err(_) => Err("it threw an exception".to_owned()),
        }
    }

    fn setup_worker(&self, worker: WorkerId) -> Worker {
        let CApp { context, teardown_worker, .. } = self.functions;
        let mut state = ptr::null_mut();
        if let Some(setup) = self.functions.setup_worker {
            let mut error = CError::blank();
            // SAFETY: the application's own function, as it promised.
            let ended =
                contain(|| unsafe { setup(context, worker.0, &raw mut state, &raw mut error) });
            let reason = match ended {
                Ok(0) => None,
                Ok(answer) => Some(error.words(&format!("it returned {answer}"))),
                Err(_) => Some("it threw an exception".to_owned()),
            };
            if let Some(reason) = reason {
                let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
                refusal.get_or_insert(reason);
                // To the runtime, as a panic that is not reported.
                resume_unwind(Box::new("setup_worker refused"));
            }
        }
        Worker { state, context, teardown: teardown_worker, _uses: self.uses.clone() }
    }

    fn classify(&self, request: &[u8]) -> ClassId {
        let Some(classify) = self.functions.classify else { return ClassId(0) };
        classify_by(classify, self.functions.context, request)
    }

    fn hint(&self, request: &[u8]) -> Option<Nanos> {
        let hint = self.functions.hint?;
        let (context, bytes) = (self.functions.context, request.as_ptr());
        // SAFETY: the application's own function, as it promised.
        let service_ns = contain(|| unsafe { hint(context, bytes, request.len()) }).ok()?;
        (service_ns > 0).then_some(Nanos(service_ns))
    }

    fn handle(&self, worker: &Worker, request: &[u8], response: &mut Response) {
        let (context, bytes) = (self.functions.context, request.as_ptr());
        // SAFETY: the application's own function, as it promised. What it throws goes on to the
        // runtime, through frames that drop nothing.
        let answer =
            unsafe { (self.handle)(context, worker.state, bytes, request.len(), response) };
        if answer != 0 {
            // The runtime knows failures as panics; this one has been reported.
            resume_unwind(Box::new("the handler failed"));
        }
    }

    fn failed(&self, request: &[u8], response: &mut Response) {
        self.answer(self.functions.failed, request, response);
    }

    fn overloaded(&self, request: &[u8], response: &mut Response) {
        match self.functions.overloaded {
            None => response.refuse(),
            answer => self.answer(answer, request, response),
        }
    }
}

/// One of the application's classifiers. What it throws goes on as a panic, which costs that request.
pub(crate) fn classify_by(classify: ClassifyFn, context: *mut c_void, request: &[u8]) -> ClassId {
    let bytes = request.as_ptr();
    // SAFETY: the application's own function, as it promised.
    match contain(|| unsafe { classify(context, bytes, request.len()) }) {
        Ok(class) => ClassId(class),
        Err(_) => resume_unwind(Box::new("the classifier threw")),
    }
}

/// What `setup_worker` made; one thread's.
pub(crate) struct Worker {
    state: *mut c_void,
    context: *mut c_void,
    teardown: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut c_void)>,
    /// An engine drops the application before its state.
    _uses: Use,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(teardown) = self.teardown {
            // SAFETY: the application's own function, as it promised, on the thread of the setup. An
            // exception at the end is dropped: no request is left to fail by it.
            let _ = contain(|| unsafe { teardown(self.context, self.state) });
        }
    }
}
