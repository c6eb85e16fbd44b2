//! `curtail load`: an open-loop client. One thread sends each request when it is due and receives
//! what has come in between; it sleeps when neither is at hand, unless told to spin.
//!
//! Sojourn times count from the scheduled arrival, so the client's own lateness is in them: a
//! late client makes the server look worse, never better. A run in which the client was late more
//! than it may be is not valid. Beside that thread there is one that draws how far the run is, on a
//! terminal ([`progress`]).

mod any;
mod progress;
mod series;

use crate::args::{Json, Offered, Point};
use crate::failure::Failure;
use crate::measured;
use crate::output;
use crate::serve::Bundled;
use any::AnyServer;
use clap::Args;
use curtail_experiment::Asked;
use curtail_load::client::{App, Client, Url, Wire};
use curtail_workload::{Mix, Slo, duration_ns};
use progress::Progress;
use series::Series;

/// `curtail load`.
#[derive(Args)]
pub(crate) struct Load {
    /// The server: udp://HOST:PORT, tcp://HOST:PORT, http://HOST:PORT/PATH, redis://HOST:PORT,
    /// memcached://HOST:PORT or shm:///FILE
    #[arg(value_name = "URL", value_parser = Url::parse)]
    url: Url,
    /// What the server runs
    #[arg(long, value_enum, default_value = "spin")]
    app: Bundled,
    #[command(flatten)]
    any: AnyServer,
    #[command(flatten)]
    offered: Offered,
    /// How many workers the server has, to make rates of loads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// The server's policy, for the result
    #[arg(long, value_name = "NAME", default_value = "unknown")]
    policy: String,
    /// Flows to the server; one over HTTP has one request in progress at a time
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Poll all the time rather than sleep between arrivals: precise, and takes a whole core
    #[arg(long)]
    spin: bool,
    /// Un-instrumented service times by class, `get:0.8us,scan:1.3ms`, for slowdowns; by default
    /// those of the workload (spin), or what an idle server measures of its own (kv)
    #[arg(long, value_name = "TIMES", value_parser = services)]
    service: Option<Services>,
    /// How long answers are waited for after the last request
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration_ns)]
    timeout: u64,
    /// How long the server may take to answer for the first time
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration_ns)]
    wait: u64,
    /// How late 99% of the requests must have been sent for the result to be valid
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = duration_ns)]
    max_lateness: u64,
    /// Keys that are asked for (kv, and `{key}` in requests)
    #[arg(long, value_name = "N", default_value_t = kv_app::load::PAPER_KEYS,
          value_parser = clap::value_parser!(u32).range(1..))]
    keys: u32,
    /// Bytes of the values that are put (kv, and `{value}` in requests)
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::value_parser!(u32).range(0..=kv_app::protocol::MAX_VALUE as i64))]
    value_size: u32,
    /// An objective: '[CLASS:] p99.9 slowdown 50' or '[CLASS:] p99 sojourn 100us'
    #[arg(long, value_name = "OBJECTIVE", value_parser = Slo::parse)]
    slo: Option<Slo>,
    /// Search the highest load at which the objective is met; --workers says what a load of 1 is
    #[arg(long, requires = "slo")]
    find_max: bool,
    #[command(flatten)]
    json: Json,
}

/// Service times by class name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Services(Vec<(String, u64)>);

fn services(text: &str) -> Result<Services, String> {
    let one = |part: &str| {
        let (name, time) = part
            .split_once(':')
            .ok_or_else(|| format!("`{part}` is no service time: write get:0.8us"))?;
        let ns = duration_ns(time).map_err(|error| error.to_string())?;
        if ns == 0 || ns > u64::from(u32::MAX) {
            return Err(format!("`{part}`: a service time is between 1ns and 4.29s"));
        }
        Ok((name.trim().to_owned(), ns))
    };
    text.split(',').map(one).collect::<Result<_, _>>().map(Services)
}

