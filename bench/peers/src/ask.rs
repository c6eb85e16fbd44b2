//! An open-loop client of servers that answer requests on a connection in their order, whatever the
//! protocol: requests are due at given instants and count from there, whatever the server does.
//!
//! Either each request has a connection to itself while it is under way, so that none waits behind
//! another, or its class is the connection that it goes to. One more connection may ask something
//! long in a loop, beside. The calling thread does it all; it spins, or sleeps where it shares cores
//! with the server. [`saturate`] is a closed loop.

use crate::load::LATE_NS;
use curtail_load::{Lateness, Pace};
use curtail_workload::Request;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Connections at most: a server with more requests than that under way is overloaded.
const MOST: usize = 512;
/// How long a server may say nothing in a closed loop.
const SILENCE: Duration = Duration::from_secs(5);

/// Where answers end in what a server sends.
pub trait Protocol: Default {
    /// How many answers end in these bytes, which follow those before.
    ///
    /// # Errors
    /// Where they are no good answer.
    fn feed(&mut self, bytes: &[u8]) -> Result<usize, String>;
}

/// What became of the requests, in their order.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// From due to answered, in nanoseconds; `None`: not within the patience.
    pub sojourn_ns: Vec<Option<u64>>,
    /// Requests that went out more than [`LATE_NS`] after they were due: the client's own share.
    pub sent_late: usize,
    /// Requests for which there was no connection: the server has more under way than `MOST`.
    pub no_connection: usize,
    /// Answers to what was asked beside.
    pub beside: usize,
}

/// How a client asks.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// What a request of each class says.
    pub messages: &'a [Vec<u8>],
    /// How long the last one may take.
    pub patience: Duration,
    /// A request's class is its connection, of so many; `None`: it has one to itself.
    pub fixed: Option<usize>,
    /// What is asked in a loop beside.
    pub beside: Option<&'a [u8]>,
    /// The client shares its cores with the server: it sleeps until something is due.
    pub sleeps: bool,
}

impl<'a> Way<'a> {
    /// A connection for each request, nothing beside, spinning.
    #[must_use]
    pub fn new(messages: &'a [Vec<u8>], patience: Duration) -> Self {
        Self { messages, patience, fixed: None, beside: None, sleeps: false }
    }
}

struct Connection<P> {
    stream: TcpStream,
    protocol: P,
    /// Requests under way, in order.
    numbers: VecDeque<usize>,
}

struct Client<P> {
    port: u16,
    epoll: OwnedFd,
    connections: Vec<Connection<P>>,
    free: Vec<usize>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl<P: Protocol> Client<P> {
    fn new(port: u16, count: usize) -> io::Result<Self> {
        let mut client = Self {
            port,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: Vec::new(),
            free: Vec::new(),
            events: Vec::with_capacity(64),
            buffer: vec![0; 1 << 16],
        };
        for _ in 0..count {
            client.connect()?;
        }
        Ok(client)
    }

    fn connect(&mut self) -> io::Result<usize> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let index = self.connections.len();
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, &stream, data, epoll::EventFlags::IN)?;
        let numbers = VecDeque::new();
        self.connections.push(Connection { stream, protocol: P::default(), numbers });
        Ok(index)
    }

    /// False: there is no connection for it, or no room in the kernel's buffer.
    fn send(&mut self, number: usize, to: Option<usize>, message: &[u8]) -> io::Result<bool> {
        let index = match to.or_else(|| self.free.pop()) {
            Some(index) => index,
            None if self.connections.len() < MOST => self.connect()?,
            None => return Ok(false),
        };
        let connection = &mut self.connections[index];
        match connection.stream.write(message) {
            Ok(length) if length == message.len() => {}
            Ok(_) => return Err(io::Error::other("half a request was sent")),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
        connection.numbers.push_back(number);
        Ok(true)
    }

    /// Takes what has come, and calls `answered` with connection and number of each request that has
    /// its answer.
    fn receive(
        &mut self,
        wait: Duration,
        mut answered: impl FnMut(usize, usize),
    ) -> io::Result<()> {
        self.events.clear();
        let wait =
            Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&wait)) {
            Err(rustix::io::Errno::INTR) | Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &self.events {
            let index = event.data.u64() as usize;
            let connection = &mut self.connections[index];
            let length = match connection.stream.read(&mut self.buffer) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it hung up")),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let invalid = |why| io::Error::new(ErrorKind::InvalidData, why);
            for _ in 0..connection.protocol.feed(&self.buffer[..length]).map_err(invalid)? {
                let number = connection.numbers.pop_front();
                answered(index, number.ok_or_else(|| io::Error::other("an answer to nothing"))?);
            }
        }
        Ok(())
    }
}

