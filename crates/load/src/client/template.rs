//! Texts that the user gives, in which `{key}` and `{value}` change from request to request.

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
    pub(super) fn new(text: impl AsRef<[u8]>) -> Self {
        let mut parts = Vec::new();
        let mut rest = text.as_ref();
        let mut from = 0;
        while let Some(at) = rest[from..].iter().position(|&byte| byte == b'{') {
            let at = from + at;
            let Some((part, length)) = place(&rest[at..]) else {
                from = at + 1;
                continue;
            };
            parts.extend((at > 0).then(|| Part::Text(rest[..at].to_vec())));
            parts.push(part);
            (rest, from) = (&rest[at + length..], 0);
        }
        parts.extend((!rest.is_empty()).then(|| Part::Text(rest.to_vec())));
        Self(parts)
    }

    /// Bytes as they are.
    pub(super) fn literal(bytes: Vec<u8>) -> Self {
        Self(vec![Part::Text(bytes)])
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

    /// The least and the most that it is written in, in bytes.
    pub(super) fn lengths(&self, value: usize) -> (usize, usize) {
        let of = |key: usize| {
            let length = |part: &Part| match part {
                Part::Text(text) => text.len(),
                Part::Key(digits) => key.max(usize::from(*digits)),
                Part::Value => value,
            };
            self.0.iter().map(length).sum()
        };
        (of(1), of(10))
    }
}

/// The place with which the text begins, and its length; `None`: it begins with none.
fn place(text: &[u8]) -> Option<(Part, usize)> {
    let end = text.iter().position(|&byte| byte == b'}')?;
    let inside = std::str::from_utf8(&text[1..end]).ok()?;
    let part = match inside {
        "key" => Part::Key(0),
        "value" => Part::Value,
        _ => Part::Key(inside.strip_prefix("key:")?.parse().ok()?),
    };
    Some((part, inside.len() + 2))
}

/// What takes the places.
#[derive(Clone, Debug)]
pub(super) struct Places {
    keys: u32,
    pub(super) value: Vec<u8>,
}

impl Places {
    pub(super) fn new(keys: u32, value: usize) -> Self {
        Self { keys, value: vec![b'x'; value] }
    }

    /// Another value, and the key that is returned.
    pub(super) fn draw(&mut self, random: u64) -> u32 {
        for (at, byte) in self.value.iter_mut().take(8).enumerate() {
            *byte = b'a' + ((random >> (at * 8)) % 26) as u8;
        }
        // The upper half of a 64 × 32 bit product is uniform below the number of keys.
        ((u128::from(random) * u128::from(self.keys)) >> 64) as u32
    }
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

    #[test]
    fn lengths_are_those_of_the_shortest_and_the_longest_key() {
        for (text, lengths) in [("a", (1, 1)), ("{key}", (1, 10)), ("{key:4}{value}", (6, 12))] {
            assert_eq!(Template::new(text).lengths(2), lengths, "{text}");
        }
        assert_eq!(Template::new("{key:16}").lengths(2), (16, 16));
        let bytes = [b"\xff{\xfe}".as_slice(), b"{key}"].concat();
        let mut out = Vec::new();
        Template::new(bytes).write(7, b"", &mut out);
        assert_eq!(out, b"\xff{\xfe}7");
    }
}
