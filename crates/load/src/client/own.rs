//! Messages of any protocol, a datagram or a frame each, as the user gives them.

use super::socket::{Came, Scheme, Url};
use super::template::{Places, Template};
use super::wire::{Answer, Outcome};
use std::str::FromStr;

/// Largest datagram.
const MOST: usize = 65_507;

/// Where requests and their answers have an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdAt {
    at: usize,
    length: usize,
}

impl FromStr for IdAt {
    type Err = String;

    /// Reads `AT:LENGTH`, in bytes.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':');
        let read = parts.and_then(|(at, length)| Some((at.parse().ok()?, length.parse().ok()?)));
        match read {
            Some((at, length @ 2..=8)) if at < MOST => Ok(Self { at, length }),
            _ => Err(format!("`{text}`: write AT:LENGTH in bytes, with a length from 2 to 8")),
        }
    }
}

impl IdAt {
    fn of<'a>(&self, message: &'a [u8]) -> Option<&'a [u8]> {
        message.get(self.at..self.at + self.length)
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.length)
    }
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A text, in which `{key}` and `{value}` are filled in.
    Text(Vec<u8>),
    /// These bytes.
    Bytes(Vec<u8>),
}

impl Body {
    /// Bytes written as hexadecimal digits, with or without blanks between.
    ///
    /// # Errors
    /// Other characters, or half a byte.
    pub fn hex(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}`: write two hexadecimal digits a byte");
        let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8]| match *pair {
            [high, low] => Some((digit(high)? << 4) | digit(low)?),
            _ => None,
        };
        digits
            .chunks(2)
            .map(|pair| byte(pair).ok_or_else(bad))
            .collect::<Result<_, _>>()
            .map(Self::Bytes)
    }

    pub(super) fn template(&self) -> Template {
        match self {
            Self::Text(text) => Template::new(text),
            Self::Bytes(bytes) => Template::literal(bytes.clone()),
        }
    }

    /// What the class is called: a text's first word, if it is short.
    fn name(&self) -> Option<String> {
        let Self::Text(text) = self else { return None };
        let word = text.trim_ascii().split(u8::is_ascii_whitespace).next()?;
        let fits = (1..=16).contains(&word.len()) && word.iter().all(u8::is_ascii_graphic);
        fits.then(|| String::from_utf8_lossy(word).into_owned())
    }
}

/// What is asked of a server whose protocol is its own.
#[derive(Clone, Debug)]
pub struct Own {
    classes: Vec<(String, Template)>,
    places: Places,
    id: Option<IdAt>,
    /// The id of the latest request.
    latest: u64,
}

impl Own {
    /// These messages. Without an `id` a flow has one request in progress at a time.
    ///
    /// # Errors
    /// A message that is empty, too long, or too short for its id.
    pub fn new(
        url: &Url,
        bodies: &[Body],
        id: Option<IdAt>,
        keys: u32,
        value: usize,
    ) -> Result<Self, String> {
        let mut classes: Vec<(String, Template)> = Vec::new();
        for body in bodies {
            let template = body.template();
            let (least, most) = template.lengths(value);
            if least == 0 {
                return Err("an empty message".to_owned());
            }
            if url.scheme == Scheme::Udp && most > MOST {
                return Err(format!("a message of {most} bytes: a datagram has up to {MOST}"));
            }
            if let Some(IdAt { at, length }) = id.filter(|id| least < id.at + id.length) {
                return Err(format!(
                    "a message of {least} bytes has no room for {length} bytes of id from byte {at} on"
                ));
            }
            let name = body.name().unwrap_or_else(|| "request".to_owned());
            let alike = |other: &str| other == name || other.starts_with(&format!("{name} "));
            let name = match classes.iter().filter(|(other, _)| alike(other)).count() {
                0 => name,
                others => format!("{name} {}", others + 1),
            };
            classes.push((name, template));
        }
        Ok(Self { classes, places: Places::new(keys, value), id, latest: 0 })
    }

    /// What each class is called.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.classes.iter().map(|(name, _)| name.as_str())
    }

    /// How many requests may be under way at a time without sharing an id.
    pub(super) fn most_under_way(&self) -> usize {
        self.id.map_or(usize::MAX, |id| usize::try_from(id.mask()).unwrap_or(usize::MAX))
    }

    /// A flow has one request in progress at a time.
    pub(super) fn is_alone(&self) -> bool {
        self.id.is_none()
    }

    /// Adds a request to `out`, which is empty. `random`: decides keys and values.
    pub(super) fn request(&mut self, id: u64, class: u16, random: u64, out: &mut Vec<u8>) {
        let key = self.places.draw(random);
        self.classes[usize::from(class)].1.write(key, &self.places.value, out);
        self.latest = id;
        if let Some(IdAt { at, length }) = self.id {
            out[at..at + length].copy_from_slice(&id.to_le_bytes()[..length]);
        }
    }

    /// What came says of a request; `None`: nothing. An empty message is how Curtail's servers refuse.
    pub(super) fn outcome(&self, came: Came<'_>) -> Option<Answer> {
        let id = match (came.of, self.id) {
            (Some((id, _)), _) => id,
            (None, Some(place)) => {
                let mut short = [0; 8];
                short[..place.length].copy_from_slice(place.of(came.bytes)?);
                // The latest request whose id ends so.
                let since = self.latest.wrapping_sub(u64::from_le_bytes(short)) & place.mask();
                self.latest.wrapping_sub(since)
            }
            (None, None) => return None,
        };
        let outcome = if came.bytes.is_empty() { Outcome::Overloaded } else { Outcome::Done };
        Some(Answer { id, outcome, service_ns: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(bodies: &[Body], id: Option<&str>) -> Result<Own, String> {
        let url = Url::parse("udp://127.0.0.1:9").unwrap();
        Own::new(&url, bodies, id.map(|id| id.parse().unwrap()), 10, 3)
    }

    fn text(text: &str) -> Body {
        Body::Text(text.into())
    }

    #[test]
    fn answers_bring_the_id_back() {
        let mut own = own(&[Body::hex("aabb 0000 cc").unwrap()], Some("2:2")).unwrap();
        for id in [7, 0x1_0002] {
            let mut out = Vec::new();
            own.request(id, 0, 0, &mut out);
            let [low, high, ..] = id.to_le_bytes();
            assert_eq!(out, [0xaa, 0xbb, low, high, 0xcc]);
        }
        let answer = |bytes: &[u8]| {
            own.outcome(Came { bytes, of: None }).map(|answer| (answer.id, answer.outcome))
        };
        assert_eq!(answer(&[9, 9, 2, 0]), Some((0x1_0002, Outcome::Done)));
        // Asked before the ids began anew.
        assert_eq!(answer(&[9, 9, 0xff, 0xff, 1]), Some((0xffff, Outcome::Done)));
        assert_eq!(answer(&[9, 9, 2]), None);
        assert_eq!(answer(&[]), None);
    }

    #[test]
    fn without_an_id_the_flow_tells_which_request_it_is() {
        let mut own = own(&[text("get {key} {value}"), text("get x"), text("\n")], None).unwrap();
        assert_eq!(own.names().collect::<Vec<_>>(), ["get", "get 2", "request"]);
        let mut out = Vec::new();
        own.request(1, 0, u64::MAX, &mut out);
        assert_eq!((&out[..6], out.len()), (&b"get 9 "[..], 9));
        let outcome = |bytes, of| own.outcome(Came { bytes, of }).map(|answer| answer.outcome);
        assert_eq!(outcome(b"yes", Some((4, 0))), Some(Outcome::Done));
        assert_eq!(outcome(b"", Some((4, 0))), Some(Outcome::Overloaded));
        assert_eq!(outcome(b"yes", None), None);
    }

    #[test]
    fn what_is_no_message_is_told() {
        for (body, id, says) in [
            (text(""), None, "empty"),
            (text("abc"), Some("2:2"), "3 bytes has no room"),
            (text("{value}"), Some("0:4"), "no room"),
            (Body::Bytes(vec![0; 65_508]), None, "65507"),
        ] {
            let error = own(&[body], id).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        for bad in ["", "2", "0:1", "0:9", "-1:2", "a:b", "70000:2"] {
            assert!(bad.parse::<IdAt>().unwrap_err().contains("AT:LENGTH"), "{bad}");
        }
        for bad in ["a", "0g", "0x00", "€"] {
            assert!(Body::hex(bad).is_err(), "{bad}");
        }
        assert_eq!(Body::hex("00 Ff\n7f"), Ok(Body::Bytes(vec![0, 255, 127])));
    }
}
