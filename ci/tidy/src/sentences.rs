//! First sentences of comments that document: each names its subject, so that it stands alone where
//! an editor or rustdoc shows it without its neighbours.

use crate::each_level;
use proc_macro2::{TokenStream, TokenTree};

/// Beginnings that point at what stands elsewhere.
const ELSEWHERE: &str =
    "the same|likewise|they|and|nor|if|that of|…|see above|see below|see there|see the";
/// Words that are no sentence of their own.
const ALONE: &str = "which|where|why|whose|whom|who|what|how|when|whether";
/// The header, which documents what C sees, is no module's head.
const HEADER: &str = "see the header";

/// The lines at which comments begin whose first sentence does not name its subject.
#[must_use]
pub fn unnamed(tokens: TokenStream) -> Vec<usize> {
    let mut found = Vec::new();
    each_level(tokens, &mut |level| {
        // Whether the mark just seen is `#!`, and the one of the comment's line before, if any.
        let (mut inner, mut before) = (false, None);
        for tree in level {
            match tree {
                TokenTree::Punct(mark) if mark.as_char() == '#' => inner = false,
                TokenTree::Punct(mark) if mark.as_char() == '!' => inner = true,
                TokenTree::Group(group) => {
                    let line = documentation(group.stream());
                    let is_first = before != Some(inner);
                    if is_first && line.as_ref().is_some_and(|line| is_unnamed(line)) {
                        found.push(group.span().start().line);
                    }
                    before = line.map(|_| inner);
                }
                _ => before = None,
            }
        }
    });
    found
}

/// A line of a comment that documents: what `doc = "…"` says.
fn documentation(attribute: TokenStream) -> Option<String> {
    let [TokenTree::Ident(doc), TokenTree::Punct(_), TokenTree::Literal(line)] =
        &attribute.into_iter().collect::<Vec<_>>()[..]
    else {
        return None;
    };
    (doc == "doc").then(|| line.to_string().trim_start_matches(['r', '#', '"', ' ']).to_lowercase())
}

fn is_unnamed(text: &str) -> bool {
    let begins = |list: &str, then: fn(char) -> bool| {
        list.split('|').any(|it| text.strip_prefix(it).is_some_and(|rest| rest.starts_with(then)))
    };
    !text.starts_with(HEADER)
        && (begins(ELSEWHERE, |c| !c.is_alphanumeric()) || begins(ALONE, |c| c == '.'))
}

#[cfg(test)]
mod tests {
    use super::unnamed;

    #[test]
    fn first_sentences_that_point_elsewhere_are_found() {
        let source = "//! See the crate's head.\n/// The same.\nfn a() {\n/// Which.\nlet b = 1; }\n\
                      /// They sleep.\nstruct C {\n/// … and not.\nd: u8 }";
        let mut lines = unnamed(source.parse().unwrap());
        lines.sort_unstable();
        assert_eq!(lines, [1, 2, 4, 6, 8]);
    }

    #[test]
    fn the_others_are_not() {
        let source = "//! Theirs.\n//! The same.\n\n/// Android.\n/// Which.\nfn a() {}\n\
                      /// Which way it goes.\nconst B: &str = \"/// See above.\"; /// See the header.\n\
                      fn c() {} // The same.\n/// Gives it.\n#[must_use] fn d() {}";
        assert_eq!(unnamed(source.parse().unwrap()), [0; 0]);
    }
}
