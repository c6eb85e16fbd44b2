//! What the library asks of a library of mathematics, so that programs of C need not link one.
//! ci/plain-archive.sh has it call this instead of libm's.

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
