//! One attack under one policy, from the start of the server to its end.

use crate::attacks::Load;
use crate::client::{Client, Seen};
use crate::server::{Server, kernel_dropped, memory};
use crate::{Attack, Figure};
use curtail_policy::Spec;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// How long the client is served before the attack begins.
const CALM: Duration = Duration::from_secs(1);
/// How long the memory may take to come back.
const BACK: Duration = Duration::from_secs(10);
/// Answers of the load before the server is to end.
const UNDER_LOAD: u64 = 500;

/// How to attack.
#[derive(Clone, Debug)]
pub struct Options {
    /// The command `curtail`.
    pub curtail: PathBuf,
    /// Another size than the attack's own.
    pub size: Option<usize>,
    /// As small as in a test.
    pub is_small: bool,
    /// More options of `curtail serve`.
    pub serve: Vec<String>,
}

/// Attacks a server of that policy.
///
/// # Errors
/// Where there is no server, or no attack.
pub fn attack(attack: Attack, policy: &str, options: &Options) -> Result<Figure, String> {
    let size = options.size.unwrap_or(attack.size(options.is_small));
    let mut more: Vec<&str> = options.serve.iter().map(String::as_str).collect();
    if attack == Attack::FullDisk {
        more.extend(["--json", "/dev/full"]);
        let spec = Spec::preset(policy).map_err(|error| error.to_string())?;
        if !spec.dispatch.is_dispatcherless() {
            more.extend(["--record", "/dev/full"]);
        }
    }
    let server = Server::start(&options.curtail, policy, &more)?;
    let client = Client::start(server.tcp, server.udp, attack.is_an_end())?;
    sleep(if options.is_small { CALM / 10 } else { CALM });
    let resident = |server: &Server| memory(server.pid(), "VmRSS:").unwrap_or(0);
    let mib = |bytes: usize| bytes as f64 / (1 << 20) as f64;
    let before = resident(&server);
    let watch = Watch::start(server.pid());
    let begun = Instant::now();
    let mut figure = Figure {
        attack: attack.name().to_owned(),
        policy: policy.to_owned(),
        size,
        before_mib: mib(before),
        ..Figure::default()
    };
    let mut load = None;
    if attack.is_an_end() {
        let running = Load::start(server.tcp, size)?;
        if !running.reaches(UNDER_LOAD) {
            return Err(format!("{policy}: the load is not answered"));
        }
        load = Some(running);
    } else {
        attack.run(&server, size, options.is_small)?;
    }
    figure.seconds = begun.elapsed().as_secs_f64();
    if load.is_none() {
        figure.back_ms = comes_back(|| resident(&server), before);
        figure.after_mib = mib(resident(&server));
    }
    figure.kernel_dropped = kernel_dropped(server.udp);
    figure.peak_mib = mib(watch.end());
    let client = if load.is_none() {
        take(&mut figure, client.end());
        None
    } else {
        Some(client)
    };
    server.terminate();
    let ended = server.end()?;
    if let Some(client) = client {
        take(&mut figure, client.end());
    }
    if load.is_some_and(|load| !load.end()) {
        figure.trouble = Some("a wrong answer, or a reset".to_owned());
    }
    let trouble = if attack == Attack::FullDisk { ends_full(&ended) } else { ends_well(&ended) };
    figure.trouble = figure.trouble.or(trouble);
    Ok(figure)
}

fn take(figure: &mut Figure, (tcp, udp): (Seen, Seen)) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    figure.answers = tcp.answers + udp.answers;
    figure.wrong = tcp.wrong + udp.wrong;
    figure.refused = tcp.refused + udp.refused;
    figure.lost = udp.lost;
    figure.worst_tcp_ms = ms(tcp.worst);
    figure.worst_udp_ms = ms(udp.worst);
    figure.worst_asked_again_ms = ms(udp.worst_asked_again);
}

/// How long it takes until the memory is within a tenth of what it was; none: longer.
fn comes_back(now: impl Fn() -> usize, before: usize) -> Option<f64> {
    let begun = Instant::now();
    while now() > before + before / 10 {
        if begun.elapsed() > BACK {
            return None;
        }
        sleep(Duration::from_millis(20));
    }
    Some(begun.elapsed().as_secs_f64() * 1e3)
}

fn ends_well((status, last): &(ExitStatus, String)) -> Option<String> {
    (!status.success()).then(|| format!("{status}: {last}"))
}

/// What was asked for and could not be written is a failure with a reason.
fn ends_full((status, last): &(ExitStatus, String)) -> Option<String> {
    let is_told = status.code() == Some(1) && last.contains("No space left on device");
    (!is_told).then(|| format!("{status}: {last}"))
}

/// Looks at the server's memory all the time.
struct Watch {
    stop: Arc<AtomicBool>,
    most: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Watch {
    fn start(pid: u32) -> Self {
        let (stop, most) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopped, seen) = (stop.clone(), most.clone());
        let thread = spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                seen.fetch_max(memory(pid, "VmRSS:").unwrap_or(0), Ordering::Relaxed);
                sleep(Duration::from_millis(5));
            }
        });
        Self { stop, most, thread }
    }

    /// The most that was seen.
    fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.join();
        self.most.load(Ordering::Relaxed)
    }
}
