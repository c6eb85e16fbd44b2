//! Many runs on all cores. Each is one thread's, and its result depends on nothing but its input, so
//! that the order in which they are done shows nowhere.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Does `work` for each of `items` on up to `threads` threads; the results are in the order of the
/// items. The items last in the list start last: put the longest first. After an error no further
/// item is started.
///
/// # Errors
/// The first of `work`, in the order of the items.
///
/// # Panics
/// Where `work` does.
pub fn sweep<T: Sync, R: Send, E: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<R, E>>>> =
        items.iter().map(|_| Mutex::new(None)).collect();
    let worker = || {
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(index)
        {
            let result = work(item);
            if result.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
            *results[index].lock().expect("nothing panics while it is held") = Some(result);
        }
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(items.len())).map(|_| scope.spawn(worker)).collect();
        worker();
        for other in others {
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let done = results.into_iter().map(|it| it.into_inner().expect("as above"));
    // Items are started in order: what was not started comes after the first error.
    done.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_whatever_the_threads() {
        let items: Vec<u64> = (0..100).collect();
        for threads in [1, 2, 7, 200] {
            let squares = sweep(&items, threads, |n| Ok::<_, ()>(n * n)).unwrap();
            assert!(squares.iter().zip(&items).all(|(square, n)| *square == n * n));
            assert_eq!(squares.len(), 100);
        }
        assert_eq!(sweep(&[] as &[u8], 3, |_| Ok::<_, ()>(())), Ok(vec![]));
    }

    #[test]
    fn the_first_error_ends_it() {
        let items: Vec<u64> = (0..1_000).collect();
        let work = |n: &u64| if *n >= 10 { Err(*n) } else { Ok(*n) };
        assert_eq!(sweep(&items, 4, work), Err(10));
    }
}
