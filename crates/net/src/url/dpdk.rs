//! The options of `dpdk://`.

use super::{bad, is_partial, size};
use crate::error::Reason;
use crate::packet::DpdkConfig;

const OPTIONS: &str = "args=WORD;WORD…, eal=WORD;WORD…, queues=N, frames=N, mtu=N, max=SIZE, requests=N, \
     checksum=whole|partial";

pub(super) fn set(config: &mut DpdkConfig, name: &str, value: &str) -> Result<(), Reason> {
    match name {
        "args" => config.arguments = words(name, value)?.join(","),
        "eal" => config.eal = words(name, value)?,
        "queues" => config.queues = size(name, value)?,
        "frames" => config.frames = size(name, value)?,
        "mtu" => config.mtu = size(name, value)?,
        "max" => config.limit = size(name, value)?,
        "requests" => config.in_progress = size(name, value)?,
        "checksum" => config.partial = is_partial(name, value)?,
        _ => return Err(Reason::Option { name: name.to_owned(), known: OPTIONS }),
    }
    Ok(())
}

/// What `;` parts, with what stands for bytes replaced.
fn words(name: &str, value: &str) -> Result<Vec<String>, Reason> {
    let wrong = || bad(name, value, "words, like iface=eth0;qpairs=1, with %2C for a comma");
    let words: Option<Vec<_>> = value.split(';').map(decode).collect();
    words.filter(|words| words.iter().all(|word| !word.is_empty())).ok_or_else(wrong)
}

/// `%2C` is a comma, and so on.
fn decode(word: &str) -> Option<String> {
    let mut parts = word.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_may_have_any_character() {
        let said = |value| words("eal", value).ok();
        let own = |words: &[&str]| Some(words.iter().map(|&it| it.to_owned()).collect::<Vec<_>>());
        assert_eq!(said("--no-huge;-m;64"), own(&["--no-huge", "-m", "64"]));
        assert_eq!(said("--vdev=net_tap0%2ciface=a%3Bb%25"), own(&["--vdev=net_tap0,iface=a;b%"]));
        for bad in ["", ";", "a;", "%", "%2", "%+1", "a%zz", "%ff", "%é"] {
            assert_eq!(said(bad), None, "{bad}");
        }
    }
}
