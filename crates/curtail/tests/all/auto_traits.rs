//! Which public types may move between threads (`Send`) and be shared by them (`Sync`), told at
//! compile time: a line here that is not so does not compile. What must *not* be the one or the
//! other is asserted, too: a lock's guard is its fiber's, and a bound that is too wide is memory
//! corruption in safe code.

use curtail::sync::{self, Condvar, Mutex, MutexGuard, RwLock, mpsc, oneshot, rcu};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Two impls fit a type that has the trait, and the call below does not know which: an error.
trait AmbiguousIfSend<Which> {
    fn is_not() {}
}
impl<T: ?Sized> AmbiguousIfSend<()> for T {}
impl<T: ?Sized + Send> AmbiguousIfSend<u8> for T {}

trait AmbiguousIfSync<Which> {
    fn is_not() {}
}
impl<T: ?Sized> AmbiguousIfSync<()> for T {}
impl<T: ?Sized + Sync> AmbiguousIfSync<u8> for T {}

fn is_send<T: ?Sized + Send>() {}
fn is_sync<T: ?Sized + Sync>() {}

macro_rules! auto_traits {
    (@one $type:ty: Send & Sync) => { is_send::<$type>(); is_sync::<$type>(); };
    (@one $type:ty: Send & !Sync) => {
        is_send::<$type>();
        <$type as AmbiguousIfSync<_>>::is_not();
    };
    (@one $type:ty: !Send & Sync) => {
        <$type as AmbiguousIfSend<_>>::is_not();
        is_sync::<$type>();
    };
    (@one $type:ty: !Send & !Sync) => {
        <$type as AmbiguousIfSend<_>>::is_not();
        <$type as AmbiguousIfSync<_>>::is_not();
    };
    ($($type:ty: [$($traits:tt)*];)*) => {
        #[test]
        fn public_types_have_the_auto_traits_that_they_should() {
            $(auto_traits!(@one $type: $($traits)*);)*
        }
    };
}

