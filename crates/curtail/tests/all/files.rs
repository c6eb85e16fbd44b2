//! Files under threads: std's behaviour, without blocking the kthread.

use curtail::fs::{self, File, OpenOptions};
use curtail::time::{sleep, timeout};
use curtail::{Io, Runtime, spawn, yield_now};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// By each way, on one kthread and on two; on a plain thread as well.
fn on_each(f: impl Fn() + Send + Sync + Clone + 'static) {
    f();
    under_each(f);
}

fn under_each(f: impl Fn() + Send + Sync + Clone + 'static) {
    for io in [Io::Auto, Io::Epoll, Io::Uring] {
        for kthreads in [1, 2] {
            let f = f.clone();
            Runtime::builder().kthreads(kthreads).io(io).run(f);
        }
    }
    let refused = Runtime::builder().kthreads(1).refuse_io_uring(libc::EPERM);
    refused.run(f);
}

/// A directory of its own, which goes with it.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("curtail-files-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251) as u8).collect()
}

#[test]
fn what_is_written_is_read() {
    on_each(|| {
        let place = Place::new();
        for len in [0, 1, 4_096, 300_001] {
            let (path, data) = (place.path("data"), pattern(len));
            fs::write(&path, &data).unwrap();
            assert!(fs::read(&path).unwrap() == data && std::fs::read(&path).unwrap() == data);
        }
        fs::write(place.path("text"), "hé").unwrap();
        assert_eq!(fs::read_to_string(place.path("text")).unwrap(), "hé");
    });
}

#[test]
fn a_file_has_a_position_and_may_be_read_and_written_beside_it() {
    on_each(|| {
        let place = Place::new();
        let mut file = File::create_new(place.path("data")).unwrap();
        file.write_all(b"0123456789").unwrap();
        assert_eq!(file.seek(SeekFrom::Start(2)).unwrap(), 2);
        let mut two = [0; 2];
        file.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"23");
        file.read_exact_at(&mut two, 8).unwrap();
        assert_eq!(&two, b"89");
        assert_eq!(file.read_at(&mut [0; 4], 10).unwrap(), 0);
        file.write_all_at(b"xy", 12).unwrap();
        (&file).read_exact(&mut two).unwrap();
        assert_eq!(&two, b"45", "the position is where it was");
        let eof = file.read_exact_at(&mut [0; 4], 12).unwrap_err();
        assert_eq!(eof.kind(), ErrorKind::UnexpectedEof);
        for error in [file.read_at(&mut two, u64::MAX), file.write_at(&two, 1 << 63)] {
            assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        file.sync_data().unwrap();
        file.sync_all().unwrap();
        assert_eq!(file.metadata().unwrap().len(), 14);
        file.set_len(3).unwrap();
        assert_eq!(std::fs::read(place.path("data")).unwrap(), b"012");
        let mut clone = file.try_clone().unwrap();
        clone.seek(SeekFrom::Start(1)).unwrap();
        let mut std = std::fs::File::from(file);
        let mut rest = String::new();
        std.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "12", "a clone shares the position");
        let mut file = File::from(OwnedFd::from(std));
        assert_eq!(file.seek(SeekFrom::End(0)).unwrap(), 3);
    });
}

#[test]
fn options_mean_what_they_mean_in_std() {
    // Read, write, append, truncate, create, create_new, each set or not.
    fn ours(bits: u32, path: &Path) -> io::Result<()> {
        let is = |bit: u32| bits & 1 << bit != 0;
        let mut options = OpenOptions::new();
        options.read(is(0)).write(is(1)).append(is(2)).truncate(is(3)).create(is(4));
        options.create_new(is(5)).mode(0o600).open(path)?;
        Ok(())
    }
    fn std(bits: u32, path: &Path) -> io::Result<()> {
        let is = |bit: u32| bits & 1 << bit != 0;
        let mut options = std::fs::OpenOptions::new();
        options.read(is(0)).write(is(1)).append(is(2)).truncate(is(3)).create(is(4));
        options.create_new(is(5)).open(path)?;
        Ok(())
    }
    on_each(|| {
        let place = Place::new();
        for bits in 0..64 {
            for exists in [false, true] {
                let run = |open: fn(u32, &Path) -> io::Result<()>, name| {
                    let path = place.path(name);
                    let _ = std::fs::remove_file(&path);
                    if exists {
                        std::fs::write(&path, "abc").unwrap();
                    }
                    let error = open(bits, &path).map_err(|error| error.kind()).err();
                    (error, std::fs::read(&path).ok())
                };
                assert_eq!(run(ours, "a"), run(std, "b"), "options {bits:06b}, there: {exists}");
            }
        }
    });
}

