//! A service and batch work on one core: what each gets, by the way in which they share it.
//!
//! | way | who shares the core |
//! |---|---|
//! | `process` | the service under the core allocator; batch work with safepoints by `curtail batch` |
//! | `process_plain` | the same with batch work without safepoints, which the kernel pre-empts |
//! | `linux` | no core allocator: the service's threads, and batch work of the class `SCHED_IDLE` |
//! | `linux_nice` | the same with batch work at nice 19 |
//!
//! In each round the service runs alone and beside batch work, in each way, with the same requests;
//! batch work alone has the core before them.

use crate::service::{Offer, Served};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Kinds of work: their names, and what they are.
    pub works: Vec<(String, String)>,
    /// Of the core's capacity.
    pub loads: Vec<f64>,
    /// How long each is measured.
    pub seconds: f64,
    /// Rounds, of which the median counts.
    pub rounds: usize,
    /// The programs.
    pub programs: Programs,
    /// How often the core allocator looks.
    pub interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let same = |name: &&str| ((*name).to_owned(), (*name).to_owned());
        Self {
            works: ["exp10", "exp100", "bimodal"].iter().map(same).collect(),
            loads: vec![0.1, 0.3, 0.5, 0.7, 0.8],
            seconds: 1.0,
            rounds: 5,
            programs: Programs::default(),
            interval: Duration::from_micros(5),
        }
    }
}

/// Programs that are built before.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// `curtail`.
    pub curtail: PathBuf,
    /// Batch work with safepoints.
    pub batch: PathBuf,
    /// The same without.
    pub batch_plain: PathBuf,
}

/// One way at one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The kind of work.
    pub work: String,
    /// Of the core's capacity.
    pub load: f64,
    /// By which way.
    pub how: String,
    /// The service's 99th percentile beside batch work, and alone, in µs.
    pub lc_p99_us: f64,
    /// See above.
    pub lc_p99_alone_us: f64,
    /// The same for the median.
    pub lc_p50_us: f64,
    /// See above.
    pub lc_p50_alone_us: f64,
    /// The service's share of the core: the service times of what it served.
    pub lc: f64,
    /// The batch work's: what it did, by what it does alone.
    pub batch: f64,
    /// Both.
    pub sum: f64,
    /// How late requests were handed over, of one in a thousand, in µs.
    pub generator_late_us: f64,
    /// Rounds of which this is the median.
    pub rounds: usize,
}

/// By which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Process { looks: bool },
    Linux { nice: bool },
}

const WAYS: [(&str, How); 4] = [
    ("process", How::Process { looks: true }),
    ("process_plain", How::Process { looks: false }),
    ("linux", How::Linux { nice: false }),
    ("linux_nice", How::Linux { nice: true }),
];

/// Measures all of it. `itself` is this program.
///
/// # Errors
/// Where there is one core only, or a program fails.
pub fn measure(itself: &Path, options: &Options) -> Result<Vec<Share>, String> {
    let cpus = curtail_shm::kthreads::allowed_cpus().map_err(|error| error.to_string())?;
    let [first, second, ..] = cpus[..] else {
        return Err("needs two cores: one for the generator, one to share".to_owned());
    };
    let stage = Stage { itself, options, cpus: [first, second] };
    let mut all = Vec::new();
    for (name, mix) in &options.works {
        for &load in &options.loads {
            for (how_name, how) in WAYS {
                let run = |seed| stage.round(mix, load, how, seed);
                let rounds: Vec<Share> =
                    (1..=options.rounds as u64).map(run).collect::<Result<_, _>>()?;
                let found = median(&rounds);
                all.push(Share { work: name.clone(), load, how: how_name.to_owned(), ..found });
                eprintln!("{}", line(all.last().expect("pushed")));
            }
        }
    }
    Ok(all)
}

