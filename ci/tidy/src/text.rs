//! What no file may say: paths of one machine, and promises instead of code.

/// Spelt in halves, as this file is read too.
const PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
const MARKERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
];

/// Complaints about one file.
#[must_use]
pub fn check(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        for needle in PATHS.iter().filter(|needle| names_path(line, needle)) {
            complaints.push(format!("{path}:{number}: names {needle}…, a path of one machine"));
        }
        for needle in MARKERS.iter().filter(|needle| is_word(line, needle)) {
            complaints.push(format!("{path}:{number}: says {needle}: do it or leave it"));
        }
    }
    complaints
}

/// `needle` at the beginning of a path, not in the middle of a longer one.
fn names_path(line: &str, needle: &str) -> bool {
    let mut starts = line.match_indices(needle).map(|(at, _)| at);
    starts.any(|at| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}/)".contains(c)))
}

/// `needle`, and not as a part of a longer word.
fn is_word(line: &str, needle: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(needle)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + needle.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn machine_paths_are_found() {
        for needle in super::PATHS {
            assert_eq!(check("f", &format!("ok\nsee {needle}x")).len(), 1);
            assert_eq!(check("f", &format!("\"{needle}x\"")).len(), 1);
            assert!(check("f", &format!("src{needle}x and $out{needle}y")).is_empty());
            assert!(check("f", &format!("https://example.org{needle}x")).is_empty());
        }
    }

    #[test]
    fn promises_are_found() {
        for needle in super::MARKERS {
            let complaints = check("f", &format!("a\nb // {needle} later"));
            assert!(complaints[0].starts_with("f:2: says"), "{complaints:?}");
        }
        assert_eq!(check("f", "mktemp -d /tmp/a.XXXXXX; let todos = 1;"), [""; 0]);
    }
}
