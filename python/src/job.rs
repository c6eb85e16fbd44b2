//! One simulation, from its options.

use crate::given::{Given, about, decimal, nanoseconds, whole, word};
use curtail_experiment::{
    Asked, DEFAULT_DURATION_NS, Error, Length, Offer, Point, Setting, Shape, Source, costs, phases,
    warmup_ns,
};
use curtail_policy::{PreemptKind, Spec};
use curtail_sim::Costs;
use curtail_workload::{self as workload, Arrivals, Class, Mix, Service, load, named, rate_rps};
use serde_json::{Map, Value};
use std::path::Path;

/// What is simulated.
pub(crate) struct Job {
    pub(crate) setting: Setting,
    pub(crate) spec: Spec,
    pub(crate) seed: u64,
    load: Option<f64>,
    rate_rps: Option<f64>,
}

impl Job {
    /// What these options (a JSON object) ask for.
    pub(crate) fn parse(options: &str) -> Result<Self, Error> {
        let mut given = Given::parse(options)?;
        given.at_most_one(&["load", "rate"])?;
        let workers = given.number("workers", 1)?.unwrap_or(1);
        let spec = spec(&mut given, workers)?;
        let mut setting = Setting::ideal(offer(&mut given)?, workers);
        system(&mut given, &mut setting)?;
        let load = given.take("load", |value| decimal(value, load))?;
        let rate_rps = given.take("rate", |value| decimal(value, rate_rps))?;
        let seed = given.number("seed", 0)?.unwrap_or(1);
        given.finish()?;
        let config = setting.config(&spec, seed);
        config.validate().map_err(|error| Error::Usage(error.to_string()))?;
        Ok(Self { setting, spec, seed, load, rate_rps })
    }

    /// The load that is asked for.
    pub(crate) fn point(&self) -> Result<Point, Error> {
        let (loads, rates) = (self.load.as_slice(), self.rate_rps.as_slice());
        let asked = match (loads, rates) {
            ([], []) => Asked::Nothing,
            (loads, []) => Asked::Loads(loads),
            (_, rates) => Asked::Rates(rates),
        };
        let points = self.setting.offer.points(asked, self.setting.workers)?;
        points.first().copied().ok_or_else(|| about("load", "there is none"))
    }

    /// A search chooses the loads itself.
    pub(crate) fn needs_no_load(&self) -> Result<(), Error> {
        match (self.load, self.rate_rps) {
            (None, None) => Ok(()),
            _ => Err(Error::Usage("find_max chooses the loads itself".to_owned())),
        }
    }
}

fn spec(given: &mut Given, workers: usize) -> Result<Spec, Error> {
    let percent = |value: &Value| {
        let factor = value.as_f64().filter(|factor| (1.0..=1e6).contains(factor));
        let factor = factor.ok_or_else(|| format!("{value} is no factor from 1 on"))?;
        Ok((factor * 100.0).round() as u32)
    };
    let shape = Shape {
        quantum_ns: given.duration("quantum")?,
        jbsq: given.number("jbsq", 1)?,
        ties: given.text("ties")?,
        core: given.text("core")?,
        victim: given.text("victim")?,
        work_conserving: given.flag("work_conserving")?,
        preemptive: given.flag("preemptive")?,
        reserved: given.number("reserved", 0)?,
        delta_percent: given.take("delta", percent)?,
        profile_window: given.number("profile_window", 1)?,
        profile_slowdown: given.number("profile_slowdown", 1)?,
        profile_deviation_percent: given.number("profile_deviation", 0)?,
        spillway: given.number("spillway", 1)?,
        weights: given.list("weights", |value| whole(value, 0))?,
        priorities: given.list("priorities", |value| whole(value, 0))?,
        deadlines_ns: given.list("deadlines", nanoseconds)?,
        queue_bounds: given.list("queue_bounds", |value| whole(value, 0))?,
    };
    let name = given.text::<String>("policy")?.unwrap_or_else(|| "tq".to_owned());
    let spec = shape.spec(&name, workers)?;
    let preempt = given.take("preempt", |value| match word(value)? {
        "auto" => Ok(None),
        kind => kind.parse::<PreemptKind>().map(Some).map_err(|error| error.to_string()),
    })?;
    Ok(match preempt.flatten() {
        Some(kind) => spec.with_preempt(kind),
        None => spec,
    })
}

