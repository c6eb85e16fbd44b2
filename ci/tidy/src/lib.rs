//! The house's rules, as tests over the tree (`cargo test -p curtail-tidy`; `tests/house.rs` applies
//! them). Each rule is a function from text to complaints, tried on made-up input beside it.
#![forbid(unsafe_code)]

pub mod arrows;
pub mod circles;
pub mod cpp;
pub mod dead;
pub mod lengths;
pub mod links;
pub mod members;
pub mod messages;
pub mod names;
pub mod prose;
pub mod sentences;
pub mod text;
pub mod tree;
pub mod unsafety;

use proc_macro2::{TokenStream, TokenTree};

/// Rust source as tokens: comments and the insides of strings are gone.
///
/// # Errors
/// Where it does not even lex.
pub fn tokens(path: &str, source: &str) -> Result<TokenStream, String> {
    source.parse().map_err(|error| format!("{path}: {error}"))
}

/// Calls `visit` with the tokens of each level, from outside to inside.
fn each_level(stream: TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    visit(&trees);
    for tree in trees {
        if let TokenTree::Group(group) = tree {
            each_level(group.stream(), visit);
        }
    }
}
