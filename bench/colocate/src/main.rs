//! The command; `ci/bench.sh` builds what it needs and calls it.
#![forbid(unsafe_code)]

use colocate_bench::handover::{self, Options};
use colocate_bench::{
    Colocate, How, Programs, become_batch, burst, interval, orders, realloc, role, service, share,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: colocate-bench [handover|share|burst|interval|realloc|orders]…
         [--rounds N] [--looks 2us]                        handover; realloc has a quarter of them
         [--works exp10,exp100,bimodal] [--loads 0.2,0.5,0.8] [--seconds S] [--times N]
         [--ways process,process_plain,inside,inside_plain,linux,linux_nice] [--interval 5us]  share
         [--cycles N] [--windows N]                        burst: steps, and 10 ms windows of each
         [--curtail PROGRAM --batch PROGRAM --batch-plain PROGRAM --inside PROGRAM] [--out DIR]
  All experiments where none is named. --seconds and --times are also interval's.";

/// What can be measured.
const EXPERIMENTS: [&str; 6] = ["handover", "share", "burst", "interval", "realloc", "orders"];

/// The kinds of work that a service does.
const WORKS: [(&str, &str); 3] =
    [("exp10", "exp10"), ("exp100", "work:exp(100us):1"), ("bimodal", "bimodal-90-10")];

/// How long orders are counted.
const ORDERS_FOR: Duration = Duration::from_secs(2);

struct Args {
    parts: Vec<String>,
    out: Option<PathBuf>,
    options: Options,
    share: share::Options,
    burst: burst::Options,
    interval: interval::Options,
    programs: Programs,
}

fn main() -> ExitCode {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let played = match given.split_first() {
        Some((first, rest)) if first == "role" => Some(role::play(rest)),
        Some((first, rest)) if first == "batch" => Some(become_batch(rest)),
        Some((first, rest)) if first == "service" => Some(play(rest, service::serve)),
        Some((first, rest)) if first == "echo" => Some(play(rest, realloc::play)),
        _ => None,
    };
    match played {
        Some(Ok(())) => return ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("{}: {error}", given.join(" "));
            return ExitCode::FAILURE;
        }
        None => {}
    }
    let args = match parse(given.into_iter()) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("colocate: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A process of an experiment: what it is to do is its argument.
fn play<T: serde::de::DeserializeOwned>(
    args: &[String],
    f: impl FnOnce(&T) -> Result<(), String>,
) -> Result<(), String> {
    let [text] = args else { return Err("needs one argument".to_owned()) };
    f(&serde_json::from_str(text).map_err(|error| error.to_string())?)
}

fn run(mut args: Args) -> Result<(), String> {
    let itself = std::env::current_exe().map_err(|error| error.to_string())?;
    let wants = |part: &str| args.parts.is_empty() || args.parts.iter().any(|it| it == part);
    for programs in
        [&mut args.share.programs, &mut args.burst.programs, &mut args.interval.programs]
    {
        programs.clone_from(&args.programs);
    }
    let mut found = Colocate::here();
    if wants("handover") {
        let measured = handover::measure(&itself, &args.options)?;
        println!("{}", handover::table(&measured));
        found = Colocate::of(measured);
    }
    if wants("orders") {
        found.orders_per_s = orders::per_second(ORDERS_FOR)?;
        println!("orders a second, in a closed loop: {:.2} M\n", found.orders_per_s / 1e6);
    }
    if wants("realloc") {
        found.realloc_us = realloc::measure(&itself, &args.programs, args.options.rounds / 4 + 1)?;
        println!("{}", realloc::table(&found.realloc_us));
    }
    if wants("share") {
        for (name, mix) in &mut args.share.works {
            let known = WORKS.iter().find(|(known, _)| known == name);
            let text = known.map_or(mix.as_str(), |(_, mix)| mix);
            *mix = text.to_owned();
        }
        found.share = share::measure(&itself, &args.share)?;
        println!("{}", share::table(&found.share));
    }
    if wants("burst") {
        found.burst = burst::measure(&itself, &args.burst)?;
        println!("{}", burst::table(&found.burst));
    }
    if wants("interval") {
        found.interval = interval::measure(&itself, &args.interval)?;
        println!("{}", interval::table(&found.interval));
    }
    match &args.out {
        Some(out) => write(out, &found),
        None => Ok(()),
    }
}

fn write(out: &Path, found: &Colocate) -> Result<(), String> {
    let path = out.join("colocate.json");
    let text = serde_json::to_string_pretty(found).map_err(|error| error.to_string())?;
    std::fs::create_dir_all(out)
        .and_then(|()| std::fs::write(&path, text + "\n"))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn parse(mut given: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args {
        parts: Vec::new(),
        out: None,
        options: Options::default(),
        share: share::Options::default(),
        burst: burst::Options::default(),
        interval: interval::Options::default(),
        programs: Programs::default(),
    };
    while let Some(option) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            part if EXPERIMENTS.contains(&part) => args.parts.push(option),
            "--out" => args.out = Some(value()?.into()),
            "--rounds" => args.options.rounds = positive(&value()?)?,
            "--looks" => args.options.looks = duration(&value()?)?,
            "--works" => {
                let text = value()?;
                args.share.works =
                    text.split(',').map(|it| (it.to_owned(), it.to_owned())).collect();
            }
            "--loads" => {
                args.share.loads = value()?.split(',').map(positive).collect::<Result<_, _>>()?;
            }
            "--ways" => args.share.ways = value()?.split(',').map(way).collect::<Result<_, _>>()?,
            "--seconds" => {
                args.share.seconds = positive(&value()?)?;
                args.interval.seconds = args.share.seconds;
            }
            "--times" => {
                args.share.rounds = positive(&value()?)?;
                args.interval.rounds = args.share.rounds;
            }
            "--interval" => args.share.interval = duration(&value()?)?,
            "--cycles" => args.burst.cycles = positive(&value()?)?,
            "--windows" => args.burst.windows = positive(&value()?)?,
            "--curtail" => args.programs.curtail = value()?.into(),
            "--batch" => args.programs.batch = value()?.into(),
            "--batch-plain" => args.programs.batch_plain = value()?.into(),
            "--inside" => args.programs.inside = Some(value()?.into()),
            _ => return Err(format!("there is no `{option}`")),
        }
    }
    Ok(args)
}

fn way(name: &str) -> Result<How, String> {
    let known = How::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, how)| *how).ok_or_else(|| format!("there is no way `{name}`"))
}

fn positive<T: std::str::FromStr + PartialOrd + Default>(text: &str) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| format!("`{text}` is no number above zero"))
}

/// `500ns` or `2us`.
fn duration(text: &str) -> Result<Duration, String> {
    let ns = curtail_notation::duration_ns(text).ok().filter(|ns| (1..=1_000_000).contains(ns));
    ns.map(Duration::from_nanos)
        .ok_or_else(|| format!("`{text}` is no duration up to 1000us: write 500ns or 2us"))
}