/// For people.
#[must_use]
pub fn table(shares: &[Share]) -> String {
    let mut text = format!(
        "a service and batch work on one core (medians)\n\n{:<12}{:>5}  {:<14}{:>9}{:>9}{:>9}{:>9}{:>7}{:>7}{:>7}\n",
        "work", "load", "how", "p50 µs", "alone", "p99 µs", "alone", "lc", "batch", "sum"
    );
    for share in shares {
        let _ = writeln!(text, "{}", line(share));
    }
    text
}

fn line(share: &Share) -> String {
    format!(
        "{:<12}{:>5.2}  {:<14}{:>9.1}{:>9.1}{:>9.1}{:>9.1}{:>7.3}{:>7.3}{:>7.3}",
        share.work,
        share.load,
        share.how,
        share.lc_p50_us,
        share.lc_p50_alone_us,
        share.lc_p99_us,
        share.lc_p99_alone_us,
        share.lc,
        share.batch,
        share.sum
    )
}

/// Of each figure by itself.
fn median(rounds: &[Share]) -> Share {
    let of = |figure: fn(&Share) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(figure).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    Share {
        lc_p99_us: of(|it| it.lc_p99_us),
        lc_p99_alone_us: of(|it| it.lc_p99_alone_us),
        lc_p50_us: of(|it| it.lc_p50_us),
        lc_p50_alone_us: of(|it| it.lc_p50_alone_us),
        lc: of(|it| it.lc),
        batch: of(|it| it.batch),
        sum: of(|it| it.sum),
        generator_late_us: of(|it| it.generator_late_us),
        rounds: rounds.len(),
        ..Share::default()
    }
}

struct Stage<'a> {
    itself: &'a Path,
    options: &'a Options,
    cpus: [u32; 2],
}

impl Stage<'_> {
    fn round(&self, mix: &str, load: f64, how: How, seed: u64) -> Result<Share, String> {
        let alone = self.serve(mix, load, how, seed, None)?.0;
        let mut batch = Batch::start(&self.batch_alone(how))?;
        let rate = {
            let begin = batch.ask()?;
            std::thread::sleep(Duration::from_millis(500));
            batch.ask()?.rate_since(begin)
        };
        drop(batch);
        let (beside, batch) = self.serve(mix, load, how, seed, Some(rate))?;
        Ok(Share {
            lc_p99_us: beside.sojourn_us.p99,
            lc_p99_alone_us: alone.sojourn_us.p99,
            lc_p50_us: beside.sojourn_us.p50,
            lc_p50_alone_us: alone.sojourn_us.p50,
            lc: beside.share,
            batch,
            sum: beside.share + batch,
            generator_late_us: beside.generator_late_us,
            ..Share::default()
        })
    }

    /// The service, and the share of the core that batch work had beside it, if there is any, whose
    /// rate alone is given.
    fn serve(
        &self,
        mix: &str,
        load: f64,
        how: How,
        seed: u64,
        rate: Option<f64>,
    ) -> Result<(Served, f64), String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let socket = folder.path().join("curtaild.sock");
        let process = matches!(how, How::Process { .. });
        let offer = Offer {
            mix: mix.to_owned(),
            load,
            seconds: self.options.seconds,
            seed,
            cpus: self.cpus,
            daemon: process.then(|| socket.clone()),
            interval_ns: self.options.interval.as_nanos() as u64,
            spin_ns: if process { 2_000 } else { 20_000 },
        };
        let text = serde_json::to_string(&offer).map_err(|error| error.to_string())?;
        let mut command = Command::new(self.itself);
        command.args(["service", &text]);
        let mut service = Talker::start(&mut command)?;
        service.expect("ready")?;
        let mut batch = match rate {
            Some(_) => Some(Batch::start(&self.batch(how, &socket))?),
            None => None,
        };
        service.say("go")?;
        service.expect("begin")?;
        let begin = batch.as_mut().map(Batch::ask).transpose()?;
        let served = service.line()?;
        let end = batch.as_mut().map(Batch::ask).transpose()?;
        let served = serde_json::from_str(&served).map_err(|_| format!("it said: {served}"))?;
        let share = match (begin, end, rate) {
            (Some(begin), Some(end), Some(rate)) => end.rate_since(begin) / rate,
            _ => 0.0,
        };
        Ok((served, share))
    }

    fn program(&self, how: How) -> &Path {
        match how {
            How::Process { looks: true } => &self.options.programs.batch,
            _ => &self.options.programs.batch_plain,
        }
    }

    /// Batch work that has the core to itself.
    fn batch_alone(&self, how: How) -> Vec<String> {
        self.ranked("alone", self.program(how))
    }

    fn ranked(&self, rank: &str, program: &Path) -> Vec<String> {
        let own = self.itself.display().to_string();
        let cpu = self.cpus[1].to_string();
        vec![own, "batch".to_owned(), rank.to_owned(), cpu, program.display().to_string()]
    }

    fn batch(&self, how: How, socket: &Path) -> Vec<String> {
        match how {
            How::Process { .. } => {
                let curtail = self.options.programs.curtail.display().to_string();
                let daemon = socket.display().to_string();
                let program = self.program(how).display().to_string();
                vec![curtail, "batch".into(), "--daemon".into(), daemon, "--".into(), program]
            }
            How::Linux { nice: false } => self.ranked("idle", self.program(how)),
            How::Linux { nice: true } => self.ranked("nice", self.program(how)),
        }
    }
}

