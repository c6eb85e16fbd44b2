//! A cube root that is the same on every machine.

/// The cube root of a number that is finite and not negative, to within an ulp or two: the library's is
/// another one from one system to the next.
pub(super) fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent, and Newton's method: six steps from 5% are more than enough.
    let mut root = f64::from_bits(x.to_bits() / 3 + 0x2a9f_7893_0000_0000);
    for _ in 0..6 {
        root -= (root * root * root - x) / (3.0 * root * root);
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUBE_ROOTS: [u64; 6] = [
        0x3fb9_9999_9999_999a,
        0x3fdd_b4c7_760b_cff3,
        0x3fe2_b6b5_edf6_b54a,
        0x3fe9_65fe_a53d_6e3d,
        0x3fec_69b5_a72f_1a99,
        0x3fee_e549_fe70_85e7,
    ];

    /// To the last bit.
    #[test]
    fn cube_roots_are_the_same_everywhere() {
        for (x, root) in [(0.0, 0.0), (0.125, 0.5), (1.0, 1.0), (27.0, 3.0)] {
            assert_eq!(cube_root(x), root);
        }
        let bits = [0.001, 0.1, 0.2, 0.5, 0.7, 0.9].map(|x| cube_root(x).to_bits());
        assert_eq!(bits, CUBE_ROOTS);
    }
}
