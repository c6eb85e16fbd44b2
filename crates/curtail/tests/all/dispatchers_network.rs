//! Several dispatchers over sockets: each has its own, and the kernel deals out peers. Past the kernel's
//! network each has queues of its own; that is skipped, with a line, where there are no namespaces.

#[path = "../../../net/tests/common/namespace.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests of the transport")]
mod namespace;

use crate::common;

use common::wire::{connect, frame, receive};
use common::{STUCK, Verbs, in_time, preset, when};
use curtail::net::open;
use curtail::{DispatcherMode, Handle, Report, Server, StartError};
use namespace::between;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;

const DISPATCHERS: usize = 2;
const FLOWS: usize = 64;

/// A server of two dispatchers with a worker each, not running yet; where it listens.
fn build(urls: &str) -> Result<(Server, Vec<SocketAddr>), StartError> {
    let transport = open(urls).unwrap();
    let addresses = transport.local_addrs();
    let server = Server::builder(Verbs)
        .transport(transport)
        .workers(DISPATCHERS)
        .dispatchers(DISPATCHERS)
        .dispatcher(DispatcherMode::Blocking)
        .build()?;
    Ok((server, addresses))
}

/// Ends the server when it goes.
struct End(Handle);

impl Drop for End {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

/// Serves a client's thread, and ends with it.
fn serve<R: Send + 'static>(
    urls: &str,
    client: impl FnOnce(&[SocketAddr], &Handle) -> R + Send + 'static,
) -> (R, Report) {
    let (server, addresses) = build(urls).unwrap();
    let end = End(server.handle());
    let client = thread::spawn(move || {
        let end = end;
        client(&addresses, &end.0)
    });
    let report = server.run().unwrap();
    (client.join().unwrap(), report)
}

fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(STUCK)).unwrap();
    socket
}

