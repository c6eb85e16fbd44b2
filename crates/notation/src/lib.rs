//! How settings write durations and lists of cores: `500ns`, `1-3`. Of command lines, of transports' URLs
//! and of C's settings alike; nothing here needs a library of mathematics.
#![forbid(unsafe_code)]

/// Text that says nothing we understand. The message names the offending text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

impl ParseError {
    /// With that message, which names the text.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Longest duration accepted: 100 days, whose nanoseconds are exact.
const MAX_DURATION_NS: f64 = 100.0 * 86_400e9;

/// A plain decimal number: digits, at most one point. No sign, no exponent, no `inf`.
#[must_use]
pub fn decimal(text: &str) -> Option<f64> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let points = text.bytes().filter(|&b| b == b'.').count();
    if digits == 0 || points > 1 || digits + points != text.len() {
        return None;
    }
    text.parse().ok()
}

/// The text before its unit, and the unit.
#[must_use]
pub fn split_unit(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(end)
}

/// A duration in nanoseconds: `500ns`, `2us` (also `2µs`), `10ms`, `1.5s`. A bare `0` needs no unit.
///
/// # Errors
/// No number, no or an unknown unit, finer than a nanosecond, or longer than 100 days.
pub fn duration_ns(text: &str) -> Result<u64, ParseError> {
    let text = text.trim();
    let (number, unit) = split_unit(text);
    let bad = |why: &str| ParseError::new(format!("`{text}` is no duration: {why}"));
    let value = decimal(number).ok_or_else(|| bad("write 500ns, 2us, 10ms or 1.5s"))?;
    let scale = match unit.trim_start() {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "" if value == 0.0 => 1.0,
        "" => return Err(bad("the unit is missing (ns, us, ms, s)")),
        other => return Err(bad(&format!("unknown unit `{other}` (ns, us, ms, s)"))),
    };
    let ns = value * scale;
    if ns > MAX_DURATION_NS {
        return Err(bad("longer than 100 days"));
    }
    // By hand: `round` would be libm's, which programs of C need not link.
    let whole = (ns + 0.5) as u64;
    if (ns - whole as f64).abs() > 1e-6 * ns.max(1.0) {
        return Err(bad("finer than a nanosecond"));
    }
    Ok(whole)
}

/// A list of core numbers: `0,2`, `1-3`, `1..3` or mixed, without duplicates.
///
/// # Errors
/// Something else, a core twice, or a number beyond 4,095.
pub fn cores(text: &str) -> Result<Vec<usize>, ParseError> {
    let number = |s: &str| match s.trim().parse::<usize>() {
        Ok(n) if n < 4_096 => Ok(n),
        _ => Err(ParseError::new(format!("`{s}` is no core number"))),
    };
    let mut cores = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = match part.split_once("..").or_else(|| part.split_once('-')) {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first {
            return Err(ParseError::new(format!("`{part}` runs backwards")));
        }
        for core in first..=last {
            if cores.contains(&core) {
                return Err(ParseError::new(format!("`{text}` names core {core} twice")));
            }
            cores.push(core);
        }
    }
    Ok(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ns) in [
            ("500ns", 500),
            ("0.5us", 500),
            ("2us", 2_000),
            ("2µs", 2_000),
            ("10ms", 10_000_000),
            ("1.5s", 1_500_000_000),
            ("5.7us", 5_700),
            ("0", 0),
            (" 1 us", 1_000),
        ] {
            assert_eq!(duration_ns(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn core_lists() {
        assert_eq!(cores("0").unwrap(), [0]);
        assert_eq!(cores("2,0-1,4..5").unwrap(), [2, 0, 1, 4, 5]);
        for text in ["", "a", "1,1", "3-1", "0,", "99999", "0-99999999999"] {
            assert!(cores(text).is_err(), "{text}");
        }
    }
}
