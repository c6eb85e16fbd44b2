//! What stands in cargo's command line for us to take out, or to know.

use crate::options::Kind;
use crate::verbs;
use std::path::PathBuf;
use std::process::Stdio;

/// What everything is built for.
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The target is ours to say; who says the same is right.
pub(crate) fn leave_out_target(words: &mut Vec<String>) -> Result<(), String> {
    while let Some(at) =
        words.iter().position(|word| word == "--target" || word.starts_with("--target="))
    {
        let inline = words.remove(at).strip_prefix("--target=").map(str::to_owned);
        let given = match inline {
            Some(given) => given,
            None if at < words.len() => words.remove(at),
            None => return Err("--target wants a value".into()),
        };
        if given != TARGET {
            return Err(format!("--target is not for you to choose: it is {TARGET}"));
        }
    }
    Ok(())
}

/// Our own directory, below the one that cargo would use: the wrapper is not in cargo's
/// fingerprints.
pub(crate) fn target_directory(words: &mut Vec<String>, kind: Kind) -> Result<PathBuf, String> {
    if let Some(at) = words.iter().position(|word| word == "--target-dir") {
        if at + 1 >= words.len() {
            return Err("--target-dir wants a value".into());
        }
        let value = words.remove(at + 1);
        words.remove(at);
        return Ok(PathBuf::from(value));
    }
    if let Some(at) = words.iter().position(|word| word.starts_with("--target-dir=")) {
        return Ok(PathBuf::from(&words.remove(at)["--target-dir=".len()..]));
    }
    let manifest = words.iter().position(|word| word == "--manifest-path").map(|at| at + 1);
    let manifest = manifest.and_then(|at| words.get(at)).cloned().or_else(|| {
        let inline = words.iter().find_map(|word| word.strip_prefix("--manifest-path="));
        inline.map(str::to_owned)
    });
    let name = if kind == Kind::None { "curtail-none" } else { "curtail" };
    Ok(cargo_target(manifest.as_deref())?.join(name))
}

fn cargo_target(manifest: Option<&str>) -> Result<PathBuf, String> {
    let mut command = verbs::cargo();
    command.args(["metadata", "--no-deps", "--format-version=1"]);
    command.args(manifest.iter().flat_map(|path| ["--manifest-path", path]));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    string_field(&text, "target_directory")
        .map(PathBuf::from)
        .ok_or_else(|| "cargo metadata names no target directory".into())
}

/// The profiles in which link-time optimisation is off. It is the linker's business here: cargo's own
/// would pull in the standard library's bitcode, or fight with it.
pub(crate) fn profiles(verb: &str, words: &[String]) -> Vec<String> {
    // nextest has profiles of its own by that name.
    let option = if verb == "nextest" { "--cargo-profile" } else { "--profile" };
    let named = words.iter().position(|word| word == option).and_then(|at| words.get(at + 1));
    let inline = words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('='));
    let mut profiles = vec!["dev", "release", "test", "bench"];
    profiles.extend(named.map(String::as_str).or(inline));
    profiles.sort_unstable();
    profiles.dedup();
    profiles.into_iter().map(str::to_owned).collect()
}

/// A string field of JSON text that cargo wrote (compact, and the name occurs as a key only).
pub(crate) fn string_field(text: &str, name: &str) -> Option<String> {
    let key = format!("\"{name}\":\"");
    let mut rest = text[text.find(&key)? + key.len()..].chars();
    let mut value = String::new();
    loop {
        match rest.next()? {
            '"' => return Some(value),
            '\\' => match rest.next()? {
                'u' => {
                    let digits: String = rest.by_ref().take(4).collect();
                    value.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                'n' => value.push('\n'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_profiles_are_told_too() {
        let fast = "fast".to_owned();
        let words = ["--profile", "fast"].map(str::to_owned);
        assert!(profiles("build", &words).contains(&fast));
        let words = ["--profile", "all", "--cargo-profile=fast"].map(str::to_owned);
        let found = profiles("nextest", &words);
        assert!(found.contains(&fast) && !found.contains(&"all".to_owned()));
    }

    #[test]
    fn only_another_target_is_refused() {
        let left = |text: &str| {
            let mut words: Vec<_> = text.split(' ').map(str::to_owned).collect();
            leave_out_target(&mut words).map(|()| words.join(" "))
        };
        assert_eq!(left("build --target x86_64-unknown-linux-gnu -q").as_deref(), Ok("build -q"));
        assert_eq!(left("build --target=x86_64-unknown-linux-gnu").as_deref(), Ok("build"));
        assert!(left("build --target wasm32-wasip1").is_err());
        assert!(left("build --target").is_err());
    }

    #[test]
    fn takes_the_target_directory_it_is_given() {
        let mut words = ["build", "--target-dir", "/t", "-q"].map(str::to_owned).to_vec();
        assert_eq!(target_directory(&mut words, Kind::Clock), Ok(PathBuf::from("/t")));
        assert_eq!(words, ["build", "-q"]);
    }
}
