//! Functions and classes of C and C++, as clang-format lays them out: what is defined begins in the
//! first column of its level (0; 2 within a class), and its brace closes in that column.

/// What a file defines.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Functions and methods with their lines, from the first of the head to the last brace.
    pub functions: Vec<(String, usize)>,
    /// Classes and structures with the number of their members.
    pub classes: Vec<(String, usize)>,
}

/// What a level's brace has opened.
struct Open {
    /// None: an enumeration, an initialiser.
    function: Option<String>,
    first: usize,
    close: &'static str,
}

/// The functions and classes of a file.
#[must_use]
pub fn scan(source: &str) -> Found {
    let mut found = Found::default();
    let (mut class, mut head, mut open) = (None::<(String, usize)>, None::<(usize, String)>, None);
    let mut comment = false;
    for (number, line) in source.lines().enumerate() {
        if let Some(Open { function, first, close }) = &open {
            if line.starts_with(close) {
                found.functions.extend(function.clone().map(|name| (name, number - first + 1)));
                open = None;
            }
            continue;
        }
        let text = line.split(" //").next().unwrap_or_default().trim();
        comment |= text.starts_with("/*");
        let skipped = comment || text.is_empty() || text.starts_with(['#', '/', '*']);
        comment &= !text.contains("*/");
        if skipped {
            continue;
        }
        let (indent, close) = if class.is_some() { (2, "  }") } else { (0, "}") };
        if line.starts_with("};") {
            found.classes.extend(class.take());
            continue;
        }
        // A head begins at its level's column; the lines that it goes on for may begin anywhere.
        if head.is_none() && line.len() - line.trim_start().len() != indent {
            continue;
        }
        let (first, mut said) = head.take().unwrap_or((number, String::new()));
        said = format!("{said} {text}");
        let braced = text.ends_with(['{', '}']);
        let member = class.as_mut().map(|(_, members)| members);
        match (braced, text.ends_with(';')) {
            (false, false) => head = Some((first, said)),
            (_, true) => drop(member.map(|members| *members += 1)),
            _ if said.starts_with(" namespace") || said.starts_with(" extern \"C\" {") => {}
            _ => {
                if let Some(members) = member {
                    *members += 1;
                } else if let Some(name) = class_name(&said).filter(|_| text.ends_with('{')) {
                    class = Some((name, 0));
                    continue;
                }
                let function = function_name(&said);
                if text.ends_with('{') {
                    open = Some(Open { function, first, close });
                } else {
                    found.functions.extend(function.map(|name| (name, number - first + 1)));
                }
            }
        }
    }
    found
}

fn class_name(head: &str) -> Option<String> {
    let mut words = head.split_whitespace().skip_while(|word| !matches!(*word, "class" | "struct"));
    let is_class = !head.contains('(') && !head.contains('=') && !head.starts_with(" enum");
    words.nth(1).filter(|_| is_class).map(str::to_owned)
}

fn function_name(head: &str) -> Option<String> {
    // What stands before the list of parameters; an attribute's parentheses are none.
    let head = head.rsplit_once("))) ").map_or(head, |(_, rest)| rest);
    let head = head
        .rsplit_once("__attribute__((")
        .map_or(head, |(_, rest)| rest.split_once(")) ").map_or(rest, |(_, rest)| rest));
    let (before, _) = head.split_once('(')?;
    let name = before.rsplit([' ', '*', '&']).next()?;
    (!name.is_empty() && !before.contains(" = ")).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Found, scan};

    #[test]
    fn functions_and_members_are_counted() {
        let source = "#include <x.h>\n/* f() {\n*/\nnamespace curtail {\n\n\
            enum class Kind { A,\n B };\nstatic const int Table[] = {\n  1,\n};\n\
            class Facts : public Base {\npublic:\n  explicit Facts(int A);\n  // A comment.\n\
            \x20 bool has(const Loop &L,\n           int B) const {\n    return true;\n  }\n\
            \x20 int size() const { return 1; }\n\nprivate:\n  int A = 0;\n};\n\n\
            static unsigned long\nFacts::longest(int A,\n    int B) {\n  if (A) {\n    B();\n  }\n}\n\
            __attribute__((noinline)) void *cold(int x) { return 0; }\n}\n";
        let functions = [("has", 4), ("size", 1), ("Facts::longest", 7), ("cold", 1)];
        let functions = functions.map(|(name, lines)| (name.to_owned(), lines)).to_vec();
        assert_eq!(scan(source), Found { functions, classes: vec![("Facts".to_owned(), 4)] });
    }
}
