//! What histograms and metrics ask of a library of mathematics, so that programs of C need not link one.

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

/// A power whose exponent is a whole number, as bounds of buckets have it; of others none. Called instead
/// of libm's `pow`.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn curtail_pow(x: f64, y: f64) -> f64 {
    let whole = y as i32;
    if f64::from(whole) == y { x.powi(whole) } else { f64::NAN }
}
