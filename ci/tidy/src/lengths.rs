//! How long a file and a function may be, and other figures with a limit. What is above it stands in
//! `exceptions.txt` as it is; an entry may shrink, never grow, and goes when it is not needed any more.

use crate::each_level;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;

/// Lines of a source file.
pub const FILE_LIMIT: usize = 400;
/// Lines of a function, from `fn` to the last brace.
pub const FUNCTION_LIMIT: usize = 70;

/// Methods of a type in Rust, members of a class in C++.
pub const MEMBER_LIMIT: usize = 40;
/// Paragraphs of a file that are too long (`prose`).
pub const PARAGRAPH_LIMIT: usize = 0;
/// Modules at the top of a crate that lie on a circle.
pub const CIRCLE_LIMIT: usize = 0;

/// A figure with a limit.
pub struct Size {
    /// Of what.
    pub name: String,
    /// How many.
    pub count: usize,
    /// How many are enough.
    pub limit: usize,
    /// Of what it is a number.
    pub unit: String,
}

/// What is counted line by line.
pub const SOURCE: &[&str] = &["c", "cc", "cpp", "css", "go", "h", "js", "py", "rs", "sh", "S"];

/// The functions of a Rust file with their lengths in lines, in the order of their beginnings.
#[must_use]
pub fn functions(tokens: &TokenStream) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    each_level(tokens.clone(), &mut |level| {
        for (at, pair) in level.windows(2).enumerate() {
            let [TokenTree::Ident(keyword), TokenTree::Ident(name)] = pair else { continue };
            if keyword != "fn" {
                continue;
            }
            // The body is the first brace before the next semicolon, if there is one.
            let end = level[at..].iter().find(|tree| match tree {
                TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                TokenTree::Punct(punct) => punct.as_char() == ';',
                _ => false,
            });
            if let Some(TokenTree::Group(body)) = end {
                let first = keyword.span().start().line;
                found.push((first, name.to_string(), body.span_close().end().line - first + 1));
            }
        }
    });
    found.sort();
    found.into_iter().map(|(_, name, lines)| (name, lines)).collect()
}

/// The exceptions: `name number`, one a line, `#` for comments. The name of a function is
/// `path::function`.
///
/// # Errors
/// A line that is none of these.
pub fn parse(exceptions: &str) -> Result<BTreeMap<String, usize>, String> {
    let lines = exceptions.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, count) = line.rsplit_once(' ').ok_or(format!("exceptions: {line}?"))?;
            let count = count.parse().map_err(|error| format!("exceptions: {line}: {error}"))?;
            Ok((name.to_owned(), count))
        })
        .collect()
}

/// Complaints about `sizes`, given the exceptions.
#[must_use]
pub fn check(sizes: &[Size], mut exceptions: BTreeMap<String, usize>) -> Vec<String> {
    let mut complaints = Vec::new();
    // Functions of one name in one file share an entry: the longest counts.
    let mut largest = BTreeMap::<&str, (usize, &Size)>::new();
    for size in sizes {
        let entry = largest.entry(&size.name).or_insert((size.count, size));
        entry.0 = entry.0.max(size.count);
    }
    for (name, (count, Size { limit, unit, .. })) in largest {
        match exceptions.remove(name) {
            None if count > *limit => {
                complaints.push(format!("{name} has {count} {unit}, {limit} are enough"));
            }
            Some(_) if count <= *limit => {
                complaints.push(format!("{name} has {count} {unit}: strike its exception"));
            }
            Some(most) if count > most => {
                complaints.push(format!("{name} has grown from {most} to {count} {unit}"));
            }
            Some(most) if count + count / 10 < most => {
                complaints.push(format!("{name} has {count} {unit}: lower its exception"));
            }
            _ => {}
        }
    }
    complaints
        .extend(exceptions.keys().map(|name| format!("{name} is gone: strike its exception")));
    complaints
}

#[cfg(test)]
mod tests {
    use super::{Size, check, functions, parse};

    fn size(name: &str, count: usize, limit: usize) -> Size {
        Size { name: name.to_owned(), count, limit, unit: "lines".to_owned() }
    }

    fn complaints(lines: usize, exceptions: &str) -> Vec<String> {
        check(&[size("a.rs", lines, 100)], parse(exceptions).unwrap())
    }

    #[test]
    fn too_long_is_found() {
        assert_eq!(complaints(100, ""), [""; 0]);
        assert_eq!(complaints(101, ""), ["a.rs has 101 lines, 100 are enough"]);
    }

    #[test]
    fn exceptions_only_shrink() {
        assert_eq!(complaints(130, "# why\n\na.rs 130\n"), [""; 0]);
        assert_eq!(complaints(125, "a.rs 130"), [""; 0]);
        assert_eq!(complaints(131, "a.rs 130"), ["a.rs has grown from 130 to 131 lines"]);
        assert_eq!(complaints(110, "a.rs 130"), ["a.rs has 110 lines: lower its exception"]);
        assert_eq!(complaints(100, "a.rs 130"), ["a.rs has 100 lines: strike its exception"]);
        assert_eq!(complaints(1, "b.rs 130"), ["b.rs is gone: strike its exception"]);
        assert!(parse("a.rs").is_err() && parse("a.rs many").is_err());
    }

    #[test]
    fn functions_are_measured() {
        let source = "trait T {\n fn declared(&self) -> [u8; 3];\n fn given(&self) {\n }\n}\n\
                      const F: fn(u8) = g;\n\
                      pub fn outer<T>(x: T)\nwhere\n T: Copy,\n{\n fn inner() { /* } */ }\n}\n";
        let expected = [("given", 2), ("outer", 6), ("inner", 1)];
        let expected = expected.map(|(name, lines)| (name.to_owned(), lines));
        assert_eq!(functions(&crate::tokens("a.rs", source).unwrap()), expected);
        assert!(crate::tokens("a.rs", "fn (").is_err());
    }

    #[test]
    fn of_two_with_one_name_the_longest_counts() {
        let sizes = [size("a.rs::new", 90, 70), size("a.rs::new", 5, 70)];
        assert_eq!(check(&sizes, parse("").unwrap()).len(), 1);
        assert_eq!(check(&sizes, parse("a.rs::new 90").unwrap()).len(), 0);
    }
}
