//! Records what the dispatcher tells the policy and what it answers, into a file, for
//! `curtail sim --replay`.
//!
//! The dispatcher writes chunks of bytes ([`Tap`]); a thread of its own puts them into the file and
//! gives the buffers back. Between the two lie at most [`CHUNKS`] of them. When the disk does not
//! keep up, the record ends there, whole up to its end, and the server goes on.

use curtail_sched::record::Tap;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// 8 MiB: a quarter of a second of a million requests a second.
const CHUNKS: usize = 8 * 1024 * 1024 / Tap::CHUNK;

/// A file that is being written.
pub(crate) struct Recorder {
    path: PathBuf,
    thread: JoinHandle<io::Result<u64>>,
    cut: Arc<AtomicBool>,
}

impl Recorder {
    /// Records into `file`. What goes into the tap is in the file once the tap is dropped and
    /// [`Recorder::finish`] returns.
    pub(crate) fn start(path: &Path, file: File) -> io::Result<(Tap, Self)> {
        let (full, chunks) = sync_channel(CHUNKS);
        let (empty, buffers) = sync_channel(CHUNKS);
        let thread = thread::Builder::new()
            .name("recorder".to_owned())
            .spawn(move || write(file, &chunks, &empty))?;
        let cut = Arc::new(AtomicBool::new(false));
        let cut_off = cut.clone();
        let drain = move |chunk: Vec<u8>| {
            if full.try_send(chunk).is_err() {
                // No room, or the file could not be written: either is reported at the end.
                cut_off.store(true, Ordering::Relaxed);
                return None;
            }
            Some(buffers.try_recv().unwrap_or_else(|_| Vec::with_capacity(Tap::CHUNK)))
        };
        Ok((Tap::new(Box::new(drain)), Self { path: path.to_owned(), thread, cut }))
    }

    /// Waits until all is written; the tap has been dropped. What the user should know.
    pub(crate) fn finish(self) -> String {
        let path = self.path.display();
        match self.thread.join() {
            Ok(Ok(bytes)) if self.cut.load(Ordering::Relaxed) => {
                format!(
                    "the record {path} ends early, after {bytes} bytes: the disk did not keep up"
                )
            }
            Ok(Ok(bytes)) => format!("recorded {bytes} bytes in {path}"),
            Ok(Err(error)) => format!("the record {path} ends early: {error}"),
            Err(_) => format!("the record {path} ends early: its thread panicked"),
        }
    }
}

fn write(
    mut file: File,
    chunks: &Receiver<Vec<u8>>,
    empty: &SyncSender<Vec<u8>>,
) -> io::Result<u64> {
    let mut bytes = 0;
    // Ends when the tap is gone.
    for mut chunk in chunks {
        file.write_all(&chunk)?;
        bytes += chunk.len() as u64;
        chunk.clear();
        // Where there are enough buffers, this one goes.
        let _ = empty.try_send(chunk);
    }
    Ok(bytes)
}