fn ask(socket: &UdpSocket, request: &str, server: SocketAddr) -> String {
    socket.send_to(request.as_bytes(), server).unwrap();
    let mut buffer = [0; 64];
    let length = socket.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

/// How many flows each worker had, of those that are dealt out by chance: five standard deviations of
/// that are taken.
fn assert_even(flows: &BTreeMap<String, usize>) {
    let share = FLOWS / DISPATCHERS;
    assert_eq!(flows.len(), DISPATCHERS, "{flows:?}");
    assert!(flows.values().all(|count| count.abs_diff(share) <= 20), "{flows:?}");
}

#[test]
fn each_datagram_is_answered_by_the_dispatcher_of_its_peer() {
    in_time(|| {
        let (flows, report) = serve("udp://127.0.0.1:0", |addresses, _| {
            let mut flows = BTreeMap::new();
            for flow in 0..FLOWS {
                let socket = udp();
                let worker = ask(&socket, "worker", addresses[0]);
                for n in 0..20 {
                    let text = format!("{flow}.{n}");
                    assert_eq!(ask(&socket, &format!("echo {text}"), addresses[0]), text);
                }
                assert_eq!(ask(&socket, "worker", addresses[0]), worker, "it stays there");
                *flows.entry(worker).or_insert(0) += 1;
            }
            flows
        });
        assert_even(&flows);
        assert_eq!((report.classes[0].completed, report.unsent), (22 * FLOWS as u64, 0));
    });
}

fn tcp(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(&frame(request.as_bytes())).unwrap();
    String::from_utf8(receive(stream)).unwrap()
}

#[test]
fn each_connection_is_served_by_the_dispatcher_that_has_accepted_it() {
    in_time(|| {
        let (flows, report) = serve("tcp://127.0.0.1:0,udp://127.0.0.1:0", |addresses, _| {
            // Datagrams and streams of one list are both split.
            let (datagrams, streams) = (addresses[0], addresses[1]);
            let mut flows = BTreeMap::new();
            let mut open = Vec::new();
            for flow in 0..FLOWS {
                let mut stream = connect(streams);
                let worker = tcp(&mut stream, "worker");
                for n in 0..20 {
                    let text = format!("{flow}.{n}");
                    assert_eq!(tcp(&mut stream, &format!("echo {text}")), text);
                }
                assert_eq!(tcp(&mut stream, "worker"), worker);
                assert_eq!(ask(&udp(), "echo too", datagrams), "too");
                *flows.entry(worker).or_insert(0) += 1;
                open.push(stream);
            }
            flows
        });
        assert_even(&flows);
        assert_eq!((report.classes[0].completed, report.unsent), (23 * FLOWS as u64, 0));
    });
}

#[test]
fn each_dispatcher_takes_frames_from_a_queue_of_its_own() {
    if let Some(why) = curtail::net::packet::why_not() {
        return eprintln!("skipped: {why}");
    }
    // Of the cable's two queues; the second address is answered for by whoever is asked.
    let urls = "udp://10.9.0.1:0,xdp://cable/10.9.0.1:4001?checksum=partial,\
                xdp://cable/10.9.0.7:4001?checksum=partial";
    let near = move || {
        let (server, addresses) = build(urls).unwrap();
        let end = End(server.handle());
        (end, addresses, thread::spawn(move || server.run().unwrap()))
    };
    let far = |(end, addresses, running): (End, Vec<SocketAddr>, thread::JoinHandle<Report>)| {
        let mut flows = BTreeMap::new();
        for flow in 0..FLOWS {
            let socket = UdpSocket::bind("10.9.0.2:0").unwrap();
            socket.set_read_timeout(Some(STUCK)).unwrap();
            let address = addresses[flow % addresses.len()];
            for n in 0..20 {
                let text = format!("{flow}.{n}");
                assert_eq!(ask(&socket, &format!("echo {text}"), address), text);
            }
            *flows.entry((address, ask(&socket, "worker", address))).or_insert(0) += 1;
        }
        let counters = end.0.stats().unwrap().transports;
        drop(end);
        (flows, addresses, counters, running.join().unwrap())
    };
    let Ok((flows, addresses, counters, report)) = between(near, far) else { return };
    // Both dispatchers had requests by each address.
    assert_eq!((addresses.len(), flows.len()), (3, 3 * DISPATCHERS), "{flows:?}");
    assert_eq!((report.classes[0].completed, report.unsent), (21 * FLOWS as u64, 0));
    let of = |name| counters.iter().find(|(known, _)| *known == name).unwrap().1;
    assert_eq!((of("packet_queues"), of("packet_frames_missing")), (2, 0));
}

#[test]
fn the_port_is_one_servers_and_free_after_it() {
    in_time(|| {
        let ((), _) = serve("udp://127.0.0.1:0,tcp://127.0.0.1:0", |addresses, _| {
            let stream = connect(addresses[1]);
            for (scheme, address) in ["udp", "tcp"].into_iter().zip(addresses) {
                let second = open(&format!("{scheme}://{address}")).err().expect("it is taken");
                assert!(second.to_string().contains("already in use"), "{second}");
            }
            drop(stream);
        });
        // The server's half of the connection ends first, and is remembered by the kernel.
        let ((addresses, stream), _) =
            serve("udp://127.0.0.1:0,tcp://127.0.0.1:0", |addresses, _| {
                let mut stream = connect(addresses[1]);
                assert_eq!(tcp(&mut stream, "echo once"), "once");
                (addresses.to_vec(), stream)
            });
        drop(stream);
        let urls = format!("udp://{},tcp://{}", addresses[0], addresses[1]);
        let (answers, _) = serve(&urls, |addresses, _| {
            let answer = tcp(&mut connect(addresses[1]), "echo again");
            (answer, ask(&udp(), "echo again", addresses[0]))
        });
        assert_eq!(answers, ("again".to_owned(), "again".to_owned()));
    });
}

#[test]
fn what_has_come_before_the_end_is_answered() {
    const EACH: usize = 20;
    in_time(|| {
        let (server, addresses) = build("udp://127.0.0.1:0").unwrap();
        let handle = server.handle();
        // It lies in the sockets, of both, when the server is told to end; and then it starts.
        let sockets: Vec<UdpSocket> = (0..FLOWS).map(|_| udp()).collect();
        for socket in &sockets {
            for n in 0..EACH {
                socket.send_to(format!("echo {n}").as_bytes(), addresses[0]).unwrap();
            }
        }
        handle.shutdown();
        let report = server.run().unwrap();
        for socket in &sockets {
            let mut buffer = [0; 64];
            let mut seen: Vec<usize> = (0..EACH)
                .map(|_| {
                    let length = socket.recv(&mut buffer).unwrap();
                    std::str::from_utf8(&buffer[..length]).unwrap().parse().unwrap()
                })
                .collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..EACH));
        }
        assert_eq!(report.classes[0].completed, (EACH * FLOWS) as u64);
        assert_eq!((report.abandoned, report.unsent), (0, 0));
    });
}

