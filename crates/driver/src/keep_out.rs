//! The file of `--keep-out`: names and globs of functions that get no safepoint, one a line, `#`
//! begins a comment. The pass reads it, and so does the verifier; the drivers look at it first, so
//! that a mistake is reported with its line and not somewhere in a linker's output.

use std::hash::Hasher;
use std::path::Path;

/// The names and globs of a list.
///
/// # Errors
/// The file cannot be read, or a line of it is no glob: which, and why.
pub fn read(file: &Path) -> Result<Vec<String>, String> {
    parse(&text(file)?).map_err(|reason| format!("--keep-out {}: {reason}", file.display()))
}

fn parse(text: &str) -> Result<Vec<String>, String> {
    if text.starts_with('\u{feff}') {
        // The pass would take it for a part of the name.
        return Err("line 1: a byte-order mark: save it without".to_owned());
    }
    let mut globs = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let glob = line.split('#').next().unwrap_or("").trim();
        check_glob(glob).map_err(|reason| format!("line {}: {reason}: {glob}", at + 1))?;
        globs.extend((!glob.is_empty()).then(|| glob.to_owned()));
    }
    Ok(globs)
}

fn text(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("--keep-out {}: {error}", file.display()))
}

/// What changes when the list does.
///
/// # Errors
/// The file cannot be read.
pub fn fingerprint(file: &Path) -> Result<u64, String> {
    // SipHash with fixed keys: the same on every run.
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(text(file)?.as_bytes());
    Ok(hasher.finish())
}

/// As LLVM's glob patterns are: `*`, `?`, `[a-z]`, `\` in front of what is meant literally.
fn check_glob(glob: &str) -> Result<(), &'static str> {
    if glob.chars().any(char::is_control) {
        return Err("a control character in a name");
    }
    let bytes = glob.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if at + 1 == bytes.len() => return Err("nothing behind the backslash"),
            b'\\' => at += 1,
            // A bracket right behind the opening one belongs to the set.
            b'[' => match bytes.iter().skip(at + 2).position(|&byte| byte == b']') {
                Some(length) => at += 2 + length,
                None => return Err("a [ without its ] (write \\[ for a literal one)"),
            },
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_checked() {
        for fine in ["", "main", "ns::*", "a[bc]?", "a[^b]", r"operator\[\](int)", "<[u8] as T>::f"]
        {
            assert_eq!(check_glob(fine), Ok(()), "{fine}");
        }
        for bad in ["a[b", "operator[]", r"a\", "a\u{7}b"] {
            assert!(check_glob(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_line_is_named_and_changes_are_seen() {
        let file = std::env::temp_dir().join(format!("curtail-keep-out-{}", std::process::id()));
        std::fs::write(&file, "# fine\nmain # too\n\nx[y\n").unwrap();
        let (found, first) = (read(&file), fingerprint(&file).unwrap());
        std::fs::write(&file, "# all\nmain # one\n\n ns::* \n").unwrap();
        let (again, second) = (read(&file), fingerprint(&file).unwrap());
        std::fs::remove_file(&file).unwrap();
        let reason = found.unwrap_err();
        assert!(reason.contains("line 4") && reason.contains("x[y"), "{reason}");
        assert_eq!(again, Ok(vec!["main".to_owned(), "ns::*".to_owned()]));
        assert_ne!(first, second);
        let marked = parse("\u{feff}main\n").unwrap_err();
        assert!(marked.contains("line 1: a byte-order mark"), "{marked}");
        assert!(fingerprint(&file).is_err());
    }
}
