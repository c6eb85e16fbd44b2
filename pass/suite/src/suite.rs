//! The whole measurement: builds, then rounds, then figures.
//!
//! A round runs every program once, in random order, and of each all variants one after the other,
//! in random order too: what is compared ran within seconds, and each program's rounds are spread
//! over the whole measurement.

use crate::catalogue::{self, Program};
use crate::compile::{Built, Shop, build_all};
use crate::figures::{Entry, Figures, Report};
use crate::measure::{self, Run};
use crate::options::{Kind, Options, Set, Variant};
use crate::outside;
use curtail_report::Machine;
use std::path::{Path, PathBuf};

/// splitmix64: the order of things.
struct Order(u64);

impl Order {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// 0 to `n` − 1 in random order.
    fn of(&mut self, n: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..n).collect();
        for at in (1..n).rev() {
            all.swap(at, (self.next() % (at as u64 + 1)) as usize);
        }
        all
    }
}

/// A variant of a program, ready to run.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// The executables, one a layout.
    pub paths: Vec<PathBuf>,
    /// How it is run.
    pub variant: Variant,
}

/// The programs that `options` ask for, with their sources.
fn programs(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Vec<Program>, String> {
    if options.set == Set::Own {
        return chosen(catalogue::programs(&catalogue::home())?, &options.only);
    }
    let home = outside::home();
    let mut programs = chosen(outside::programs(&home)?, &options.only)?;
    say("looking for the sources, in the package registry if need be");
    outside::fetch(&home, &mut programs)?;
    Ok(programs)
}

/// Builds and measures what `options` ask for; `say` is told how it goes.
///
/// # Errors
/// A program that does not build, fails, or prints something else with safepoints than without.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Report, String> {
    let programs = programs(options, say)?;
    let tools = options.tools.clone().map_or_else(beside_self, Ok)?;
    let tools = std::path::absolute(&tools).map_err(|e| format!("{}: {e}", tools.display()))?;
    let out = std::path::absolute(&options.out).map_err(|e| e.to_string())?.join("safepoint");
    let shop = Shop { tools, out: out.clone() };
    shop.accepts(Kind::Clock)?;
    let mut notes = Vec::new();
    let (variants, kinds) = possible(&shop, &options.variants(), &mut notes);
    notes.iter().for_each(|note| say(note));
    say(&format!("building {} programs, {} kinds each", programs.len(), kinds.len()));
    let built = build_all(&shop, &programs, &kinds, options.layouts)?;

    let machine = Machine::gather();
    let core = measure::settle(options.core)?;
    let find = |builds: &[Vec<Built>], variant: &Variant| {
        kinds.iter().position(|kind| *kind == variant.kind).map(|at| builds[at].clone())
    };
    let field: Vec<Vec<Contestant>> = built
        .iter()
        .map(|builds| {
            let contestant = |variant: &Variant| {
                find(builds, variant)
                    .map(|built| built.into_iter().map(|one| one.path).collect())
                    .map(|paths| Contestant { paths, variant: variant.clone() })
            };
            variants.iter().filter_map(contestant).collect()
        })
        .collect();
    let runs = rounds(options, &field, &out, say)?;

    let mut report = Report {
        schema: 1,
        benchmark: "safepoint".to_owned(),
        set: options.set.name().to_owned(),
        scale: options.scale,
        rounds: options.rounds,
        layouts: options.layouts,
        seed: options.seed,
        core,
        notes,
        machine,
        ..Report::default()
    };
    for ((program, builds), runs) in programs.iter().zip(&built).zip(&runs) {
        let entries = variants.iter().zip(runs).map(|(variant, own)| {
            let points = find(builds, variant).map_or(0, |built| built[0].safepoints);
            Entry::of(&variant.name, points, own, &runs[0], options.layouts)
        });
        report.programs.push(Figures {
            program: program.name.clone(),
            language: program.language.name().to_owned(),
            flags: program.flags.clone(),
            origin: program.origin.clone(),
            output: runs[0][0].output.clone(),
            variants: entries.collect(),
        });
    }
    if let Some(scale) = options.instructions {
        count(&mut report, &field, scale, say)?;
    }
    report.sum_up();
    Ok(report)
}

fn beside_self() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| format!("where am I? {error}"))?;
    own.parent().map(Path::to_owned).ok_or_else(|| "where am I?".to_owned())
}

fn chosen(all: Vec<Program>, only: &[String]) -> Result<Vec<Program>, String> {
    for name in only {
        if !all.iter().any(|program| program.name == *name) {
            let names: Vec<&str> = all.iter().map(|program| program.name.as_str()).collect();
            return Err(format!("there is no program `{name}`: {}", names.join(", ")));
        }
    }
    let wanted = |program: &Program| only.is_empty() || only.contains(&program.name);
    Ok(all.into_iter().filter(wanted).collect())
}

