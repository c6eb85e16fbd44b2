//! Instrumented programs that know nothing of a core allocator follow its orders.
#![forbid(unsafe_code)]

use curtail_shm::kthreads::{BOARD_FD_VARIABLE, allowed_cpus};
use curtail_shm::{Board, BoardView, CoreIndex, Slot};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::{FdFlags, fcntl_setfd};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// It computes on its first thread, or on another while the first sleeps; with a number it ends.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long sum = 1;
static void *compute(void *rounds) {
  for (unsigned long at = 0; at != (unsigned long)rounds; at++)
    sum = sum * 6364136223846793005u + at;
  return 0;
}
int main(int count, char **words) {
  pthread_t other;
  if (count > 2)
    return compute((void *)strtoul(words[2], 0, 10)) != 0;
  if (count == 1)
    compute((void *)-1ul);
  pthread_create(&other, 0, compute, (void *)-1ul);
  for (;;)
    pause();
}
"#;
const HEIR: Slot = Slot(1);
/// No figure is judged by it: it turns a deadlock into a failure.
const STUCK: Duration = Duration::from_secs(60);

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn built(folder: &Path) -> PathBuf {
    let home = std::env::var_os("CURTAIL_HOME").expect("CURTAIL_HOME: where curtail-cc is");
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    let mut compile = Command::new(Path::new(&home).join("curtail-cc"));
    compile.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(compile.status().unwrap().success());
    program
}

/// With that descriptor, which it inherits, as its board.
fn command(program: &Path, board: impl AsFd) -> Command {
    fcntl_setfd(board.as_fd(), FdFlags::empty()).unwrap();
    let mut command = Command::new(program);
    command.env(BOARD_FD_VARIABLE, board.as_fd().as_raw_fd().to_string());
    command
}

/// A kthread that sleeps on the board is woken, by the program alone.
fn wakes_an_heir(program: &Path, words: &[&str]) {
    let cpus = allowed_cpus().unwrap();
    let board = Board::create(&cpus, 3, Duration::from_micros(5)).unwrap();
    let view = BoardView::map(board.fd().try_clone_to_owned().unwrap()).unwrap();
    let word = board.grant(HEIR, CoreIndex(0));
    let fd: OwnedFd = board.fd().try_clone_to_owned().unwrap();
    let _program = Running(command(program, &fd).args(words).spawn().unwrap());
    let heir = std::thread::spawn(move || view.sleep(HEIR, word, None));
    let begun = Instant::now();
    while !heir.is_finished() {
        assert!(begun.elapsed() < STUCK, "the heir is not woken");
        // Wherever the program runs; and until the heir sleeps.
        (0..cpus.len() as u32).for_each(|core| _ = board.order(CoreIndex(core), HEIR));
        std::thread::park_timeout(Duration::from_millis(1));
    }
    heir.join().unwrap();
}

#[test]
#[ignore = "needs curtail-cc: ci/instrumented.sh"]
fn every_thread_follows_the_orders_of_its_core() {
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path());
    wakes_an_heir(&program, &[]);
    wakes_an_heir(&program, &["another"]);
}

fn forged(words: &[u32], seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("forged", flags).unwrap());
    file.write_all(b"CURTBORD").unwrap();
    words.iter().for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
    rustix::fs::ftruncate(&file, 8_192).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

#[test]
#[ignore = "needs curtail-cc: ci/instrumented.sh"]
fn a_forged_board_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path());
    let run = |fd: &OwnedFd| -> ExitStatus {
        command(&program, fd).args(["ends", "20000000"]).status().unwrap()
    };
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    // A core's line with an order whose heir is no slot.
    let mut strange = vec![1, 128, 64, 1, 2];
    strange.resize(30, 0);
    strange.extend([u32::MAX, 7, 0, 0]);
    let boards = [
        forged(&strange, sealed),
        forged(&[1, 128, 64, 1_024, 65_536], sealed),
        forged(&[1, 128, 64, u32::MAX, u32::MAX], sealed),
        forged(&[2, 128, 64, 1, 2], sealed),
        forged(&[1, 128, 64, 1, 2], SealFlags::SEAL),
    ];
    for (case, board) in boards.iter().enumerate() {
        assert!(run(board).success(), "case {case}");
    }
    // No descriptor at all, and nonsense.
    for text in ["1000", "-1", "x", ""] {
        let mut command = Command::new(&program);
        command.env(BOARD_FD_VARIABLE, text).args(["ends", "1000"]);
        assert!(command.status().unwrap().success(), "{text}");
    }
}
