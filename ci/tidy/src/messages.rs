//! The messages that the book explains are those that the sources have, and the other way round.
//!
//! A page names a message as code in the first cell of a table headed "message". What varies in it is
//! written `…`; the constant parts are looked for in the sources' strings.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Stands for what varies.
const HOLE: char = '…';
/// Characters that a constant part needs, to tell one message from others.
const LEAST: usize = 5;

/// One message of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// Its line there.
    pub line: usize,
    /// What it says.
    pub text: String,
}

/// The messages that a Markdown page explains.
#[must_use]
pub fn documented(markdown: &str) -> Vec<Message> {
    let mut found = Vec::new();
    let mut inside = false;
    for (number, line) in markdown.lines().enumerate() {
        let Some(row) = line.strip_prefix('|') else {
            inside = false;
            continue;
        };
        let cell = row.split('|').next().unwrap_or_default();
        if cell.trim() == "message" {
            inside = true;
        } else if inside {
            let codes = codes(cell).into_iter();
            found.extend(codes.map(|text| Message { line: number + 1, text }));
        }
    }
    found
}

/// What stands between equal numbers of backticks.
fn codes(cell: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = cell;
    while let Some(at) = rest.find('`') {
        let opened = &rest[at..];
        let ticks = opened.len() - opened.trim_start_matches('`').len();
        let fence = &opened[..ticks];
        let Some((code, after)) = opened[ticks..].split_once(fence) else { break };
        found.push(code.trim().to_owned());
        rest = after;
    }
    found
}

/// The constant parts of a message that are long enough.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(HOLE).map(str::trim).filter(|part| part.chars().count() >= LEAST)
}

/// The strings of a Rust source, `…` in place of what is formatted into them. Those of tests and of
/// documentation are left out.
#[must_use]
pub fn strings(stream: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    walk(stream, &mut |level| {
        found.extend(level.iter().filter_map(string));
    });
    found
}

/// What a source says by `warn!`, by `error!`, and in the `#[error("…")]` of its types.
#[must_use]
pub fn said(stream: TokenStream) -> Vec<String> {
    let mut found = Vec::new();
    walk(stream, &mut |level| {
        for (at, tree) in level.iter().enumerate() {
            let TokenTree::Ident(name) = tree else { continue };
            let [is_warn, is_error] = ["warn", "error"].map(|word| name == word);
            let called =
                matches!(level.get(at + 1), Some(TokenTree::Punct(p)) if p.as_char() == '!');
            // An attribute's words are alone in their brackets.
            let attribute = is_error && at == 0 && level.len() == 2;
            let group = level.get(at + if called { 2 } else { 1 });
            if let Some(TokenTree::Group(group)) = group
                && ((is_warn || is_error) && called || attribute)
            {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                let text = if called {
                    inside.iter().rev().find_map(string)
                } else {
                    inside.first().and_then(string)
                };
                found.extend(text);
            }
        }
    });
    found
}

/// Calls `visit` with each level of tokens; modules of tests and documentation are passed over.
fn walk(stream: TokenStream, visit: &mut impl FnMut(&[TokenTree])) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    visit(&trees);
    for (at, tree) in trees.iter().enumerate() {
        let TokenTree::Group(group) = tree else { continue };
        let before = |back: usize, word: &str| {
            at.checked_sub(back).is_some_and(|at| trees[at].to_string() == word)
        };
        let is_test = before(1, "tests") && before(2, "mod");
        let is_doc = group.delimiter() == Delimiter::Bracket
            && (before(1, "#") || before(1, "!") && before(2, "#"))
            && group.stream().into_iter().next().is_some_and(|word| word.to_string() == "doc");
        if !is_test && !is_doc {
            walk(group.stream(), visit);
        }
    }
}

/// The value of a string, with `…` in place of what is formatted into it.
fn string(tree: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = tree else { return None };
    let source = literal.to_string();
    let inside = source.strip_prefix('"')?.strip_suffix('"')?;
    let mut value = String::new();
    let mut rest = inside.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter != '\\' {
            value.push(letter);
            continue;
        }
        match rest.next() {
            Some('\n') => while rest.next_if(|it| it.is_whitespace()).is_some() {},
            Some('n') => value.push('\n'),
            Some('u') => {
                let digits: String = rest.by_ref().skip(1).take_while(|it| *it != '}').collect();
                value.extend(u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32));
            }
            other => value.extend(other),
        }
    }
    Some(with_holes(&value))
}

