//! What the test lists of Shenango and Caladan cover, where the other files do not: kthreads that are
//! woken, several runtimes, threads in waves, timers by the thousand, reads of TCP in every size.

use crate::common;

use common::{in_kernel, in_time};
use curtail::net::{TcpListener, TcpStream};
use curtail::sync::{Barrier, Condvar, Mutex, WaitGroup, rcu::Rcu};
use curtail::time::sleep;
use curtail::{Runtime, scope, spawn, yield_now};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const MICROS: Duration = Duration::from_micros(1);

#[test]
fn a_sleeping_kthread_is_woken_each_time_there_is_work() {
    in_time(|| {
        Runtime::builder().kthreads(2).spin(Duration::ZERO).run(|| {
            for round in 0..300 {
                sleep(round % 7 * 50 * MICROS); // The other one, and in most rounds both, go to sleep.
                let ran = Arc::new(AtomicUsize::new(0));
                let same = ran.clone();
                let other = spawn(move || same.fetch_add(1, Ordering::Release));
                while ran.load(Ordering::Acquire) == 0 {
                    in_kernel(10 * MICROS); // It keeps its kthread: this one cannot run it.
                }
                other.join().unwrap();
            }
        });
    });
}

#[test]
fn each_kthread_is_woken_when_all_are_needed_at_once() {
    in_time(|| {
        Runtime::builder().kthreads(4).spin(Duration::ZERO).run(|| {
            for _ in 0..100 {
                sleep(200 * MICROS);
                let met = Arc::new(AtomicUsize::new(0));
                scope(|scope| {
                    for _ in 0..4 {
                        scope.spawn(|| {
                            met.fetch_add(1, Ordering::AcqRel);
                            while met.load(Ordering::Acquire) < 4 {
                                in_kernel(10 * MICROS);
                            }
                        });
                    }
                });
            }
        });
    });
}

#[test]
fn runtimes_run_beside_each_other_and_after_each_other() {
    let meeting = Arc::new(Barrier::new(3 * 10));
    for _ in 0..3 {
        let runtimes: Vec<_> = (0..3)
            .map(|number| {
                let meeting = meeting.clone();
                std::thread::spawn(move || {
                    Runtime::builder().kthreads(1 + number % 2).run(move || {
                        let leaders: usize = (0..10)
                            .map(|_| {
                                let meeting = meeting.clone();
                                spawn(move || usize::from(meeting.wait().is_leader()))
                            })
                            .collect::<Vec<_>>()
                            .into_iter()
                            .map(|thread| thread.join().unwrap())
                            .sum();
                        leaders
                    })
                })
            })
            .collect();
        let leaders: usize = runtimes.into_iter().map(|runtime| runtime.join().unwrap()).sum();
        assert_eq!(leaders, 1, "they met across their runtimes");
    }
}

#[test]
fn threads_in_waves_share_a_mutex_and_a_condition() {
    for kthreads in [1, 3] {
        Runtime::builder().kthreads(kthreads).stack_size(16 * 1024).run(|| {
            let shared = Arc::new((Mutex::new((0_usize, 0_usize)), Condvar::new()));
            for wave in 1..=10 {
                let group = Arc::new(WaitGroup::new());
                group.add(2_000);
                for _ in 0..2_000 {
                    let (shared, group) = (shared.clone(), group.clone());
                    spawn(move || {
                        let (lock, changed) = &*shared;
                        let mut state = lock.lock().unwrap();
                        state.0 += 1;
                        let mut state = changed.wait_while(state, |state| state.1 < wave).unwrap();
                        state.0 -= 1;
                        drop(state);
                        group.done();
                    });
                }
                while shared.0.lock().unwrap().0 < 2_000 {
                    yield_now();
                }
                shared.0.lock().unwrap().1 = wave;
                shared.1.notify_all();
                group.wait();
                assert_eq!(shared.0.lock().unwrap().0, 0);
            }
        });
    }
}

