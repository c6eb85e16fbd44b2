//! Durations and lists of cores, as settings write them; and what histograms ask of a library of
//! mathematics. The mixes of the laboratory, which read the same, are not drawn in for this.

/// Longest duration: a day.
const MOST_NS: f64 = 86_400e9;

/// Nanoseconds: `500ns`, `2us`, `10ms`, `1.5s`, `0`.
pub(crate) fn duration_ns(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let bad = |why: &str| Err(format!("`{text}` is no duration: {why}"));
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let Ok(value) = number.parse::<f64>() else { return bad("write 500ns, 2us, 10ms or 1.5s") };
    let scale = match unit.trim_start() {
        "ns" => 1.0,
        "us" | "µs" | "μs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "" if value == 0.0 => 1.0,
        "" => return bad("the unit is missing (ns, us, ms, s)"),
        other => return bad(&format!("unknown unit `{other}` (ns, us, ms, s)")),
    };
    let ns = value * scale;
    let whole = (ns + 0.5) as u64;
    if ns > MOST_NS {
        return bad("longer than a day");
    }
    if (ns - whole as f64).abs() > 1e-6 * ns.max(1.0) {
        return bad("finer than a nanosecond");
    }
    Ok(whole)
}

/// Core numbers: `0,2`, `1-3`, `1..3` or mixed, none twice.
pub(crate) fn cores(text: &str) -> Result<Vec<usize>, String> {
    let number = |part: &str| match part.trim().parse::<usize>() {
        Ok(number) if number < 4_096 => Ok(number),
        _ => Err(format!("`{part}` is no core number")),
    };
    let mut cores = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = match part.split_once("..").or_else(|| part.split_once('-')) {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if last < first {
            return Err(format!("`{part}` runs backwards"));
        }
        for core in first..=last {
            if cores.contains(&core) {
                return Err(format!("`{text}` names core {core} twice"));
            }
            cores.push(core);
        }
    }
    Ok(cores)
}

/// The logarithm to base 2, of histograms' bounds. ci/plain-archive.sh has the library call this
/// instead of libm's, so that it is linked without one.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn curtail_log2(x: f64) -> f64 {
    if !(x.is_normal() && x > 0.0) {
        return f64::NAN;
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | (1023 << 52));
    // Twice the inverse of tanh; a third at most, so that 20 terms are exact to the last digit but one.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut term, mut sum) = (z, 0.0);
    for odd in 0..20 {
        sum += term / f64::from(2 * odd + 1);
        term *= z * z;
    }
    f64::from(exponent) + sum * 2.0 / std::f64::consts::LN_2
}
