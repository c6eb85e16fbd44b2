//! Futures: executors of theirs, in our threads and beside them.

use curtail_sweep::inside::{compute, ticket};
use curtail_sweep::{Outcome, must, text};
use futures::channel::{mpsc, oneshot};
use futures::executor::{self, LocalPool, ThreadPool};
use futures::stream::{self, FuturesUnordered};
use futures::task::{LocalSpawnExt, SpawnExt};
use futures::{SinkExt, StreamExt, future};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Mutex, Semaphore, broadcast, watch};
use tokio::task::JoinSet;

static POOL: LazyLock<Result<ThreadPool, String>> =
    LazyLock::new(|| ThreadPool::builder().pool_size(2).create().map_err(text));

pub fn futures() -> Outcome {
    let pool = POOL.as_ref().map_err(Clone::clone)?;
    let handle = pool.spawn_with_handle(async { (0..100_u64).sum::<u64>() }).map_err(text)?;
    let sum = executor::block_on(handle);
    let unordered: FuturesUnordered<_> = (0..50_u64)
        .map(|n| async move {
            compute();
            n
        })
        .collect();
    let squares = executor::block_on(unordered.map(|n| n * n).fold(0, |a, b| async move { a + b }));
    let (mut sender, receiver) = mpsc::channel::<u64>(2);
    let produce = async move {
        for n in 0..50 {
            let _ = sender.send(n).await;
        }
    };
    let (_, received) = executor::block_on(future::join(produce, receiver.collect::<Vec<_>>()));
    must!(received == (0..50).collect::<Vec<_>>(), "out of order: {received:?}");
    let mut local = LocalPool::new();
    let (answer, answered) = oneshot::channel();
    let task = async move {
        compute();
        let _ = answer.send(17_u64);
    };
    local.spawner().spawn_local(task).map_err(text)?;
    let answer = local.run_until(answered).map_err(text)?;
    let (ask, asked) = oneshot::channel::<u64>();
    pool.spawn_ok(async move {
        let _ = ask.send(18);
    });
    let asked = executor::block_on(asked).map_err(text)?;
    let buffered = stream::iter(0..30_u64).map(|n| async move { n * 2 }).buffered(4);
    let buffered: u64 = executor::block_on_stream(buffered.boxed()).sum();
    Ok(format!("{sum} {squares} {answer} {asked} {buffered}"))
}

static RUNTIME: LazyLock<Result<Runtime, String>> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(text)
});
static COUNT: Mutex<u64> = Mutex::const_new(0);
static ADDED: AtomicU64 = AtomicU64::new(0);

pub fn tokio() -> Outcome {
    let handle = RUNTIME.as_ref().map_err(Clone::clone)?.handle();
    must!(Handle::try_current().is_err(), "a runtime is current outside");
    let tasks = handle.block_on(tasks())?;
    handle.block_on(channels())?;
    let entered = handle.enter();
    compute();
    must!(Handle::current().id() == handle.id(), "another runtime is current");
    let spawned = tokio::task::spawn_blocking(|| compute() % 2);
    drop(entered);
    let own = Builder::new_current_thread().enable_all().build().map_err(text)?;
    let spawned = own.block_on(spawned).map_err(text)?;
    let blocked = own.block_on(async {
        let limit = Duration::from_micros(200);
        tokio::time::timeout(limit, future::pending::<()>()).await.is_err()
    });
    must!(blocked, "what never ends has ended");
    must!(Handle::try_current().is_err(), "a runtime is current still");
    Ok(format!("{tasks} {spawned}"))
}

tokio::task_local! {
    static OWN: u64;
}

async fn tasks() -> Result<u64, String> {
    let begin = Instant::now();
    let limit = Duration::from_micros(100);
    tokio::time::sleep(limit).await;
    must!(begin.elapsed() >= limit, "a sleep ended after {:?}", begin.elapsed());
    let mut set = JoinSet::new();
    for n in 0..8_u64 {
        set.spawn(async move {
            tokio::task::yield_now().await;
            let mut count = COUNT.lock().await;
            let before = *count;
            tokio::task::yield_now().await;
            *count = before + 1;
            n
        });
        ADDED.fetch_add(1, Relaxed);
    }
    let mut sum = 0;
    while let Some(joined) = set.join_next().await {
        sum += joined.map_err(text)?;
    }
    let own = ticket();
    OWN.scope(own, async move {
        compute();
        tokio::task::yield_now().await;
        must!(OWN.get() == own, "a task has another's value");
        Ok(sum)
    })
    .await
}

async fn channels() -> Result<(), String> {
    let permits = Arc::new(Semaphore::new(2));
    let (sender, mut receiver) = tokio::sync::mpsc::channel(2);
    for n in 0..10_u64 {
        let (sender, permits) = (sender.clone(), permits.clone());
        tokio::spawn(async move {
            let _permit = permits.acquire().await;
            let _ = sender.send(n).await;
        });
    }
    drop(sender);
    let mut received = Vec::new();
    while let Some(n) = receiver.recv().await {
        compute();
        received.push(n);
    }
    received.sort_unstable();
    must!(received == (0..10).collect::<Vec<_>>(), "received: {received:?}");
    let (tell, mut told) = watch::channel(0);
    let (shout, mut heard) = broadcast::channel(16);
    tokio::spawn(async move {
        let _ = shout.send(7);
        let _ = tell.send(9);
    });
    told.changed().await.map_err(text)?;
    must!(*told.borrow() == 9, "watched");
    must!(heard.recv().await.map_err(text)? == 7, "heard");
    Ok(())
}

pub fn tokio_end() -> Result<(), String> {
    let count = RUNTIME.as_ref().map_err(Clone::clone)?.block_on(async { *COUNT.lock().await });
    let added = ADDED.load(Relaxed);
    must!(count == added, "{count} instead of {added}");
    Ok(())
}