#[test]
fn errors_are_those_of_std() {
    on_each(|| {
        let place = Place::new();
        let kind = |result: io::Result<File>| result.map_err(|error| error.kind()).unwrap_err();
        assert_eq!(kind(File::open(place.path("none"))), ErrorKind::NotFound);
        assert_eq!(kind(File::open("a\0b")), ErrorKind::InvalidInput);
        fs::write(place.path("there"), "x").unwrap();
        assert_eq!(kind(File::create_new(place.path("there"))), ErrorKind::AlreadyExists);
        let mut directory = File::open(&place.0).unwrap();
        let error = directory.read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
        let mut file = File::open(place.path("there")).unwrap();
        let error = file.write(b"y").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        fs::write(place.path("bytes"), [0xff]).unwrap();
        let error = fs::read_to_string(place.path("bytes")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    });
}

#[test]
fn what_is_appended_comes_last() {
    on_each(|| {
        let place = Place::new();
        let path = place.path("log");
        fs::write(&path, "a").unwrap();
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"b").unwrap();
        file.write_all_at(b"c", 0).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"abc");
    });
}

/// A file whose reads wait until something is written.
fn pipe() -> (File, io::PipeWriter) {
    let (from, to) = io::pipe().unwrap();
    (File::from(OwnedFd::from(from)), to)
}

#[test]
fn a_thread_that_waits_for_a_file_leaves_its_kthread_to_others() {
    under_each(|| {
        let (mut file, mut to) = pipe();
        let done = Arc::new(AtomicBool::new(false));
        let is_done = done.clone();
        let reading = spawn(move || {
            let mut byte = [0];
            file.read_exact(&mut byte).unwrap();
            is_done.store(true, Ordering::Release);
            byte[0]
        });
        // On one kthread this would never return otherwise.
        (0..100).for_each(|_| yield_now());
        assert!(!done.load(Ordering::Acquire));
        to.write_all(&[7]).unwrap();
        assert_eq!(reading.join().unwrap(), 7);
    });
}

#[test]
fn a_timeout_leaves_an_operation_in_flight_to_its_end() {
    under_each(|| {
        let (mut file, mut to) = pipe();
        let writing = spawn(move || {
            sleep(Duration::from_millis(5));
            to.write_all(&[7]).unwrap();
        });
        let mut byte = [0];
        let read = timeout(Duration::from_millis(1), || file.read(&mut byte));
        assert_eq!((read.unwrap().unwrap(), byte), (1, [7]));
        writing.join().unwrap();
    });
}

#[test]
fn many_threads_read_one_file_at_once() {
    under_each(|| {
        let place = Place::new();
        let data = Arc::new(pattern(400 * 512));
        fs::write(place.path("data"), &*data).unwrap();
        let file = Arc::new(File::open(place.path("data")).unwrap());
        let read = |n: usize| {
            let (file, data) = (file.clone(), data.clone());
            spawn(move || {
                for round in 0..5 {
                    let at = (n * 7 + round * 13) % 400 * 512;
                    let mut piece = [0; 512];
                    file.read_exact_at(&mut piece, at as u64).unwrap();
                    assert!(piece == data[at..at + 512]);
                }
            })
        };
        let threads: Vec<_> = (0..400).map(read).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
