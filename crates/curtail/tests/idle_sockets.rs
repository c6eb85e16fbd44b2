//! Thousands of connections on which nothing happens cost next to nothing. (By itself in a process,
//! whose processor time is measured.)

use curtail::net::UnixStream;
use curtail::{Runtime, spawn};
use rustix::process::{Resource, getrlimit};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Processor time of the process so far.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap()
}

#[test]
fn ten_thousand_idle_connections_take_under_a_percent_of_a_core() {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = usize::try_from((limit.saturating_sub(100)) / 2).unwrap().min(10_000);
    Runtime::builder().kthreads(2).stack_size(16 * 1024).run(move || {
        let connections: Vec<_> = (0..count)
            .map(|_| {
                let (ours, mut theirs) = UnixStream::pair().unwrap();
                let waiting = spawn(move || {
                    let mut byte = [0];
                    theirs.read_exact(&mut byte).unwrap();
                    theirs.write_all(&byte).unwrap();
                });
                curtail::yield_now();
                (ours, waiting)
            })
            .collect();
        // Until the last of them waits, and whatever the start has brought about is over.
        curtail::time::sleep(Duration::from_millis(300));
        let (begin, before) = (Instant::now(), processor_time());
        curtail::time::sleep(Duration::from_secs(2));
        let share = (processor_time() - before).as_secs_f64() / begin.elapsed().as_secs_f64();
        println!("{count} connections: {:.3} % of a core", share * 100.0);
        assert!(share < 0.01, "{:.2} % of a core with {count} connections", share * 100.0);
        for (mut ours, waiting) in connections {
            ours.write_all(&[3]).unwrap();
            let mut byte = [0];
            ours.read_exact(&mut byte).unwrap();
            assert_eq!(byte, [3]);
            waiting.join().unwrap();
        }
    });
}
