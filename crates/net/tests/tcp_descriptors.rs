//! Running out of descriptors. In a process of its own, for the limit is the process's.

mod common;

use common::{Collect, counter, loopback, poll_counter, poll_requests};
use curtail_net::{Shm, ShmClient, ShmConfig, Tcp, TcpConfig, Transport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

/// One test at a time.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn without_descriptors_connections_are_refused_and_the_old_ones_served() {
    let _alone = ALONE.lock();
    let mut tcp = Tcp::bind(&[loopback()], &TcpConfig::default()).unwrap();
    let address = tcp.local_addrs()[0];
    let mut first = TcpStream::connect(address).unwrap();
    let mut into = Collect::up_to(10);
    poll_counter(&mut tcp, &mut into, "tcp_accepted", 1);
    let mut others: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), ..before }).unwrap();
    let mut taken = Vec::new();
    while let Ok(another) = rustix::io::dup(&first) {
        assert!(taken.len() < 200);
        taken.push(another);
    }
    // Without sleeping, which would take descriptors.
    for _ in 0..1_000_000 {
        if counter(&tcp, "tcp_refused") < 3 {
            tcp.poll(0, &mut into);
        }
    }
    assert_eq!(counter(&tcp, "tcp_refused"), 3);
    drop(taken);
    setrlimit(Resource::Nofile, before).unwrap();
    for other in &mut others {
        assert_eq!(other.read(&mut [0; 1]).unwrap(), 0, "closed, not forgotten");
    }
    let mut later = TcpStream::connect(address).unwrap();
    later.write_all(&[1, 0, 0, 0, 8]).unwrap();
    poll_requests(&mut tcp, &mut into, 1);
    assert_eq!(into.payloads(), [[8]]);
    assert_eq!(counter(&tcp, "tcp_accepted"), 2);
    first.write_all(&[1, 0, 0, 0, 7]).unwrap();
    poll_requests(&mut tcp, &mut into, 2);
    assert_eq!(into.payloads(), [[8], [7]]);
}

#[test]
fn without_descriptors_sessions_are_refused() {
    let _alone = ALONE.lock();
    let path = std::env::temp_dir().join(format!("curtail-few-{}.sock", std::process::id()));
    let mut shm = Shm::listen(&path, &ShmConfig::default()).unwrap();
    let mut others: Vec<_> = (0..3).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), ..before }).unwrap();
    let mut taken = Vec::new();
    while let Ok(another) = rustix::io::dup(&others[0]) {
        assert!(taken.len() < 200);
        taken.push(another);
    }
    let mut into = Collect::up_to(10);
    for _ in 0..10_000 {
        shm.poll(0, &mut into);
    }
    assert_eq!(counter(&shm, "shm_refused"), 3);
    drop(taken);
    setrlimit(Resource::Nofile, before).unwrap();
    for other in &mut others {
        assert!(matches!(other.read(&mut [0; 1]), Ok(0) | Err(_)), "closed, not forgotten");
    }
    let later = std::thread::spawn(move || ShmClient::connect(path).unwrap());
    poll_counter(&mut shm, &mut into, "shm_accepted", 1);
    drop(later.join().unwrap());
}
