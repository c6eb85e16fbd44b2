//! What clients that have hung up cost the others. One worker serves short requests in a closed
//! loop, first alone, then beside a crowd of long ones whose clients wait, then beside a crowd
//! whose clients have gone; and at last: how long after the last live request its core is idle.
//! Then the same over TCP, with clients that close their connections.
//!
//! `cargo run --release -p curtail --example hang_ups [-- CROWD]` (`./x bench hang-ups`). Times are of
//! this machine as it is; safepoints are by hand, so that no instrumented build is needed.

use curtail::net::{Local, LocalClient, Ticket, open};
use curtail::{App, Class, ClassId, Handle, OnCancel, Response, Server, Spec, WorkerId};
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const LIVE: usize = 20_000;
const WAITED_FOR: usize = 20;
const BEGINNING: Duration = Duration::from_millis(500);

struct Work;

impl App for Work {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("short"), Class::named("long")]
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn classify(&self, request: &[u8]) -> ClassId {
        ClassId(u16::from(request != b"short"))
    }

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        if request != b"short" {
            // Some seconds of work; it may look now and then whether it is wanted.
            for step in 0..1_000_000_u64 {
                work(step, 1_000);
                if request == b"looks" && curtail::check().is_err() {
                    return;
                }
            }
        }
        work(1, 200);
        response.write(b"done");
    }
}

/// A safepoint every few dozen steps.
fn work(seed: u64, steps: u64) {
    let mut x = seed | 1;
    for step in 0..steps {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
        if step % 64 == 0 {
            curtail::safepoint();
        }
    }
    black_box(x);
}

/// Median and 99th percentile.
type Times = (Duration, Duration);

/// Of a closed loop.
fn live(client: &LocalClient, count: usize) -> Times {
    closed_loop(count, || drop(client.call(b"short".to_vec()).expect("it is served")))
}

fn closed_loop(count: usize, mut ask: impl FnMut()) -> Times {
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let asked = Instant::now();
            ask();
            asked.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[count / 2], times[count * 99 / 100])
}

fn crowd(client: &LocalClient, what: &str, count: usize) -> Vec<Ticket> {
    (0..count).map(|_| client.submit(what.into()).expect("there is room")).collect()
}

/// How long until nothing is in the system.
fn idle(handle: &Handle) -> Duration {
    let begun = Instant::now();
    while handle.stats().is_none_or(|stats| stats.in_system > 0) {}
    begun.elapsed()
}

/// `what`: the long requests; `rule`: of those that are cancelled.
fn run(
    policy: &str,
    (what, rule): (&str, OnCancel),
    count: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let places = count + WAITED_FOR + 16;
    let (local, client) = Local::new(places)?;
    let server = Server::builder(Work)
        .transport(Box::new(local))
        .policy(Spec::preset(policy)?)
        .workers(1)
        .capacity(places)
        .drain(Duration::from_millis(100))
        .safepoints_by_hand()
        .on_cancel("long", rule)
        .build()?;
    let handle = server.handle();
    let server = std::thread::spawn(move || server.run().map(|report| report.classes));
    live(&client, LIVE / 10);
    let alone = live(&client, LIVE);
    // Only a few that are waited for, so that there is an end to it.
    let waited_for = crowd(&client, what, WAITED_FOR);
    let beside_some = live(&client, LIVE / 20);
    drop(waited_for);
    let crowd = crowd(&client, what, count);
    // Time to begin, one quantum each.
    std::thread::sleep(BEGINNING);
    drop(crowd);
    let beside_gone = live(&client, LIVE);
    let ends = what == "looks" || rule != OnCancel::End;
    let idle = if ends { idle(&handle) } else { Duration::MAX };
    handle.shutdown();
    let classes = server.join().map_err(|_| "the server panicked")??;
    let long = &classes[1];
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{policy:<12} {rule:<24} {:>8.1} {:>8.1} {:>10.1} {:>8.1} {:>8.1} {:>10}   \
         {} never begun, {} told, {} abandoned",
        us(alone.0),
        us(alone.1),
        us(beside_some.1),
        us(beside_gone.0),
        us(beside_gone.1),
        if ends { format!("{:.0}", us(idle)) } else { "never".to_owned() },
        long.orphaned,
        long.completed,
        long.abandoned,
        rule = format!("{what}, {}", name(rule)),
    );
    Ok(())
}