impl Load {
    fn app(&self) -> App {
        match self.app {
            Bundled::Spin => App::Spin,
            Bundled::Kv => App::Kv,
        }
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        let any = self.any.requests(&self.url, self.keys, self.value_size as usize)?;
        let (any, (workload, mix)) = match any {
            Some((wire, classes)) => (Some(wire), any::workload(classes)?),
            None => (None, self.offered.workload.mix()?),
        };
        let class = measured::slo_class(self.slo.as_ref(), &workload, &mix)?;
        let known = self.known_services(&mix)?;
        let app = if any.is_some() { None } else { Some(self.app) };
        let wire = match any {
            Some(wire) => wire,
            None => Wire::new(self.app(), mix.classes(), self.keys, self.value_size as usize)
                .map_err(Failure::usage)?,
        };
        let partial = output::partial(self.json.json.as_deref())?;
        let mut client = Client::open(&self.url, usize::from(self.connections), wire, self.wait)?;
        let warmup_ns = self.offered.warmup_ns()?;
        // Before anything is sent: what cannot be offered must not disturb the server.
        self.points(mix.mean_ns())?;
        client.greet(self.wait)?;
        let services = match known {
            Some(known) => known,
            None if app == Some(Bundled::Kv) => client.idle_services(mix.classes().len())?,
            None => vec![0; mix.classes().len()],
        };
        let points = self.points(self.mean_ns(app, &mix, &services))?;
        let progress = Progress::new();
        let series = Series {
            load: self,
            client,
            workload,
            mix,
            services,
            warmup_ns,
            class,
            progress,
            partial,
        };
        let (runs, lines) = match &self.slo {
            Some(slo) if self.find_max => series.search(slo, points[0].rate_rps)?,
            _ => series.sweep(&points)?,
        };
        let json = self.json.json.as_deref();
        output::results(&runs, self.find_max || runs.len() > 1, json)?;
        output::beside(&lines, json)?;
        // A search goes where the server cannot follow: that is how it finds the end.
        if self.find_max { Ok(()) } else { output::all_valid(&runs) }
    }

    /// What is to be offered; where the highest load is searched, that is a load of 1.
    fn points(&self, mean_ns: f64) -> Result<Vec<Point>, Failure> {
        let workers = self.workers.map(usize::from);
        if !self.find_max {
            return self.offered.points(mean_ns, workers);
        }
        if self.offered.asks_for_a_load() {
            return Err(Failure::usage("--find-max chooses the loads itself"));
        }
        if workers.is_none() {
            return Err(Failure::usage(
                "--find-max: a load is a fraction of the server's capacity, say --workers N",
            ));
        }
        Ok(Asked::Loads(&[1.0]).points(mean_ns, workers)?)
    }

    /// Service times by class, where the user gave them; every class needs one then.
    fn known_services(&self, mix: &Mix) -> Result<Option<Vec<u32>>, Failure> {
        let Some(Services(given)) = &self.service else { return Ok(None) };
        let mut services = Vec::new();
        for class in mix.classes() {
            let found = given.iter().find(|(name, _)| *name == class.name);
            let (_, ns) = found.ok_or_else(|| {
                Failure::usage(format!("--service says nothing about class `{}`", class.name))
            })?;
            services.push(u32::try_from(*ns).unwrap_or(u32::MAX));
        }
        let unknown = given.iter().find(|(name, _)| mix.classes().iter().all(|c| c.name != *name));
        match unknown {
            Some((name, _)) => Err(Failure::usage(format!("--service: no class `{name}`"))),
            None => Ok(Some(services)),
        }
    }

    /// Mean service time of a request, as the server will give it.
    fn mean_ns(&self, app: Option<Bundled>, mix: &Mix, services: &[u32]) -> f64 {
        if app == Some(Bundled::Spin) {
            return mix.mean_ns();
        }
        services.iter().enumerate().map(|(i, &ns)| mix.fraction(i) * f64::from(ns)).sum()
    }
}
