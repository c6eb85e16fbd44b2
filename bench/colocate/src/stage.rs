//! The programs of a run: a service, and batch work beside it, by each way to share a core.

use crate::generator::Steps;
use crate::service::{Inside, Offer, Served};
use crate::talk::{Batch, Talker};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Programs that are built before.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// `curtail`.
    pub curtail: PathBuf,
    /// Batch work with safepoints.
    pub batch: PathBuf,
    /// Batch work without safepoints.
    pub batch_plain: PathBuf,
    /// This program with safepoints, for batch work inside the service; none: there is no such.
    pub inside: Option<PathBuf>,
}

/// By which way a service and batch work share a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Under the core allocator, batch work with safepoints or without.
    Process {
        /// It looks for orders.
        looks: bool,
    },
    /// Under the core allocator, a server with a dispatcher, and batch work with safepoints.
    Dispatched,
    /// Batch threads of the service.
    Inside {
        /// The threads are cut at safepoints.
        cut: bool,
    },
    /// The kernel's scheduler alone.
    Linux {
        /// Batch work at nice 19, instead of `SCHED_IDLE`.
        nice: bool,
    },
}

impl How {
    /// All, by their names.
    pub const ALL: [(&str, Self); 7] = [
        ("process", Self::Process { looks: true }),
        ("process_plain", Self::Process { looks: false }),
        ("dispatched", Self::Dispatched),
        ("inside", Self::Inside { cut: true }),
        ("inside_plain", Self::Inside { cut: false }),
        ("linux", Self::Linux { nice: false }),
        ("linux_nice", Self::Linux { nice: true }),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, how)| *how == self).expect("all are there").0
    }

    /// Those whose service is the same where it has the core to itself: the first of them.
    #[must_use]
    pub fn alone(self) -> Self {
        match self {
            Self::Process { .. } => Self::Process { looks: true },
            Self::Inside { .. } | Self::Dispatched => self,
            Self::Linux { .. } => Self::Linux { nice: false },
        }
    }
}

/// What a service is offered.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub mix: String,
    pub load: f64,
    pub steps: Option<Steps>,
    pub seconds: f64,
    pub seed: u64,
    /// How often the core allocator looks.
    pub interval: Duration,
    /// The service gives its core back when it has nothing to do.
    pub parks: bool,
}

pub(crate) struct Stage<'a> {
    pub itself: &'a Path,
    pub programs: &'a Programs,
    /// The generator's core, and the one that is shared.
    pub cpus: [u32; 2],
}

impl<'a> Stage<'a> {
    /// # Errors
    /// Where there is one core only.
    pub(crate) fn new(itself: &'a Path, programs: &'a Programs) -> Result<Self, String> {
        let cpus = curtail_shm::kthreads::allowed_cpus().map_err(|error| error.to_string())?;
        let [first, second, ..] = cpus[..] else {
            return Err("needs two cores: one for the generator, one to share".to_owned());
        };
        Ok(Self { itself, programs, cpus: [first, second] })
    }

    /// Whether the programs for that are there.
    pub(crate) fn has(&self, how: How) -> bool {
        !matches!(how, How::Inside { cut: true } | How::Dispatched)
            || self.programs.inside.is_some()
    }

    /// The rate of batch work that has the core to itself, in units per ns.
    pub(crate) fn batch_rate(&self, how: How) -> Result<f64, String> {
        let mut batch = Batch::start(&self.ranked("alone", self.program(how)))?;
        let begin = batch.ask()?;
        std::thread::sleep(Duration::from_millis(300));
        Ok(batch.ask()?.rate_since(begin))
    }

    /// The service with the core to itself.
    pub(crate) fn alone(&self, load: &Load, how: How) -> Result<Served, String> {
        Ok(self.serve(load, how, false)?.0)
    }

    /// The service beside batch work, and the rate of that, in units per ns.
    pub(crate) fn beside(&self, load: &Load, how: How) -> Result<(Served, f64), String> {
        self.serve(load, how, true)
    }

    fn serve(&self, load: &Load, how: How, beside: bool) -> Result<(Served, f64), String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let socket = folder.path().join("curtaild.sock");
        let offer = self.offer(load, how, beside, &socket);
        let text = serde_json::to_string(&offer).map_err(|error| error.to_string())?;
        let mut service = Talker::start(Command::new(self.service(how)).args(["service", &text]))?;
        service.expect("ready")?;
        let others = beside && offer.inside.is_none();
        let mut batch = match others {
            true => Some(Batch::start(&self.batch(how, &socket))?),
            false => None,
        };
        service.say("go")?;
        service.expect("begin")?;
        let begin = batch.as_mut().map(Batch::ask).transpose()?;
        let served = service.line()?;
        let end = batch.as_mut().map(Batch::ask).transpose()?;
        let served: Served =
            serde_json::from_str(&served).map_err(|_| format!("it said: {served}"))?;
        let rate = match (begin, end) {
            (Some(begin), Some(end)) => end.rate_since(begin),
            _ => served.batch_rate,
        };
        Ok((served, rate))
    }

    /// The service's program.
    pub(crate) fn service(&self, how: How) -> &Path {
        match (how, &self.programs.inside) {
            (How::Inside { cut: true } | How::Dispatched, Some(inside)) => inside,
            _ => self.itself,
        }
    }

    fn offer(&self, load: &Load, how: How, beside: bool, socket: &Path) -> Offer {
        let process = matches!(how, How::Process { .. } | How::Dispatched);
        Offer {
            mix: load.mix.clone(),
            load: load.load,
            steps: load.steps,
            seconds: load.seconds,
            seed: load.seed,
            cpus: self.cpus,
            daemon: process.then(|| socket.to_owned()),
            interval_ns: load.interval.as_nanos() as u64,
            spin_ns: match (load.parks, process) {
                (false, _) => u64::from(u32::MAX),
                (true, true) => 2_000,
                (true, false) => 20_000,
            },
            inside: match how {
                How::Inside { cut: true } if beside => Some(Inside::Cut),
                How::Inside { cut: false } if beside => Some(Inside::Yields),
                _ => None,
            },
            dispatcher: how == How::Dispatched,
        }
    }

    fn program(&self, how: How) -> &Path {
        match how {
            How::Process { looks: true } | How::Dispatched | How::Inside { cut: true } => {
                &self.programs.batch
            }
            _ => &self.programs.batch_plain,
        }
    }

    fn ranked(&self, rank: &str, program: &Path) -> Vec<String> {
        let own = self.itself.display().to_string();
        let cpu = self.cpus[1].to_string();
        vec![own, "batch".to_owned(), rank.to_owned(), cpu, program.display().to_string()]
    }

    /// Batch work of another process beside the service.
    pub(crate) fn batch(&self, how: How, socket: &Path) -> Vec<String> {
        match how {
            How::Process { .. } | How::Dispatched => {
                let curtail = self.programs.curtail.display().to_string();
                let daemon = socket.display().to_string();
                let program = self.program(how).display().to_string();
                vec![curtail, "batch".into(), "--daemon".into(), daemon, "--".into(), program]
            }
            How::Linux { nice: true } => self.ranked("nice", self.program(how)),
            How::Linux { nice: false } | How::Inside { .. } => {
                self.ranked("idle", self.program(how))
            }
        }
    }
}