#[test]
fn a_mutex_counts_right_through_yields_sleeps_and_panics() {
    for kthreads in [1, 4] {
        Runtime::builder().kthreads(kthreads).run(|| {
            let count = Arc::new(Mutex::new(0_u64));
            let threads: Vec<_> = (0..50_u64)
                .map(|number| {
                    let count = count.clone();
                    spawn(move || {
                        for turn in 0..200 {
                            let mut held =
                                count.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                            let before = *held;
                            match (number + turn) % 50 {
                                0 => sleep(MICROS),
                                1..=9 => yield_now(),
                                _ => {}
                            }
                            *held = before + 1;
                        }
                        let _held = count.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        if number % 10 == 0 {
                            std::panic::resume_unwind(Box::new(number));
                        }
                    })
                })
                .collect();
            let ended = threads.into_iter().map(|thread| thread.join().is_err());
            assert_eq!(ended.filter(|failed| *failed).count(), 5);
            assert!(count.is_poisoned());
            assert_eq!(*count.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), 10_000);
        });
    }
}

#[test]
fn timers_end_none_early_and_all_of_them() {
    for kthreads in [1, 2] {
        Runtime::builder().kthreads(kthreads).stack_size(16 * 1024).run(|| {
            // Over the borders of a wheel's levels, and many at one instant.
            let times = [0, 1, 2, 63, 64, 65, 255, 256, 257, 4_095, 4_096, 4_097, 20_000];
            let threads: Vec<_> = (0..5_000)
                .map(|number| {
                    let time = times[number % times.len()] * MICROS;
                    spawn(move || {
                        let begun = Instant::now();
                        sleep(time);
                        assert!(begun.elapsed() >= time, "{:?} < {time:?}", begun.elapsed());
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

#[test]
fn each_value_that_rcu_replaces_comes_back_once() {
    Runtime::builder().kthreads(2).run(|| {
        let freed = Arc::new(AtomicUsize::new(0));
        struct Counted(usize, Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
        let value = Arc::new(Rcu::new(Counted(0, freed.clone())));
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let (value, freed) = (value.clone(), freed.clone());
                spawn(move || {
                    for number in 1..=50 {
                        drop(value.replace(Counted(number, freed.clone())));
                        assert!(value.read(|value| value.0) <= 50);
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(freed.load(Ordering::Relaxed), 200);
        drop(value);
        assert_eq!(freed.load(Ordering::Relaxed), 201);
    });
}

/// At the borders of pages, segments, buffers and powers of two.
fn sizes() -> impl Iterator<Item = usize> + Clone {
    let borders = (0..=16).map(|power| 1_usize << power).chain([1_448, 1_460, 9_000, 65_483]);
    borders.flat_map(|size| [size.saturating_sub(1).max(1), size, size + 1])
}

/// The byte at each place of the stream.
fn byte_at(place: usize) -> u8 {
    (place * 31 + place / 251) as u8
}

/// Reads by buffers of the sizes, from the end of the list, whatever pieces come.
fn read_all(mut stream: TcpStream) -> usize {
    let mut buffer = vec![0; 1 << 17];
    let (mut place, sizes) = (0, sizes().collect::<Vec<_>>());
    for size in sizes.iter().rev().cycle() {
        let read = stream.read(&mut buffer[..*size]).unwrap();
        if read == 0 {
            return place;
        }
        assert!(read <= *size);
        for (n, byte) in buffer[..read].iter().enumerate() {
            assert_eq!(*byte, byte_at(place + n), "at {}", place + n);
        }
        place += read;
    }
    unreachable!("the list has no end")
}

#[test]
fn tcp_is_read_in_every_size_that_it_is_written_in() {
    for kthreads in [1, 2] {
        Runtime::builder().kthreads(kthreads).run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let reading = spawn(move || read_all(listener.accept().unwrap().0));
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut place = 0;
            for size in sizes() {
                let piece: Vec<_> = (place..place + size).map(byte_at).collect();
                stream.write_all(&piece).unwrap();
                place += size;
            }
            drop(stream);
            assert_eq!(reading.join().unwrap(), place);
        });
    }
}
