//! How many methods a type of Rust has, in all `impl`s that are of no trait, in the file that it is
//! from and those below.

use crate::each_level;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The types of a file that have methods of their own, with how many, once for each `impl`.
#[must_use]
pub fn methods(tokens: TokenStream) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    each_level(tokens, &mut |level| {
        let begins = level.iter().enumerate();
        for (at, _) in begins.filter(|(_, tree)| matches!(tree, TokenTree::Ident(i) if i == "impl"))
        {
            found.extend(inherent(&level[at + 1..]));
        }
    });
    found
}

/// The types of a tree with their methods, given each file's path and [`methods`]. Types of one name
/// are one if a file of the one lies below that of the other.
#[must_use]
pub fn by_type(files: &[(String, Vec<(String, usize)>)]) -> Vec<(String, usize)> {
    let mut found = Vec::<(String, String, usize)>::new();
    let mut all: Vec<_> = files
        .iter()
        .flat_map(|(path, types)| {
            let stem = path.trim_end_matches(".rs").trim_end_matches("/mod");
            types.iter().map(move |(name, count)| (name, stem, count))
        })
        .collect();
    all.sort();
    for (name, stem, count) in all {
        match found.last_mut() {
            Some((of, top, sum))
                if of == name && format!("{stem}/").starts_with(&format!("{top}/")) =>
            {
                *sum += count;
            }
            _ => found.push((name.clone(), stem.to_owned(), *count)),
        }
    }
    found.into_iter().map(|(name, stem, count)| (format!("{stem}.rs: {name}"), count)).collect()
}

/// What stands behind `impl`: the type and its methods, unless it is of a trait.
fn inherent(mut rest: &[TokenTree]) -> Option<(String, usize)> {
    let is = |tree: &TokenTree, c: char| matches!(tree, TokenTree::Punct(p) if p.as_char() == c);
    if rest.first().is_some_and(|tree| is(tree, '<')) {
        let mut depth = 0;
        let end = rest.iter().position(|tree| {
            depth += i32::from(is(tree, '<')) - i32::from(is(tree, '>'));
            depth == 0
        })?;
        rest = &rest[end + 1..];
    }
    let mut name = String::new();
    for tree in rest {
        match tree {
            TokenTree::Ident(word) if word == "for" => return None,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let body: Vec<_> = group.stream().into_iter().collect();
                let is_method = |pair: &&[TokenTree]| matches!(pair, [TokenTree::Ident(word), TokenTree::Ident(_)] if word == "fn");
                return Some((name, body.windows(2).filter(is_method).count()));
            }
            TokenTree::Punct(punct) if ",;=".contains(punct.as_char()) => return None,
            TokenTree::Ident(word) if name.is_empty() || !rest_is_generic(rest, word) => {
                name = word.to_string();
            }
            _ => {}
        }
    }
    None
}

/// Whether `word` stands behind the type's `<` or `where`.
fn rest_is_generic(rest: &[TokenTree], word: &proc_macro2::Ident) -> bool {
    let ends = |tree: &&TokenTree| {
        !matches!(tree, TokenTree::Punct(p) if p.as_char() == '<')
            && !matches!(tree, TokenTree::Ident(i) if i == "where")
    };
    !rest.iter().take_while(ends).any(|tree| matches!(tree, TokenTree::Ident(i) if i == word))
}

#[cfg(test)]
mod tests {
    use super::{by_type, methods};

    #[test]
    fn methods_of_a_type_are_counted() {
        let source = "impl<T: Into<u8>> a::Ring<T> where T: Copy { fn new() {} pub fn len(&self) {} }\n\
                      impl Clone for Ring<u8> { fn clone(&self) {} }\n\
                      fn f(x: impl Fn(u8), y: fn(u8)) -> u8 { impl Job { const fn id() {} } 1 }";
        let found = methods(source.parse().unwrap());
        assert_eq!(found, [("Ring".to_owned(), 2), ("Job".to_owned(), 1)]);
    }

    #[test]
    fn the_files_of_a_type_are_summed() {
        let file = |path: &str, name: &str| (path.to_owned(), vec![(name.to_owned(), 2)]);
        let files =
            [file("a.rs", "T"), file("a/b.rs", "T"), file("ab/mod.rs", "T"), file("a/c.rs", "U")];
        let expected = [("a.rs: T", 4), ("ab.rs: T", 2), ("a/c.rs: U", 2)];
        assert_eq!(by_type(&files), expected.map(|(name, count)| (name.to_owned(), count)));
    }
}
