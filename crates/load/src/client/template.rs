//! Texts that the user gives, in which `{key}` and `{value}` change from request to request.

/// A text with places for keys and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Key,
    Value,
}

impl Template {
    pub(super) fn new(text: impl AsRef<[u8]>) -> Self {
        let mut parts = Vec::new();
        let mut rest = text.as_ref();
        while !rest.is_empty() {
            let places = [(&b"{key}"[..], Part::Key), (&b"{value}"[..], Part::Value)];
            let found = places.into_iter().filter_map(|(name, part)| {
                let at = rest.windows(name.len()).position(|window| window == name);
                Some((at?, name, part))
            });
            let Some((at, name, part)) = found.min_by_key(|&(at, ..)| at) else { break };
            parts.extend((at > 0).then(|| Part::Text(rest[..at].to_vec())));
            parts.push(part);
            rest = &rest[at + name.len()..];
        }
        parts.extend((!rest.is_empty()).then(|| Part::Text(rest.to_vec())));
        Self(parts)
    }

    /// Bytes as they are.
    pub(super) fn literal(bytes: Vec<u8>) -> Self {
        Self(vec![Part::Text(bytes)])
    }

    pub(super) fn write(&self, key: u32, value: &[u8], out: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Key => out.extend_from_slice(key.to_string().as_bytes()),
                Part::Value => out.extend_from_slice(value),
            }
        }
    }

    /// The least and the most that it is written in, in bytes.
    pub(super) fn lengths(&self, value: usize) -> (usize, usize) {
        let of = |digits| {
            let length = |part: &Part| match part {
                Part::Text(text) => text.len(),
                Part::Key => digits,
                Part::Value => value,
            };
            self.0.iter().map(length).sum()
        };
        (of(1), of(10))
    }
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