auto_traits! {
    // A lock makes what may move also something to share, and takes nothing that may not move.
    Mutex<Vec<String>>: [Send & Sync];
    Mutex<dyn Send>: [Send & Sync];
    Mutex<Cell<u8>>: [Send & Sync];
    Mutex<Rc<u8>>: [!Send & !Sync];
    // A guard lowers its own thread's critical-section depth when it goes, and gives `&T` to every
    // thread that sees it.
    MutexGuard<'static, Vec<String>>: [!Send & Sync];
    MutexGuard<'static, dyn Send + Sync>: [!Send & Sync];
    MutexGuard<'static, Cell<u8>>: [!Send & !Sync];
    MutexGuard<'static, RefCell<Vec<String>>>: [!Send & !Sync];
    MutexGuard<'static, dyn Send>: [!Send & !Sync];
    Condvar: [Send & Sync];
    sync::WaitTimeoutResult: [Send & Sync];

    // Readers share the value, so it has to be `Sync`.
    RwLock<Vec<String>>: [Send & Sync];
    RwLock<Cell<u8>>: [Send & !Sync];
    RwLock<Rc<u8>>: [!Send & !Sync];
    sync::RwLockReadGuard<'static, Vec<String>>: [!Send & Sync];
    sync::RwLockReadGuard<'static, Cell<u8>>: [!Send & !Sync];
    sync::RwLockWriteGuard<'static, Vec<String>>: [!Send & Sync];
    sync::RwLockWriteGuard<'static, Cell<u8>>: [!Send & !Sync];
    sync::Semaphore: [Send & Sync];
    sync::Permit<'static>: [Send & Sync];
    sync::Barrier: [Send & Sync];
    sync::BarrierWaitResult: [Send & Sync];
    sync::Once: [Send & Sync];
    sync::OnceState: [Send & Sync];
    sync::OnceLock<Vec<String>>: [Send & Sync];
    sync::OnceLock<Cell<u8>>: [Send & !Sync];
    sync::OnceLock<Rc<u8>>: [!Send & !Sync];
    sync::LazyLock<Vec<String>>: [Send & Sync];
    sync::LazyLock<Cell<u8>>: [Send & !Sync];
    sync::LazyLock<u8, Box<dyn Fn() -> u8>>: [!Send & !Sync];
    sync::WaitGroup: [Send & Sync];
    mpsc::Sender<Cell<u8>>: [Send & Sync];
    mpsc::Sender<Rc<u8>>: [!Send & !Sync];
    mpsc::SyncSender<Cell<u8>>: [Send & Sync];
    mpsc::SyncSender<Rc<u8>>: [!Send & !Sync];
    mpsc::Receiver<Vec<String>>: [Send & !Sync];
    mpsc::Receiver<Rc<u8>>: [!Send & !Sync];
    mpsc::Iter<'static, u8>: [!Send & !Sync];
    mpsc::TryIter<'static, u8>: [!Send & !Sync];
    mpsc::IntoIter<u8>: [Send & !Sync];
    oneshot::Sender<Cell<u8>>: [Send & Sync];
    oneshot::Sender<Rc<u8>>: [!Send & !Sync];
    oneshot::Receiver<Vec<String>>: [Send & !Sync];
    oneshot::Receiver<Rc<u8>>: [!Send & !Sync];
    rcu::Rcu<Vec<String>>: [Send & Sync];
    rcu::Rcu<Cell<u8>>: [Send & !Sync];
    rcu::Rcu<Rc<u8>>: [!Send & !Sync];
    rcu::Guard<'static, Vec<String>>: [!Send & Sync];

    curtail::Server: [Send & !Sync];
    curtail::ServerBuilder: [Send & !Sync];
    curtail::pool::Pool: [Send & Sync];
    curtail::pool::Job<Cell<u8>>: [Send & Sync];
    curtail::pool::Error: [Send & Sync];
    curtail::pool::TryRun<Rc<u8>>: [!Send & !Sync];
    curtail::Handle: [Send & Sync];
    curtail::Response: [Send & Sync];
    curtail::Grace: [Send & Sync];
    curtail::Class: [Send & Sync];
    curtail::ClassifyFn: [Send & Sync];
    curtail::DispatcherMode: [Send & Sync];
    curtail::Preempt: [Send & Sync];
    curtail::StartError: [Send & Sync];
    curtail::RunError: [Send & Sync];
    curtail::ChangeError: [Send & Sync];

    curtail::Cancelled: [Send & Sync];
    curtail::Cause: [Send & Sync];
    curtail::Context: [Send & Sync];
    curtail::OnCancel: [Send & Sync];
    curtail::RequestId: [Send & Sync];

    curtail::Report: [Send & Sync];
    curtail::Stats: [Send & Sync];
    curtail::ClassStats: [Send & Sync];
    curtail::WorkerStats: [Send & Sync];
    curtail::Cpu: [Send & Sync];
    curtail::Noise: [Send & Sync];

    curtail::Builder: [Send & Sync];
    curtail::JoinHandle<Cell<u8>>: [Send & Sync];
    curtail::JoinHandle<Rc<u8>>: [!Send & !Sync];
    curtail::Runtime: [Send & Sync];
    curtail::RuntimeBuilder: [Send & Sync];
    curtail::Scope<'static, 'static>: [Send & Sync];
    curtail::ScopedJoinHandle<'static, Cell<u8>>: [Send & Sync];
    curtail::ScopedJoinHandle<'static, Rc<u8>>: [!Send & !Sync];
    curtail::Stall: [Send & Sync];
    curtail::StallPlace: [Send & Sync];
    curtail::ThreadStack: [Send & Sync];
    curtail::Suspended: [Send & Sync];
    curtail::SuspendedStack: [Send & Sync];
    curtail::KthreadStats: [Send & Sync];
    curtail::Look: [Send & Sync];
    curtail::RequestStats: [Send & Sync];
    curtail::RequestState: [Send & Sync];
    curtail::Thread: [Send & Sync];
    curtail::ThreadId: [Send & Sync];
    curtail::time::Elapsed: [Send & Sync];

    curtail::Interruptible: [Send & Sync];
    curtail::Quota: [Send & Sync];
    curtail::Refusal: [Send & Sync];
    curtail::Ticks: [Send & Sync];
    curtail::SafepointKind: [Send & Sync];
    curtail::clock::Clock: [Send & Sync];

    curtail::ClassId: [Send & Sync];
    curtail::Nanos: [Send & Sync];
    curtail::Spec: [Send & Sync];
    curtail::WorkerId: [Send & Sync];
    curtail::DaemonError: [Send & Sync];

    curtail::Io: [Send & Sync];
    curtail::fs::File: [Send & Sync];
    curtail::fs::OpenOptions: [Send & Sync];

    curtail::net::Local: [Send & Sync];
    curtail::net::LocalClient: [Send & Sync];
    curtail::net::Ticket: [Send & Sync];
    dyn curtail::net::Transport: [Send & !Sync];
    dyn curtail::net::Reply: [Send & Sync];
}

/// Every type that the crate's root names is in the table above.
#[test]
fn the_table_is_whole() {
    let root = include_str!("../../src/lib.rs");
    let table = include_str!("auto_traits.rs");
    let uses = root.split("pub use ").skip(1).map(|rest| rest.split(';').next().unwrap());
    let names = uses.flat_map(|names| names.split(|c: char| !c.is_alphanumeric() && c != '_'));
    // Traits have no auto traits of their own; `Kind` is known by another name.
    let types = names.filter(|name| name.starts_with(char::is_uppercase));
    let types: Vec<_> = types.filter(|name| !["App", "Kind"].contains(name)).collect();
    assert!(types.len() > 20, "{types:?}");
    for name in types {
        assert!(table.contains(&format!("curtail::{name}")), "{name} is not in the table");
    }
}
