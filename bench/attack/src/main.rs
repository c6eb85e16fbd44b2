//! The command; `ci/bench.sh` builds what it needs and calls it.
#![forbid(unsafe_code)]

use attack_bench::{Attack, Attacks, Figure, Options, attack, table};
use curtail_policy::catalogue;
use curtail_report::Machine;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: attack-bench --curtail PROGRAM [ATTACK]… [--policies tq,shenango|all]
         [--small] [--size N] [--out DIR] [-- OPTIONS OF curtail serve]
attacks: datagrams connections pipelining deaf trickle low-memory sigterm full-disk";

struct Args {
    attacks: Vec<Attack>,
    policies: Option<Vec<String>>,
    out: Option<PathBuf>,
    options: Options,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("attack: {error}");
            ExitCode::FAILURE
        }
    }
}

/// False: a client was not served as it should be.
fn run(args: Args) -> Result<bool, String> {
    let mut found = Attacks { machine: Machine::gather(), ..Attacks::default() };
    for kind in args.attacks {
        let policies = match &args.policies {
            Some(policies) => policies.clone(),
            // How a server ends is asked of every policy.
            None if kind == Attack::Sigterm => all_policies(),
            None => ["tq", "shenango"].map(str::to_owned).to_vec(),
        };
        for policy in policies {
            eprintln!("{} under {policy} …", kind.name());
            let figure = attack(kind, &policy, &args.options).unwrap_or_else(|error| Figure {
                attack: kind.name().to_owned(),
                policy,
                trouble: Some(error),
                ..Figure::default()
            });
            found.attacks.push(figure);
        }
    }
    println!("{}", table(&found.attacks));
    if let Some(out) = &args.out {
        write(out, &found)?;
    }
    Ok(found.attacks.iter().all(Figure::is_right))
}

fn all_policies() -> Vec<String> {
    catalogue().iter().map(|entry| entry.name.to_owned()).collect()
}

fn write(out: &Path, found: &Attacks) -> Result<(), String> {
    let path = out.join("attack.json");
    let text = serde_json::to_string_pretty(found).map_err(|error| error.to_string())?;
    std::fs::create_dir_all(out)
        .and_then(|()| std::fs::write(&path, text + "\n"))
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn parse(mut given: impl Iterator<Item = String>) -> Result<Args, String> {
    let curtail = PathBuf::new();
    let options = Options { curtail, size: None, is_small: false, serve: Vec::new() };
    let mut args = Args { attacks: Vec::new(), policies: None, out: None, options };
    while let Some(option) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{option} needs a value"));
        match option.as_str() {
            "--curtail" => args.options.curtail = value()?.into(),
            "--out" => args.out = Some(value()?.into()),
            "--small" => args.options.is_small = true,
            "--size" => {
                let text = value()?;
                let size = text.parse().ok().filter(|&size| size > 0);
                args.options.size =
                    Some(size.ok_or_else(|| format!("`{text}` is no number above zero"))?);
            }
            "--policies" => {
                args.policies = Some(match value()?.as_str() {
                    "all" => all_policies(),
                    list => list.split(',').map(str::to_owned).collect(),
                });
            }
            "--" => args.options.serve.extend(given.by_ref()),
            name => {
                let attack = Attack::ALL.into_iter().find(|attack| attack.name() == name);
                args.attacks.push(attack.ok_or_else(|| format!("there is no `{name}`"))?);
            }
        }
    }
    if args.options.curtail.as_os_str().is_empty() {
        return Err("which program is attacked?".to_owned());
    }
    if args.attacks.is_empty() {
        args.attacks = Attack::ALL.to_vec();
    }
    Ok(args)
}