/// A format with `…` in place of each `{…}`.
fn with_holes(format: &str) -> String {
    let mut text = String::new();
    let mut rest = format.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '{' | '}' if rest.next_if_eq(&letter).is_some() => text.push(letter),
            '{' => {
                rest.by_ref().find(|it| *it == '}');
                text.push(HOLE);
            }
            _ => text.push(letter),
        }
    }
    text
}

/// Complaints about messages of a page that no source has: all constant parts are to be in strings of
/// one file.
#[must_use]
pub fn check_exist(page: &str, messages: &[Message], sources: &[Vec<String>]) -> Vec<String> {
    let is_said = |message: &Message| {
        parts(&message.text).next().is_some()
            && sources.iter().any(|strings| {
                parts(&message.text).all(|part| strings.iter().any(|it| it.contains(part)))
            })
    };
    let gone = messages.iter().filter(|message| !is_said(message));
    gone.map(|it| format!("{page}:{}: no source says `{}`", it.line, it.text)).collect()
}

/// Complaints about what a source says and no page explains. The longest constant part counts.
#[must_use]
pub fn check_explained(path: &str, said: &[String], messages: &[Message]) -> Vec<String> {
    let longest = |text: &str| parts(text).max_by_key(|part| part.len()).map(str::to_owned);
    let unexplained = said.iter().filter(|text| {
        longest(text).is_some_and(|part| {
            !messages.iter().any(|message| {
                message.text.contains(&part)
                    || longest(&message.text).is_some_and(|short| text.contains(&short))
            })
        })
    });
    unexplained.map(|text| format!("{path}: no page explains `{text}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::{Message, check_exist, check_explained, documented, said, strings};

    const SOURCE: &str = r#"
        //! "not this one"
        /// Nor this "one here".
        #[derive(Error)]
        #[error("no room for {count} {{more}}: {0:?}")]
        struct Full;
        fn f() {
            tracing::warn!(target: "a::target", %error, "it is \
                late");
            println!("as \"text\"");
            error!(%error);
        }
        mod tests { fn g() { warn!("only tried"); } }
    "#;

    fn messages(texts: &[&str]) -> Vec<Message> {
        let message = |text: &&str| Message { line: 1, text: (*text).to_owned() };
        texts.iter().map(message).collect()
    }

    #[test]
    fn first_cells_of_tables_of_messages_are_read() {
        let page = "| message | cause |\n|---|---|\n| `a … b`, ``c `d` e`` | `f` |\n\n| other | |\n\
                    |---|---|\n| `g` | |\n";
        let texts: Vec<String> = documented(page).into_iter().map(|it| it.text).collect();
        assert_eq!(texts, ["a … b", "c `d` e"]);
    }

    #[test]
    fn strings_are_those_that_run() {
        let strings = strings(SOURCE.parse().unwrap());
        let all = ["no room for … {more}: …", "a::target", "it is late", "as \"text\""];
        assert!(all.iter().all(|text| strings.iter().any(|it| it == text)), "{strings:?}");
        assert!(
            !strings.iter().any(|it| it.contains("one") || it.contains("tried")),
            "{strings:?}"
        );
    }

    #[test]
    fn what_is_said_is_known() {
        let said = said(SOURCE.parse().unwrap());
        assert_eq!(said, ["no room for … {more}: …", "it is late"]);
    }

    #[test]
    fn what_no_source_says_is_found() {
        let sources = [vec!["no room for … {more}: …".to_owned()], vec!["it is late".to_owned()]];
        let there = messages(&["no room for … {more}", "it is late"]);
        assert!(check_exist("a.md", &there, &sources).is_empty());
        let gone = messages(&["no room for any", "…", "no room for … is late"]);
        assert_eq!(check_exist("a.md", &gone, &sources).len(), 3);
    }

    #[test]
    fn what_no_page_explains_is_found() {
        let texts = ["no room for … more", "it is late", "…"].map(str::to_owned);
        let pages = messages(&["no room for"]);
        let complaints = check_explained("a.rs", &texts, &pages);
        assert_eq!(complaints, ["a.rs: no page explains `it is late`"]);
    }
}
