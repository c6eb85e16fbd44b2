//! A pool beside tokio, on both kinds of its runtime.

use curtail::ClassId;
use curtail::pool::{Class, Error, Pool, Why};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const JOB: ClassId = ClassId(0);

async fn use_it(pool: &Pool) {
    let jobs: Vec<_> = (0..200_u64).map(|n| pool.run(JOB, move || n * n)).collect();
    let tasks: Vec<_> = jobs.into_iter().map(tokio::spawn).collect();
    for (n, task) in (0..).zip(tasks) {
        assert_eq!(task.await.unwrap().unwrap(), n * n);
    }
    let error = pool.run(JOB, || -> u32 { panic!("no") }).await.unwrap_err();
    assert_eq!(error.to_string(), "class job: the job panicked: no");
    // A job that waits for tokio: the task on tokio's side runs meanwhile.
    let (sender, comes) = tokio::sync::oneshot::channel();
    let waits = pool.run(JOB, move || curtail::block_on(comes).unwrap());
    tokio::spawn(async move { sender.send(9).unwrap() });
    assert_eq!(waits.await.unwrap(), 9);
    // What needs tokio's runtime is spawned there.
    let handle = tokio::runtime::Handle::current();
    let sleeps = pool.run(JOB, move || {
        let task = handle.spawn(async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            5
        });
        curtail::block_on(task).unwrap()
    });
    assert_eq!(sleeps.await.unwrap(), 5);
}

#[tokio::test]
async fn beside_one_thread_of_tokio() {
    use_it(&Pool::builder().workers(1).build().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_some_threads_of_tokio() {
    let pools = [1, 2].map(|workers| Pool::builder().workers(workers).build().unwrap());
    tokio::join!(use_it(&pools[0]), use_it(&pools[1]));
}

#[tokio::test]
async fn a_future_that_loses_a_race_gives_its_job_up() {
    let job = Class::named("job").limit(2);
    let pool = Pool::builder().workers(1).class(job).build().unwrap();
    let go = Arc::new(AtomicBool::new(false));
    let waits = go.clone();
    let held = pool.run(JOB, move || {
        while !waits.load(Ordering::SeqCst) {
            curtail::yield_now();
        }
    });
    for _ in 0..20 {
        // Whether it began before or not, it has ended, or is not run at all.
        let lost = tokio::time::timeout(Duration::from_millis(1), pool.run(JOB, || ()));
        match lost.await {
            Err(_) | Ok(Ok(())) => {}
            Ok(Err(Error::Refused(refused))) => assert_eq!(refused.why, Why::Full { limit: 2 }),
            Ok(Err(other)) => panic!("{other}"),
        }
    }
    go.store(true, Ordering::SeqCst);
    held.await.unwrap();
    let ends = pool.clone();
    let left = tokio::task::spawn_blocking(move || ends.shutdown(Duration::from_secs(60)));
    assert_eq!(left.await.unwrap(), 0);
    let stats = &pool.stats()[0];
    assert_eq!((stats.completed + stats.given_up, stats.under_way), (stats.submitted, 0));
}
