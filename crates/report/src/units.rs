//! Figures as people read them: three significant digits and a unit.

/// A duration given in nanoseconds: `950 ns`, `1.25 µs`, `2.55 ms`, `12.0 s`; `–` for NaN.
#[must_use]
pub fn duration(ns: f64) -> String {
    scaled(ns, &[(1.0, " ns"), (1e3, " µs"), (1e6, " ms"), (1e9, " s")])
}

/// A duration that is a setting, without trailing zeros: `2 µs`, `1.5 ms`.
pub(crate) fn chosen(ns: f64) -> String {
    trimmed(&duration(ns))
}

/// A figure without trailing zeros: `10.0 µs` as `10 µs`.
#[must_use]
pub fn trimmed(text: &str) -> String {
    let (number, unit) = text.split_at(text.find(' ').unwrap_or(text.len()));
    if !number.contains('.') {
        return text.to_owned();
    }
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

/// A rate given per second: `950 /s`, `233 k/s`, `1.20 M/s`.
#[must_use]
pub fn rate(rps: f64) -> String {
    scaled(rps, &[(1.0, " /s"), (1e3, " k/s"), (1e6, " M/s"), (1e9, " G/s")])
}

/// A plain figure such as a slowdown: `1.04`, `12.3`, `5,107`.
#[must_use]
pub fn ratio(value: f64) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    if value.abs() < 999.5 {
        return three(value);
    }
    count(value.round().abs() as u64)
}

/// A number with its thousands set apart: `2,330,000`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if value.is_nan() {
        return "–".to_owned();
    }
    // 999.5 of a unit would be printed as 1000 of it: that is 1.00 of the next.
    let (scale, unit) = units
        .iter()
        .find(|(scale, _)| value.abs() < 999.5 * scale)
        .unwrap_or(units.last().expect("there are units"));
    let value = value / scale;
    let whole = *scale == 1.0 && value.fract() == 0.0;
    if whole { format!("{value:.0}{unit}") } else { format!("{}{unit}", three(value)) }
}

fn three(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let said = |ns| duration(ns);
        assert_eq!(said(0.0), "0 ns");
        assert_eq!(said(950.0), "950 ns");
        assert_eq!(said(999.6), "1.00 µs");
        assert_eq!(said(1_250.0), "1.25 µs");
        assert_eq!(said(99_960.0), "100 µs");
        assert_eq!(said(2_553_000.0), "2.55 ms");
        assert_eq!(said(4_321e9), "4321 s");
        assert_eq!(said(f64::NAN), "–");
    }

    #[test]
    fn chosen_durations_are_short() {
        assert_eq!(chosen(2_000.0), "2 µs");
        assert_eq!(chosen(1_500.0), "1.5 µs");
        assert_eq!(chosen(100_000.0), "100 µs");
        assert_eq!(chosen(10_000_000.0), "10 ms");
        assert_eq!(trimmed("1.00"), "1");
        assert_eq!(trimmed("5,100"), "5,100");
    }

    #[test]
    fn rates_and_ratios() {
        assert_eq!(rate(232_950.0), "233 k/s");
        assert_eq!(rate(1_200_000.0), "1.20 M/s");
        assert_eq!(ratio(1.0), "1.00");
        assert_eq!(ratio(12.345), "12.3");
        assert_eq!(ratio(5_107.4), "5,107");
        assert_eq!(count(0), "0");
        assert_eq!(count(2_330_000), "2,330,000");
        assert_eq!(count(123), "123");
    }
}