/// The variants that the drivers can build, and their kinds; what is left out goes to the notes.
fn possible(shop: &Shop, wanted: &[Variant], notes: &mut Vec<String>) -> (Vec<Variant>, Vec<Kind>) {
    let (mut variants, mut kinds) = (Vec::new(), Vec::new());
    for variant in wanted {
        if !kinds.contains(&variant.kind) {
            if let Err(reason) = shop.accepts(variant.kind) {
                notes.push(format!(
                    "{}: skipped, the driver says: {}",
                    variant.name,
                    reason.trim()
                ));
                continue;
            }
            kinds.push(variant.kind);
        }
        variants.push(variant.clone());
    }
    (variants, kinds)
}

/// Runs everything: for each program and each of its variants the runs, one a round.
///
/// # Errors
/// A program that fails, or prints something else than its first run did.
pub fn rounds(
    options: &Options,
    field: &[Vec<Contestant>],
    scratch: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Vec<Vec<Run>>>, String> {
    let mut order = Order(options.seed);
    let mut runs: Vec<Vec<Vec<Run>>> =
        field.iter().map(|contestants| vec![Vec::new(); contestants.len()]).collect();
    let mut expected: Vec<Option<String>> = vec![None; field.len()];
    for round in 1..=options.rounds {
        say(&format!("round {round} of {}", options.rounds));
        for at in order.of(field.len()) {
            for which in order.of(field[at].len()) {
                let Contestant { paths, variant } = &field[at][which];
                let path = &paths[(round - 1) as usize % paths.len()];
                let quantum = variant.quantum.as_deref();
                let run = measure::run(path, options.scale, quantum, scratch)?;
                let wanted = expected[at].get_or_insert_with(|| run.output.clone());
                if *wanted != run.output {
                    return Err(format!(
                        "{} ({}) printed {}, another run of that program {wanted}",
                        path.display(),
                        variant.name,
                        run.output
                    ));
                }
                runs[at][which].push(run);
            }
        }
    }
    Ok(runs)
}

/// Counts instructions, of every variant that is not armed: a clock means nothing under valgrind.
fn count(
    report: &mut Report,
    field: &[Vec<Contestant>],
    scale: f64,
    say: &mut dyn FnMut(&str),
) -> Result<(), String> {
    say(&format!("counting instructions at scale {scale}"));
    report.instruction_scale = Some(scale);
    for (program, contestants) in report.programs.iter_mut().zip(field) {
        let mut plain = f64::NAN;
        for (entry, contestant) in program.variants.iter_mut().zip(contestants) {
            if contestant.variant.quantum.is_some() {
                continue;
            }
            let instructions = measure::instructions(&contestant.paths[0], scale)?;
            if contestant.variant.kind == Kind::None {
                plain = instructions as f64;
            }
            entry.instructions = Some(instructions);
            entry.instruction_overhead = Some(instructions as f64 / plain - 1.0);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contestant(path: &str) -> Contestant {
        let variant = Variant { name: path.to_owned(), kind: Kind::None, quantum: None };
        Contestant { paths: vec![path.into()], variant }
    }

    fn options() -> Options {
        Options::read(["safepoint-suite", "--rounds", "2"]).unwrap()
    }

    #[test]
    fn orders_are_permutations_that_differ() {
        let mut order = Order(1);
        let orders: Vec<_> = (0..5).map(|_| order.of(9)).collect();
        for one in &orders {
            let mut sorted = one.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..9).collect::<Vec<_>>());
        }
        assert!(orders.iter().any(|one| *one != orders[0]));
    }

    #[test]
    fn every_variant_runs_every_round() {
        let scratch = tempfile::tempdir().unwrap();
        let field = [vec![contestant("/bin/echo"), contestant("/bin/echo")]];
        let runs = rounds(&options(), &field, scratch.path(), &mut |_| ()).unwrap();
        assert_eq!(runs[0].iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn another_output_ends_the_measurement() {
        let scratch = tempfile::tempdir().unwrap();
        let field = [vec![contestant("/bin/echo"), contestant("/bin/true")]];
        let error = rounds(&options(), &field, scratch.path(), &mut |_| ()).unwrap_err();
        assert!(error.contains("printed"), "{error}");
    }

    #[test]
    fn unknown_programs_are_named() {
        let all = catalogue::programs(&catalogue::home()).unwrap();
        assert!(chosen(all.clone(), &["nope".into()]).unwrap_err().contains("`nope`"));
        assert_eq!(chosen(all, &["lu".into()]).unwrap().len(), 1);
    }
}
