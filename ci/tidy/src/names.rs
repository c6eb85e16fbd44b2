//! Names of types: one that stands twice in a crate says what it is only with its path, and some say
//! nothing of the field's.

use crate::each_level;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;

/// How many names a crate may have that stand for several types of its own.
pub const TWICE_LIMIT: usize = 0;

/// Names that were given up for the field's own.
const BANNED: [(&str, &str); 18] = [
    ("Desk", "Ingress"),
    ("Front", "IngressLoop"),
    ("Post", "WorkerContext"),
    ("Account", "ByteQuota"),
    ("Porter", "AcceptLoop"),
    ("Surroundings", "ServerShared"),
    ("Wishes", "WorkerSignals"),
    ("Parcel", "ForwardedRequest"),
    ("Crew", "KthreadPool"),
    ("Late", "Task"),
    ("Duty", "TaskVtable"),
    ("Doze", "EventCount"),
    ("Absence", "BiasedLock"),
    ("Ebb", "PeakTrim"),
    ("Mind", "AutoState"),
    ("Aims", "ServiceEstimate"),
    ("Wish", "AllocatorConfig"),
    ("Lived", "KthreadReport"),
];

/// The types that a file declares.
#[must_use]
pub fn types(tokens: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    each_level(tokens, &mut |level| {
        for pair in level.windows(2) {
            if let [TokenTree::Ident(keyword), TokenTree::Ident(name)] = pair
                && ["struct", "enum", "union", "trait"].iter().any(|word| keyword == word)
            {
                found.push(name.to_string());
            }
        }
    });
    found
}

/// Complaints about a file's types.
#[must_use]
pub fn check(path: &str, types: &[String]) -> Vec<String> {
    let banned = |name: &String| BANNED.iter().find(|(banned, _)| banned == name);
    let complaint = |(name, say): &(&str, &str)| format!("{path}: {name}: say {say}, or the like");
    types.iter().filter_map(banned).map(complaint).collect()
}

/// The names that stand more than once.
#[must_use]
pub fn twice(types: &[String]) -> Vec<&str> {
    let mut counts = BTreeMap::<&str, usize>::new();
    types.iter().for_each(|name| *counts.entry(name).or_default() += 1);
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_found_at_every_depth() {
        let source = "pub struct A; enum B { C } fn f() { struct D(u8); } mod m { trait A {} }\n\
                      type E = u8; // struct F";
        let types = types(source.parse().unwrap());
        assert_eq!(types, ["A", "B", "D", "A"]);
        assert_eq!(twice(&types), ["A"]);
    }

    #[test]
    fn banned_names_are_complained_of() {
        let types = ["Desktop".to_owned(), "Desk".to_owned()];
        assert_eq!(check("a.rs", &types), ["a.rs: Desk: say Ingress, or the like"]);
    }
}