/// Requests of a connection of a crowd.
const EACH: usize = 20;

fn frame(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_le_bytes()[..], payload].concat()
}

/// Over TCP: all in the crowd close their connections, as the end of a program does.
fn over_tcp(policy: &str, count: usize) -> Result<(), Box<dyn std::error::Error>> {
    let tcp = open("tcp://127.0.0.1:0?fin=cancel")?;
    let address = tcp.local_addrs()[0];
    let server = Server::builder(Work)
        .transport(tcp)
        .policy(Spec::preset(policy)?)
        .workers(1)
        .drain(Duration::from_millis(100))
        .safepoints_by_hand()
        .build()?;
    let handle = server.handle();
    let server = std::thread::spawn(move || server.run().map(|report| report.classes));
    let (alone, gone, idle) = hang_up(address, &handle, count)?;
    handle.shutdown();
    let classes = server.join().map_err(|_| "the server panicked")??;
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    println!(
        "{policy:<12} {:<24} {:>8.1} {:>8.1} {:>10} {:>8.1} {:>8.1} {:>10.0}   \
         {} never begun, {} told",
        "looks, over TCP",
        us(alone.0),
        us(alone.1),
        "",
        us(gone.0),
        us(gone.1),
        us(idle),
        classes[1].orphaned,
        classes[1].completed,
    );
    Ok(())
}

/// Short requests alone, and when a crowd has gone; how long it takes until nothing is in the
/// system.
fn hang_up(
    address: SocketAddr,
    handle: &Handle,
    count: usize,
) -> std::io::Result<(Times, Times, Duration)> {
    let mut live = TcpStream::connect(address)?;
    live.set_nodelay(true)?;
    let mut ask = || {
        live.write_all(&frame(b"short")).expect("it is read");
        live.read_exact(&mut [0; 8]).expect("it is served");
    };
    closed_loop(LIVE / 10, &mut ask);
    let alone = closed_loop(LIVE, &mut ask);
    let crowd: Vec<TcpStream> = (0..count.div_ceil(EACH))
        .map(|_| {
            let mut one = TcpStream::connect(address)?;
            one.write_all(&frame(b"looks").repeat(EACH))?;
            Ok(one)
        })
        .collect::<std::io::Result<_>>()?;
    std::thread::sleep(BEGINNING);
    drop(crowd);
    let gone = closed_loop(LIVE, &mut ask);
    Ok((alone, gone, idle(handle)))
}

fn name(rule: OnCancel) -> &'static str {
    match rule {
        OnCancel::Abandon { .. } => "Abandon",
        _ => "End",
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = std::env::args().nth(1).map_or(Ok(4_000), |count| count.parse())?;
    println!("{LIVE} short requests, one after the other, in us; {count} clients that hung up");
    println!("({WAITED_FOR} long ones whose clients wait, in the column `p99 waited`)");
    println!(
        "{:<12} {:<24} {:>8} {:>8} {:>10} {:>8} {:>8} {:>10}",
        "policy",
        "long ones, rule",
        "p50",
        "p99",
        "p99 waited",
        "p50 gone",
        "p99 gone",
        "idle after"
    );
    for policy in ["tq", "ps", "shenango-ps"] {
        let most = count + WAITED_FOR;
        for rule in [
            ("looks", OnCancel::End),
            ("stubborn", OnCancel::End),
            ("stubborn", OnCancel::Abandon { most }),
        ] {
            run(policy, rule, count)?;
        }
        over_tcp(policy, count)?;
    }
    Ok(())
}