#[test]
fn connections_get_their_answers_before_the_end() {
    in_time(|| {
        let (answers, report) = serve("tcp://127.0.0.1:0", |addresses, handle| {
            let mut streams: Vec<TcpStream> = (0..FLOWS).map(|_| connect(addresses[0])).collect();
            for stream in &mut streams {
                stream.write_all(&frame(b"spin 200000")).unwrap();
            }
            when(handle, |stats| stats.in_system + done(stats) >= FLOWS);
            handle.shutdown();
            streams.iter_mut().map(receive).filter(|answer| !answer.is_empty()).count()
        });
        assert_eq!((answers, report.classes[1].completed), (FLOWS, FLOWS as u64));
    });
}

fn done(stats: &curtail::Stats) -> usize {
    stats.classes.iter().map(|class| class.completed).sum::<u64>() as usize
}

#[test]
fn counters_are_of_all_sockets() {
    in_time(|| {
        let (accepted, _) = serve("tcp://127.0.0.1:0", |addresses, handle| {
            let mut streams: Vec<TcpStream> = (0..FLOWS).map(|_| connect(addresses[0])).collect();
            streams.iter_mut().for_each(|stream| assert_eq!(tcp(stream, "echo x"), "x"));
            let count = |(name, count): &(&str, u64)| (*name == "tcp_accepted").then_some(*count);
            handle.stats().unwrap().transports.iter().find_map(count)
        });
        assert_eq!(accepted, Some(FLOWS as u64));
    });
}

#[test]
fn policies_are_switched_on_both() {
    in_time(|| {
        serve("udp://127.0.0.1:0", |addresses, handle| {
            let sockets: Vec<UdpSocket> = (0..8).map(|_| udp()).collect();
            for name in ["fcfs", "concord", "tq"] {
                handle.switch(preset(name)).unwrap();
                for socket in &sockets {
                    assert_eq!(ask(socket, "echo it", addresses[0]), "it", "{name}");
                }
            }
        });
    });
}

fn ask_unix(path: &std::path::Path, n: usize) {
    let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.write_all(&frame(format!("echo {n}").as_bytes())).unwrap();
    assert_eq!(receive(&mut stream), n.to_string().as_bytes());
}

#[test]
fn a_unix_socket_and_memory_are_shared_by_all() {
    let path = |kind: &str| {
        std::env::temp_dir().join(format!("curtail-several-{kind}-{}", std::process::id()))
    };
    let (alone, unix, shm) = (path("alone"), path("unix"), path("shm"));
    let urls = format!("unix://{}", alone.display());
    let list = format!("unix://{},shm://{}", unix.display(), shm.display());
    in_time(move || {
        let ((), report) = serve(&urls, move |_, _| (0..50).for_each(|n| ask_unix(&alone, n)));
        assert_eq!(report.classes[0].completed, 50);
        let ((), report) = serve(&list, move |_, _| {
            for n in 0..50 {
                ask_unix(&unix, n);
                let mut client = curtail::net::ShmClient::connect(&shm).unwrap();
                assert_eq!(client.call(b"echo it"), Ok(b"it".to_vec()));
            }
        });
        assert_eq!(report.classes[0].completed, 100);
    });
}
