//! What the library asks of a library of mathematics, so that programs of C need not link one.
//! ci/plain-archive.sh has it call these instead of libm's.

/// The logarithm to base 2; exact to the last digit but one.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn curtail_log2(x: f64) -> f64 {
    match x {
        0.0 => return f64::NEG_INFINITY,
        f64::INFINITY => return x,
        _ if x.is_nan() || x < 0.0 => return f64::NAN,
        // To a normal number.
        _ if x < f64::MIN_POSITIVE => return curtail_log2(x * (1_u64 << 54) as f64) - 54.0,
        _ => {}
    }
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | (1023 << 52));
    // Around 1, so that little below 1 nothing cancels out.
    if mantissa > std::f64::consts::SQRT_2 {
        (mantissa, exponent) = (mantissa / 2.0, exponent + 1);
    }
    // Twice the inverse of tanh; a fifth at most, so that 20 terms are exact to the last digit but one.
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut term, mut sum) = (z, 0.0);
    for odd in 0..20 {
        sum += term / f64::from(2 * odd + 1);
        term *= z * z;
    }
    f64::from(exponent) + sum * 2.0 / std::f64::consts::LN_2
}

/// A power. One whose exponent is no whole number is exact to 12 digits.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn curtail_pow(x: f64, y: f64) -> f64 {
    let whole = y as i32;
    if f64::from(whole) == y {
        return x.powi(whole);
    }
    if x == 1.0 {
        return 1.0;
    }
    // Without a fraction, and odd.
    let (is_whole, is_odd) = (y as i64 as f64 == y || y.abs() >= 9e18, y as i64 & 1 == 1);
    let is_odd = is_odd && y.abs() < 9e15;
    match x < 0.0 {
        true if y.is_finite() && !is_whole => f64::NAN,
        true if is_odd => -exp2(y * curtail_log2(-x)),
        true if x == -1.0 => 1.0,
        _ => exp2(y * curtail_log2(x.abs())),
    }
}

/// A power of 2.
fn exp2(x: f64) -> f64 {
    if x.is_nan() || x >= 1024.0 {
        // It overflows, or is none.
        return x * f64::INFINITY;
    }
    if x < -1080.0 {
        return 0.0;
    }
    let whole = x as i32;
    let rest = (x - f64::from(whole)) * std::f64::consts::LN_2;
    // The exponential's series; below 1, 20 terms are exact.
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..20 {
        term *= rest / f64::from(n);
        sum += term;
    }
    // In halves, of which none underflows.
    sum * 2_f64.powi(whole / 2) * 2_f64.powi(whole - whole / 2)
}
