//! Lists and ranges: `0.3,0.5`, `0.1..0.9/0.1`, or both mixed.

use crate::ParseError;

/// Most items that one list may have: a mistyped step must not ask for a year of runs.
pub const MAX_LIST: usize = 1_000;

/// A list of values as `item` reads them (durations in nanoseconds, rates, loads, counts), in the
/// order written. `A..B/STEP` stands for A, A + STEP, … up to and including B; it is exact to nine
/// decimals, so that `0.1..0.3/0.1` holds 0.3 and not 0.30000000000000004.
///
/// # Errors
/// An item that `item` refuses, an empty item, a range without step, that runs backwards or whose
/// step is zero, or more than [`MAX_LIST`] values.
pub fn list<F>(text: &str, item: F) -> Result<Vec<f64>, ParseError>
where
    F: Fn(&str) -> Result<f64, ParseError>,
{
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        match part.split_once("..") {
            None if part.is_empty() => {
                return Err(ParseError::new(format!("`{text}` has an empty item")));
            }
            None => values.push(item(part)?),
            Some((first, rest)) => range(part, first, rest, &item, &mut values)?,
        }
        if values.len() > MAX_LIST {
            return Err(too_many(text));
        }
    }
    Ok(values)
}

fn too_many(text: &str) -> ParseError {
    ParseError::new(format!("`{text}` stands for more than {MAX_LIST} values"))
}

fn range<F>(
    part: &str,
    first: &str,
    rest: &str,
    item: &F,
    values: &mut Vec<f64>,
) -> Result<(), ParseError>
where
    F: Fn(&str) -> Result<f64, ParseError>,
{
    let Some((last, step)) = rest.split_once('/') else {
        return Err(ParseError::new(format!("`{part}` has no step: write 0.1..0.9/0.1")));
    };
    let (first, last, step) = (item(first.trim())?, item(last.trim())?, item(step.trim())?);
    if step <= 0.0 {
        return Err(ParseError::new(format!("`{part}` has a step of zero")));
    }
    if last < first {
        return Err(ParseError::new(format!("`{part}` runs backwards")));
    }
    // A last value that the steps miss by a rounding error only belongs to the range.
    let steps = ((last - first) / step + 1e-6).floor();
    if steps >= MAX_LIST as f64 {
        return Err(too_many(part));
    }
    values.extend((0..=steps as usize).map(|i| nine_decimals(first + i as f64 * step)));
    Ok(())
}

fn nine_decimals(value: f64) -> f64 {
    // Beyond 2^53 / 10^9 there are no nine decimals to round to.
    if value.abs() < 9e6 { (value * 1e9).round() / 1e9 } else { value }
}

/// A list of names, separated by commas.
///
/// # Errors
/// An empty name.
pub fn names(text: &str) -> Result<Vec<String>, ParseError> {
    text.split(',')
        .map(|name| match name.trim() {
            "" => Err(ParseError::new(format!("`{text}` has an empty item"))),
            name => Ok(name.to_owned()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cores, duration_ns, load, rate_rps};
    use proptest::prelude::*;

    #[test]
    fn lists_and_ranges() {
        assert_eq!(list("0.3,0.5", load).unwrap(), [0.3, 0.5]);
        assert_eq!(
            list("0.1..0.9/0.1", load).unwrap(),
            [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
        );
        assert_eq!(list("0.05, 0.1..0.3/0.1 ,0.95", load).unwrap(), [0.05, 0.1, 0.2, 0.3, 0.95]);
        assert_eq!(list("0.1..0.35/0.1", load).unwrap(), [0.1, 0.2, 0.3]);
        assert_eq!(list("10k..30k/10k", rate_rps).unwrap(), [1e4, 2e4, 3e4]);
        let ns = |s: &str| duration_ns(s).map(|ns| ns as f64);
        assert_eq!(list("500ns,1us..3us/1us", ns).unwrap(), [500.0, 1e3, 2e3, 3e3]);
    }

    #[test]
    fn bad_lists() {
        for (text, says) in [
            ("", "empty"),
            ("0.3,", "empty"),
            ("0.1..0.9", "no step"),
            ("0.9..0.1/0.1", "backwards"),
            ("0.1..0.9/0", "`0`"),
            ("0.1..0.9/0.0001", "more than"),
            ("0.1..x/0.1", "`x`"),
        ] {
            let error = list(text, load).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_range_is_its_list(first in 1u32..100, count in 0u32..50, step in 1u32..20) {
            let last = first + count * step;
            let text = |n: u32| format!("{}.{:02}", n / 100, n % 100);
            let range = format!("{}..{}/{}", text(first), text(last), text(step));
            let written: Vec<String> = (0..=count).map(|i| text(first + i * step)).collect();
            let plain = |s: &str| s.parse().map_err(|_| ParseError::new(s));
            let expect = list(&written.join(","), plain).unwrap();
            prop_assert_eq!(list(&range, plain).unwrap(), expect);
        }

        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = (list(&text, load), cores(&text), names(&text));
        }
    }
}
