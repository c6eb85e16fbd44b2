//! What a read of 4 KiB costs that the page cache has, in ns: std's own, and those of `curtail::fs` by
//! io_uring and by ordinary threads, by one thread and by 64 at once on one kthread. Pin it:
//! `taskset -c 1 cargo run --release -p curtail --example file_costs`.

use curtail::fs::File;
use curtail::{Io, Runtime};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const PAGE: usize = 4096;
const PAGES: usize = 64;

/// Of this many reads.
const READS: usize = 12_800;

/// The best of several runs: others use the machine, too.
fn cost(name: &str, mut run: impl FnMut()) {
    let one = || {
        let before = Instant::now();
        run();
        before.elapsed().as_nanos() as f64 / READS as f64
    };
    let best = std::iter::repeat_with(one).take(7).fold(f64::INFINITY, f64::min);
    println!("{name:<28}{best:>10.0}");
}

/// `threads` at once, which read all pages by turns.
fn reads(file: &Arc<File>, threads: usize) {
    let read = |_| {
        let file = file.clone();
        curtail::spawn(move || {
            let mut page = [0; PAGE];
            for n in 0..READS / threads {
                file.read_exact_at(&mut page, (n % PAGES * PAGE) as u64).expect("it is there");
            }
        })
    };
    let threads: Vec<_> = (0..threads).map(read).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
}

fn by(io: Io, name: &'static str, path: &Path) {
    let path = path.to_owned();
    Runtime::builder().kthreads(1).io(io).run(move || {
        let file = Arc::new(File::open(path).expect("it is there"));
        for threads in [1, 64] {
            cost(&format!("{name}, {threads}"), || reads(&file, threads));
        }
    });
}

fn main() {
    let path = std::env::temp_dir().join(format!("curtail-file-costs-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).expect("room for a file");
    file.write_all(&[1; PAGE * PAGES]).expect("room for a file");
    let file = std::fs::File::open(&path).expect("it is there");
    let mut page = [0; PAGE];
    cost("std", || {
        for n in 0..READS {
            file.read_exact_at(&mut page, (n % PAGES * PAGE) as u64).expect("it is there");
        }
    });
    by(Io::Uring, "io_uring", &path);
    by(Io::Epoll, "ordinary threads", &path);
    std::fs::remove_file(path).expect("it is there");
}
