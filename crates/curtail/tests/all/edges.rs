//! Where edge-triggered events are easily missed, and time beside sockets.

use crate::streams as sockets;

use curtail::net::{TcpListener, TcpStream};
use curtail::{spawn, yield_now};
use sockets::{Pair, families, on_each};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// A read may end before the buffer is full although more is there: what follows has no event.
#[test]
fn short_reads_that_leave_something_behind() {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, send, sendmsg};
    use std::os::fd::AsFd;

    /// Has a poller watch the socket: from then on events count.
    fn register(stream: &mut impl sockets::Stream) {
        stream.read_timeout(Some(Duration::from_millis(1))).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        stream.read_timeout(None).unwrap();
    }

    /// Has the poller take the events that there are, so that the reads below have none to come.
    fn take_events() {
        curtail::time::sleep(Duration::from_millis(2));
    }

    on_each(|| {
        // Descriptors under way end a read of a Unix socket.
        let (mut reader, writer) = curtail::net::UnixStream::pair().unwrap();
        register(&mut reader);
        let null = std::fs::File::open("/dev/null").unwrap();
        let fds = [null.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&writer, &[IoSlice::new(b"one")], &mut control, SendFlags::empty()).unwrap();
        (&writer).write_all(b"two").unwrap();
        take_events();
        let mut buffer = [0; 100];
        let mut all = Vec::new();
        while all.len() < 6 {
            let read = reader.read(&mut buffer).unwrap();
            all.extend_from_slice(&buffer[..read]);
        }
        assert_eq!(all, b"onetwo");

        // So does the mark of urgent data in TCP.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (writer, _) = listener.accept().unwrap();
        register(&mut reader);
        send(&writer, b"one!", SendFlags::OOB).unwrap();
        (&writer).write_all(b"two").unwrap();
        take_events();
        let mut all = Vec::new();
        while all.len() < 6 {
            let read = reader.read(&mut buffer).unwrap();
            all.extend_from_slice(&buffer[..read]);
        }
        assert_eq!(all, b"onetwo");

        // And the end of the stream comes with the last bytes.
        (&writer).write_all(b"end").unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
        take_events();
        assert_eq!(reader.read(&mut buffer).unwrap(), 3);
        assert_eq!(reader.read(&mut buffer).unwrap(), 0);
    });
}

#[test]
fn short_sleeps_stay_short_beside_a_socket() {
    curtail::Runtime::builder().kthreads(1).run(|| {
        let Pair(mut client, server) = families()[0].pair();
        let mut other = client.duplicate();
        let waiting = spawn(move || other.read(&mut [0]).unwrap());
        yield_now();
        let sleep = || {
            let begin = Instant::now();
            curtail::time::sleep(Duration::from_micros(100));
            begin.elapsed()
        };
        // The best of many: the machine may be busy.
        let best = (0..200).map(|_| sleep()).min().unwrap();
        assert!(best < Duration::from_micros(900), "{best:?} for 100 us at best");
        drop(server);
        assert_eq!(waiting.join().unwrap(), 0);
        client.flush().unwrap();
    });
}
