//! How times, rates and loads are written: `500ns`, `2us`, `50k`, `0.7`.

use curtail_notation::{ParseError, decimal, split_unit};

/// The shortest notation that [`curtail_notation::duration_ns`] reads back exactly.
#[must_use]
pub fn format_duration(ns: u64) -> String {
    let (scale, unit) = match ns {
        0..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "us"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    with_fraction(ns, scale, unit)
}

fn with_fraction(value: u64, scale: u64, unit: &str) -> String {
    let (whole, rest) = (value / scale, value % scale);
    if rest == 0 {
        return format!("{whole}{unit}");
    }
    let digits = scale.ilog10() as usize;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

/// A rate in requests per second: `800`, `50k`, `1.2M`, `0.5G`.
///
/// # Errors
/// No number, an unknown suffix, or zero.
pub fn rate_rps(text: &str) -> Result<f64, ParseError> {
    let text = text.trim();
    let (number, suffix) = split_unit(text);
    let bad = |why: &str| ParseError::new(format!("`{text}` is no rate: {why}"));
    let value = decimal(number).ok_or_else(|| bad("write 800, 50k or 1.2M"))?;
    let scale = match suffix {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        other => return Err(bad(&format!("unknown suffix `{other}` (k, M, G)"))),
    };
    if value == 0.0 {
        return Err(bad("it must be more than zero"));
    }
    if value * scale > 1e12 {
        return Err(bad("more than 1000G"));
    }
    Ok(value * scale)
}

/// A number of things, one at least: `800`, `50k`, `1M`, `2G`.
///
/// # Errors
/// For anything else.
pub fn count(text: &str) -> Result<u64, ParseError> {
    let text = text.trim();
    let (number, suffix) = split_unit(text);
    let bad = || ParseError::new(format!("`{text}` is no number from 1 on: write 800, 50k or 1M"));
    let scale = match suffix {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(bad()),
    };
    let whole = number.bytes().all(|byte| byte.is_ascii_digit());
    let value = whole.then(|| number.parse::<u64>().ok()?.checked_mul(scale)).flatten();
    value.filter(|value| *value > 0).ok_or_else(bad)
}

/// A rate in the notation that [`rate_rps`] reads, to four significant digits.
#[must_use]
pub fn format_rate(rps: f64) -> String {
    let (scale, suffix) = match rps {
        r if r >= 1e9 => (1e9, "G"),
        r if r >= 1e6 => (1e6, "M"),
        r if r >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let value = rps / scale;
    let places = 3usize.saturating_sub(value.max(1.0).log10() as usize);
    let digits = format!("{value:.places$}");
    let digits =
        if places > 0 { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    format!("{digits}{suffix}")
}

/// A load as a fraction of capacity: `0.7`. More than 1 is overload and allowed up to 10.
///
/// # Errors
/// No number, zero (nothing would ever arrive), or more than 10 (a percentage, most likely).
pub fn load(text: &str) -> Result<f64, ParseError> {
    let text = text.trim();
    let bad = |why: &str| ParseError::new(format!("`{text}` is no load: {why}"));
    let value = decimal(text).ok_or_else(|| bad("write a fraction of capacity like 0.7"))?;
    if value == 0.0 {
        return Err(bad("it must be more than zero"));
    }
    if value > 10.0 {
        return Err(bad("it is a fraction of capacity, 0.7 rather than 70"));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use curtail_notation::duration_ns;
    use proptest::prelude::*;

    #[test]
    fn errors_name_the_text() {
        for text in ["", "us", "5", "5min", "-1us", "1e3us", "0.3ns", "2d", "infs", "1.2.3us"] {
            let error = duration_ns(text).unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
        for text in ["", "k", "0", "5x", "-3", "nan", "1e99"] {
            assert!(rate_rps(text).unwrap_err().to_string().contains(&format!("`{text}`")));
        }
        for text in ["", "0", "70", "0.5k", "-0.1"] {
            assert!(load(text).unwrap_err().to_string().contains(&format!("`{text}`")));
        }
    }

    #[test]
    fn counts() {
        for (text, n) in [("1", 1), ("800", 800), ("50k", 50_000), ("1M", 1_000_000)] {
            assert_eq!(count(text), Ok(n));
        }
        for text in ["", "0", "0k", "-1", "1.5k", "5x", "M", "99999999999G"] {
            assert!(count(text).unwrap_err().to_string().contains(&format!("`{text}`")));
        }
    }

    #[test]
    fn rates() {
        assert_eq!(rate_rps("800"), Ok(800.0));
        assert_eq!(rate_rps("50k"), Ok(50_000.0));
        assert_eq!(rate_rps("1.2M"), Ok(1_200_000.0));
        assert_eq!(format_rate(1_200_000.0), "1.2M");
        assert_eq!(format_rate(233_000.0), "233k");
        assert_eq!(format_rate(20.0), "20");
        assert_eq!(format_rate(0.25), "0.25");
    }

    proptest! {
        #[test]
        fn duration_round_trip(ns in 0u64..=86_400_000_000_000) {
            prop_assert_eq!(duration_ns(&format_duration(ns)), Ok(ns));
        }

        #[test]
        fn rate_round_trip(rps in 0.1f64..1e9) {
            let back = rate_rps(&format_rate(rps)).unwrap();
            prop_assert!((back / rps - 1.0).abs() < 5e-3, "{} became {}", rps, back);
        }

        #[test]
        fn any_text_is_answered(text in ".*") {
            let _ = (duration_ns(&text), rate_rps(&text), load(&text));
        }
    }
}