/// A process that is spoken with by lines; killed at the end.
struct Talker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Talker {
    fn start(command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Ok(Self { child, input, output })
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        let input = self.input.as_mut().expect("open until the end");
        writeln!(input, "{line}").and_then(|()| input.flush()).map_err(|error| error.to_string())
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("a program ended before it answered".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn expect(&mut self, wanted: &str) -> Result<(), String> {
        match self.line()? {
            line if line == wanted => Ok(()),
            line => Err(format!("a program says `{line}` instead of `{wanted}`")),
        }
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        // Batch programs end when their input does, however they were started.
        drop(self.input.take());
        let begun = std::time::Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if begun.elapsed() > Duration::from_secs(5) {
                let _ = self.child.kill();
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.wait();
    }
}

/// What batch work has done so far.
#[derive(Clone, Copy, Debug)]
struct Progress {
    units: f64,
    ns: f64,
}

impl Progress {
    fn rate_since(self, before: Self) -> f64 {
        (self.units - before.units) / (self.ns - before.ns)
    }
}

struct Batch(Talker);

impl Batch {
    /// Started, and at work.
    fn start(command: &[String]) -> Result<Self, String> {
        let mut process = Command::new(&command[0]);
        let mut batch = Self(Talker::start(process.args(&command[1..]))?);
        batch.ask()?;
        Ok(batch)
    }

    fn ask(&mut self) -> Result<Progress, String> {
        self.0.say("how far")?;
        let line = self.0.line()?;
        let numbers = line.split_once(' ').and_then(|(units, ns)| {
            Some(Progress { units: units.parse().ok()?, ns: ns.parse().ok()? })
        });
        numbers.ok_or_else(|| format!("batch work says `{line}`"))
    }
}

/// Ranks and pins the calling process, and becomes the program: `alone|idle|nice CPU PROGRAM`.
///
/// # Errors
/// In words, for people.
pub fn become_batch(args: &[String]) -> Result<(), String> {
    let [rank, cpu, program] = args else { return Err("batch RANK CPU PROGRAM".to_owned()) };
    let cpu = cpu.parse().map_err(|_| format!("`{cpu}` is no core"))?;
    let system = |error: std::io::Error| error.to_string();
    curtail_shm::kthreads::pin_this_thread(&[cpu]).map_err(system)?;
    match rank.as_str() {
        "alone" => {}
        "idle" => curtail_shm::kthreads::rank_last().map_err(system)?,
        "nice" => _ = rustix::process::nice(19).map_err(|error| error.to_string())?,
        _ => return Err(format!("there is no rank `{rank}`")),
    }
    use std::os::unix::process::CommandExt;
    Err(Command::new(program).exec().to_string())
}
