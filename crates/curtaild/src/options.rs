//! What the daemon is asked to do, as its command line writes it.

use crate::interfaces::Interfaces;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Gives cores to the programs that need them, within microseconds.
///
/// Latency-critical programs register over a Unix socket and are granted cores of LIST while they
/// have work; batch programs (`curtail batch -- PROGRAM`) have what is left. The daemon needs no
/// rights beyond those of its user, serves the programs of that user only, and runs in the
/// foreground until SIGINT or SIGTERM.
///
/// It runs on cores that are allowed to it and not in LIST, where there are any: leave it one. While
/// a program has work, it looks at all programs each INTERVAL and uses that core wholly; where
/// another program runs there, too, it looks each 0.1 ms. It sleeps when all have been idle for LINGER.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "curtaild",
    version,
    max_term_width = 100,
    after_long_help = "\
FILES
  The socket is $CURTAILD, or else $XDG_RUNTIME_DIR/curtaild.sock, or else /tmp/curtaild-UID.sock.
  It is removed at the end; one that a killed daemon left is taken over.

EXIT STATUS
  0 after SIGINT or SIGTERM, 1 on a failure, 2 on bad usage; the last two with one line on standard
  error.

EXAMPLES
  curtaild --cores 1-7                       core 0 is the daemon's and the system's
  curtail run -- ./service                   a program of threads, on those cores as it needs them
  curtail batch -- ./simulation              whatever the service leaves
  curtaild --status                          what the daemon does, as JSON

SEE ALSO
  curtail doctor says what this machine allows; the page \"Cores\" of the book says how it works."
)]
pub struct Options {
    /// Cores to manage: 1,2,5 or 1-7; the daemon itself had better run elsewhere
    #[arg(long, value_name = "LIST", value_parser = cores, required_unless_present = "status")]
    pub cores: Option<Cores>,
    /// Where to listen
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// How often to look at the programs: 1us to 1s
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5us")]
    pub interval: Duration,
    /// What a core does that has no work at all. `poll`: a thread of the lowest class (SCHED_IDLE)
    /// keeps it awake and hands it over in about 3us, at the price of power; it rests while batch
    /// programs are there. `halt`: nothing, and to wake the core takes about 20us
    #[arg(long, value_name = "HOW", value_enum, default_value = "halt")]
    pub idle: Idle,
    /// How long a thread that is to give a core up has for it before the next means is used: the
    /// kernel's pre-emption for batch; for the others, which look by themselves or whose safepoints the
    /// daemon has look, a signal and then another core
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10us")]
    pub grace: Duration,
    /// How long to keep looking when no program has work, before sleeping
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10ms")]
    pub linger: Duration,
    /// How many kthreads all programs may have together
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub slots: u32,
    /// Interfaces and devices that programs may have ports on (`daemon+xdp://…`), with all addresses
    /// there: xdp://eth0,dpdk://0000:03:00.0. Options follow a `?`; those of DPDK's start and of the
    /// device can be said here only. The daemon needs the rights that `curtail doctor` names
    #[arg(long, value_name = "URLS")]
    pub interfaces: Option<Interfaces>,
    /// Print what happens as JSON, one object a line, on standard output
    #[arg(long)]
    pub json: bool,
    /// Print errors only
    #[arg(long, short, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print each second what was granted and evicted, too
    #[arg(long, short)]
    pub verbose: bool,
    /// Ask the daemon at that socket what it does, print its answer (JSON), and end
    #[arg(long, conflicts_with_all = ["cores", "interfaces", "json", "quiet", "verbose"])]
    pub status: bool,
}

/// A list of cores: the kernel's numbers, in order, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Vec<u32>);

/// What a core does that has no work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// It looks for orders.
    Poll,
    /// It halts.
    Halt,
}

const MOST_CPUS: u32 = 1024;

fn cores(text: &str) -> Result<Cores, String> {
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(cpu) if cpu < MOST_CPUS => Ok(cpu),
        _ => Err(format!("`{text}` is no core's number")),
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(format!("`{part}` runs backwards"));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    match cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("core {} is named twice", pair[0])),
        None => Ok(Cores(cpus)),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let ns = curtail_notation::duration_ns(text)
        .map_err(|_| "write it with a unit: 500ns, 5us, 10ms or 1s".to_owned())?;
    let fits = (1_000..=1_000_000_000).contains(&ns);
    fits.then(|| Duration::from_nanos(ns)).ok_or_else(|| "from 1us to 1s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read_and_mistakes_named() {
        assert_eq!(cores("5,1-3, 0").unwrap(), Cores(vec![0, 1, 2, 3, 5]));
        for (text, problem) in [
            ("", "is no core's number"),
            ("1-", "is no core's number"),
            ("3-1", "runs backwards"),
            ("1,0-2", "core 1 is named twice"),
            ("1024", "is no core's number"),
            ("-1", "is no core's number"),
        ] {
            let error = cores(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }

    #[test]
    fn durations_have_a_unit_and_bounds() {
        assert_eq!(duration("5us"), Ok(Duration::from_micros(5)));
        assert_eq!(duration("1000ns"), Ok(Duration::from_micros(1)));
        assert_eq!(duration("1.5us"), Ok(Duration::from_nanos(1_500)));
        for text in ["5", "", "us", "999ns", "2s", "99999999999999999999s", "5u"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Options::command().debug_assert();
        let parse = |line: &str| Options::try_parse_from(line.split_whitespace());
        assert!(parse("curtaild").is_err());
        assert!(parse("curtaild --status").is_ok());
        assert!(parse("curtaild --cores 1 --status").is_err());
        let options = parse("curtaild --cores 1").unwrap();
        assert_eq!((options.interval, options.idle), (Duration::from_micros(5), Idle::Halt));
    }
}