fn system(given: &mut Given, setting: &mut Setting) -> Result<(), Error> {
    setting.dispatchers = given.number("dispatchers", 1)?.unwrap_or(setting.dispatchers);
    setting.balance = given.text("balance")?.unwrap_or(setting.balance);
    setting.flows = given.number("flows", 1)?.unwrap_or(setting.flows);
    setting.hot = given.text("hot_flows")?.or(setting.hot);
    setting.capacity = given.number("capacity", 1)?.unwrap_or(setting.capacity);
    setting.pinned = given.flag("pinned")?.unwrap_or(setting.pinned);
    setting.hints = given.text("hints")?.unwrap_or(setting.hints);
    setting.costs = given.take("costs", priced)?.unwrap_or(setting.costs);
    let profile = given.take("profile", |value| match word(value)? {
        "measured" => Ok(false),
        "known" => Ok(true),
        other => Err(format!("`{other}` is neither measured nor known")),
    })?;
    setting.known = profile.unwrap_or(setting.known);
    Ok(())
}

/// Costs by name, from a file, or one by one; of the latter, numbers are nanoseconds.
fn priced(value: &Value) -> Result<Costs, String> {
    let Value::Object(single) = value else {
        return costs(word(value)?).map_err(|error| error.to_string());
    };
    let with_unit = |(name, value): (&String, &Value)| {
        let plain = value.is_number() && name != "instrumentation";
        let value = if plain { format!("{}ns", value).into() } else { value.clone() };
        (name.clone(), value)
    };
    let single: Map<String, Value> = single.iter().map(with_unit).collect();
    Costs::parse("costs", &Value::from(single).to_string()).map_err(|error| {
        // It was no file: where in the text it stands says nothing.
        let message = error.to_string();
        let message = message.strip_prefix("costs: ").unwrap_or(&message);
        message.split(" at line ").next().unwrap_or_default().to_owned()
    })
}

fn offer(given: &mut Given) -> Result<Offer, Error> {
    given.at_most_one(&["workload", "classes", "phases", "trace"])?;
    given.at_most_one(&["trace", "arrivals"])?;
    given.at_most_one(&["jobs", "duration"])?;
    given.at_most_one(&["jobs", "warmup"])?;
    let (name, source) = source(given)?;
    let arrivals = given.take("arrivals", |value| {
        Arrivals::parse(word(value)?).map_err(|error| error.to_string())
    })?;
    let (duration, warmup) = (given.duration("duration")?, given.duration("warmup")?);
    let length = match given.number("jobs", 1)? {
        Some(jobs) => Length::Jobs(jobs),
        None if duration.is_none() && warmup.is_none() => Length::Unsaid,
        None => {
            let duration_ns = duration.unwrap_or(DEFAULT_DURATION_NS);
            Length::Time { duration_ns, warmup_ns: warmup_ns(duration_ns, warmup)? }
        }
    };
    let offer = Offer::new(name, source, arrivals.unwrap_or(Arrivals::Poisson), length);
    Ok(offer.classified(given.text("classifier")?.unwrap_or_default()))
}

fn source(given: &mut Given) -> Result<(String, Source), Error> {
    if let Some(file) = given.text::<String>("trace")? {
        return Source::trace(Path::new(&file));
    }
    let texts = given.take("phases", |value| match value {
        Value::Array(parts) => parts.iter().map(|it| word(it).map(str::to_owned)).collect(),
        one => Ok(vec![word(one)?.to_owned()]),
    })?;
    if let Some(texts) = texts {
        let texts: Vec<String> = texts;
        let (name, phases) = phases(&texts.join("; "))?;
        return Ok((name, Source::Phases(phases)));
    }
    if let Some(mix) = given.take("classes", mix)? {
        return Ok((mix.to_string(), Source::Mix(mix)));
    }
    let name = given.text::<String>("workload")?;
    let named = named(name.as_deref().unwrap_or("extreme-bimodal"));
    let named = named.map_err(|error| about("workload", error))?;
    Ok((named.name.to_owned(), Source::Mix(named.mix())))
}

/// Classes: the command line's notation, or a list of name, service time and share.
fn mix(value: &Value) -> Result<Mix, String> {
    let class = |item: &Value| match item.as_array().map(Vec::as_slice) {
        Some([name, service, share]) => Ok(Class {
            name: word(name)?.to_owned(),
            service: match service {
                Value::String(text) => Service::parse(text).map_err(|error| error.to_string())?,
                number => Service::Constant(nanoseconds(number)?),
            },
            share: share.as_f64().ok_or_else(|| format!("{share} is no share"))?,
        }),
        _ => Err(format!("{item} is no class: write (name, service time, share)")),
    };
    let mix: Result<Mix, workload::ParseError> = match value {
        Value::Array(items) => Mix::new(items.iter().map(class).collect::<Result<_, _>>()?),
        text => Mix::parse(word(text)?),
    };
    mix.map_err(|error| error.to_string())
}