/// The number of what is asked beside.
const BESIDE: usize = usize::MAX;

/// Asks for all that is due, and waits for the last of it.
///
/// # Errors
/// Where a connection fails, or the server answers something bad.
pub fn offer<P: Protocol>(port: u16, way: &Way<'_>, requests: &[Request]) -> io::Result<Answered> {
    // More than are used at a time, as a rule: to connect takes time.
    let mut client = Client::<P>::new(port, way.fixed.unwrap_or(64))?;
    client.free = (0..client.connections.len()).collect();
    let mut found = Answered { sojourn_ns: vec![None; requests.len()], ..Answered::default() };
    let mut beside = None;
    if let Some(message) = way.beside {
        let index = client.connect()?;
        beside = Some((index, message));
        client.send(BESIDE, Some(index), message)?;
    }
    let mut late = Lateness::new(LATE_NS);
    let mut pace = Pace::new(requests.iter().copied(), u64::MAX);
    let (begun, mut next, mut back) = (Instant::now(), 0, 0);
    let end = requests.last().map_or(0, |last| last.at_ns) + way.patience.as_nanos() as u64;
    let mut done: Vec<usize> = Vec::new();
    loop {
        let now = begun.elapsed().as_nanos() as u64;
        pace.send_due(
            || now,
            usize::MAX,
            |request, due_ns, now_ns| {
                late.record(due_ns, now_ns);
                let class = usize::from(request.class);
                let to = way.fixed.map(|_| class);
                if !client.send(next, to, &way.messages[class])? {
                    found.no_connection += 1;
                }
                next += 1;
                Ok::<_, io::Error>(true)
            },
        )?;
        let due = requests.get(next).map_or(u64::MAX, |next| next.at_ns);
        let wait = match way.sleeps {
            true => Duration::from_nanos(due.saturating_sub(now).min(1_000_000)),
            false => Duration::ZERO,
        };
        let mut again = false;
        client.receive(wait, |index, number| {
            let now = begun.elapsed().as_nanos() as u64;
            if number == BESIDE {
                again = true;
                return;
            }
            found.sojourn_ns[number] = Some(now - requests[number].at_ns);
            back += 1;
            if way.fixed.is_none() {
                done.push(index);
            }
        })?;
        client.free.append(&mut done);
        if again && let Some((index, message)) = beside {
            found.beside += 1;
            client.send(BESIDE, Some(index), message)?;
        }
        if now > end || back + found.no_connection == requests.len() {
            found.sent_late = late.over() as usize;
            return Ok(found);
        }
    }
}

/// Answers a second in a closed loop: each connection has as many requests under way as `depths` says.
/// The client sleeps while nothing has come.
///
/// # Errors
/// As [`offer`], and where the server says nothing for five seconds.
pub fn saturate<P: Protocol>(
    port: u16,
    message: &[u8],
    depths: &[usize],
    span: Duration,
) -> io::Result<f64> {
    let mut client = Client::<P>::new(port, depths.len())?;
    for (index, depth) in depths.iter().enumerate() {
        for number in 0..*depth {
            client.send(number, Some(index), message)?;
        }
    }
    let (begun, mut last, mut back) = (Instant::now(), Instant::now(), 0_u64);
    let mut owed = vec![0; depths.len()];
    while begun.elapsed() < span {
        client.receive(Duration::from_millis(10), |index, _| owed[index] += 1)?;
        for (index, owed) in owed.iter_mut().enumerate().filter(|(_, owed)| **owed > 0) {
            last = Instant::now();
            back += *owed as u64;
            let connection = &mut client.connections[index];
            connection.numbers.extend(std::iter::repeat_n(0, *owed));
            // Into a buffer that holds no more than these.
            connection.stream.write_all(&message.repeat(std::mem::take(owed)))?;
        }
        if last.elapsed() > SILENCE {
            return Err(io::Error::new(ErrorKind::TimedOut, "nothing comes back"));
        }
    }
    Ok(back as f64 / begun.elapsed().as_secs_f64())
}
