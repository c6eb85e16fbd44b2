//! The command; `ci/bench.sh` builds what it needs and calls it.
#![forbid(unsafe_code)]

use attack_bench::{Attack, Attacks, Figure, Options, attack, table};
use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use curtail_policy::catalogue;
use curtail_report::Machine;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Attacks `curtail serve`, with a well-behaved client beside the attack
#[derive(Parser)]
#[command(name = "attack-bench", args_override_self = true)]
struct Args {
    /// The program that is attacked
    #[arg(long, value_name = "PROGRAM")]
    curtail: PathBuf,
    /// Which attacks; all where none is named
    #[arg(value_name = "ATTACK", value_parser = attack_parser())]
    attacks: Vec<Attack>,
    /// Under which policies, or `all` [default: tq,shenango; all for sigterm]
    #[arg(long, value_name = "LIST", value_delimiter = ',', overrides_with = "policies")]
    policies: Option<Vec<String>>,
    /// As little as a test needs
    #[arg(long)]
    small: bool,
    /// Another size than the attack's own
    #[arg(long, value_name = "N")]
    size: Option<NonZeroUsize>,
    /// Where the JSON goes
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Options of `curtail serve`
    #[arg(last = true, value_name = "OPTIONS")]
    serve: Vec<String>,
}

fn attack_parser() -> impl TypedValueParser<Value = Attack> {
    let named = |name: String| Attack::ALL.into_iter().find(|attack| attack.name() == name);
    PossibleValuesParser::new(Attack::ALL.map(Attack::name))
        .map(move |name| named(name).expect("one of these names"))
}

fn main() -> ExitCode {
    match run(Args::parse()) {
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
    let options = Options {
        curtail: args.curtail,
        size: args.size.map(NonZeroUsize::get),
        is_small: args.small,
        serve: args.serve,
    };
    let all = Attack::ALL.to_vec();
    for kind in if args.attacks.is_empty() { all } else { args.attacks } {
        let policies = match &args.policies {
            Some(policies) if policies == &["all"] => all_policies(),
            Some(policies) => policies.clone(),
            // How a server ends is asked of every policy.
            None if kind == Attack::Sigterm => all_policies(),
            None => ["tq", "shenango"].map(str::to_owned).to_vec(),
        };
        for policy in policies {
            eprintln!("{} under {policy} …", kind.name());
            let figure = attack(kind, &policy, &options).unwrap_or_else(|error| Figure {
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
