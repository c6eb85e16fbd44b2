//! Threads that are known before they run, by what C calls `pthread_self`.

use super::{Builder, JoinHandle, launch};
use std::io;

impl Builder {
    /// As [`Builder::spawn`]; `tell` learns the thread pointer of its thread-locals before it runs, which is
    /// C's `pthread_self`; 0: it has none of its own.
    ///
    /// # Errors
    /// As [`Builder::spawn`].
    #[doc(hidden)]
    pub fn spawn_known<F, T>(self, f: F, tell: impl FnOnce(usize)) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let batch = self.batch;
        let handle = self.prepare(f)?;
        tell(handle.block().stack.thread_pointer());
        launch(handle.block(), batch);
        Ok(handle)
    }
}
