//! Texts with places for keys and values.

/// A text in which `{key}`, `{key:16}` and `{value}` are places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    /// A key in so many digits at least: zeros stand before it.
    Key(u8),
    Value,
}

impl Template {
    pub(super) fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut from = 0;
        while let Some(at) = rest[from..].find('{').map(|at| from + at) {
            let Some((part, length)) = place(&rest[at..]) else {
                from = at + 1;
                continue;
            };
            parts.extend((at > 0).then(|| Part::Text(rest.as_bytes()[..at].to_vec())));
            parts.push(part);
            (rest, from) = (&rest[at + length..], 0);
        }
        parts.extend((!rest.is_empty()).then(|| Part::Text(rest.as_bytes().to_vec())));
        Self(parts)
    }

    /// Adds the text with that key and value to `out`.
    pub(super) fn write(&self, key: u32, value: &[u8], out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Key(digits) => {
                    let key = key.to_string();
                    let zeros = usize::from(*digits).saturating_sub(key.len());
                    out.extend(std::iter::repeat_n(b'0', zeros));
                    out.extend_from_slice(key.as_bytes());
                }
                Part::Value => out.extend_from_slice(value),
            }
        }
    }
}

/// The place with which the text begins, and its length; `None`: it begins with none.
fn place(text: &str) -> Option<(Part, usize)> {
    let inside = &text[1..text.find('}')?];
    let part = match inside {
        "key" => Part::Key(0),
        "value" => Part::Value,
        _ => Part::Key(inside.strip_prefix("key:")?.parse().ok()?),
    };
    Some((part, inside.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_all_else_is_text() {
        for (text, filled) in [
            ("", ""),
            ("{key}", "42"),
            ("a{key:1}{key:5}b", "a4200042b"),
            ("{{value}}", "{xy}"),
            ("{\"key\": {key}, \"x\": {}}", "{\"key\": 42, \"x\": {}}"),
            ("{key:} {key:a} {key:256} {keys} {", "{key:} {key:a} {key:256} {keys} {"),
        ] {
            let mut out = Vec::new();
            Template::new(text).write(42, b"xy", &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), filled, "{text}");
        }
    }
}
