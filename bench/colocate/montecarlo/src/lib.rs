//! Batch work that knows nothing of Curtail: prices swaptions by simulating forward rates (the kind
//! of work that PARSEC's swaptions does, which Shenango §7 puts beside its services).
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Forward rates, a quarter of a year apart.
const RATES: usize = 40;
const STEP_YEARS: f64 = 0.25;
const VOLATILITY: f64 = 0.012;
const STRIKE: f64 = 0.04;
/// Quarters until the swaption may be exercised.
const EXPIRY: usize = 12;
/// Paths between two looks at whether the end has come.
const BATCH: u64 = 64;

/// Numbers that look random: xorshift64*, and pairs of them on the bell curve by Marsaglia's polar
/// method.
struct Draws {
    state: u64,
    spare: Option<f64>,
}

impl Draws {
    fn seeded(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, spare: None }
    }

    /// In (-1, 1).
    fn uniform(&mut self) -> f64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let bits = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        bits as f64 / (1_u64 << 52) as f64 - 1.0
    }

    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (x, y) = (self.uniform(), self.uniform());
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let scale = (-2.0 * square.ln() / square).sqrt();
                self.spare = Some(y * scale);
                return x * scale;
            }
        }
    }
}

/// What one path of the curve is worth today: of a swaption that pays the difference between the
/// swap's rate and the strike at expiry.
fn path(draws: &mut Draws) -> f64 {
    let mut curve = [0.0; RATES];
    for (quarter, rate) in curve.iter_mut().enumerate() {
        *rate = 0.03 + 0.000_25 * quarter as f64;
    }
    let mut discount = 1.0;
    for step in 0..EXPIRY {
        discount /= 1.0 + curve[step] * STEP_YEARS;
        let shock = draws.normal() * STEP_YEARS.sqrt();
        let mut drift = 0.0;
        for rate in &mut curve[step + 1..] {
            // No arbitrage: the drift is what the volatilities before it add up to.
            drift += VOLATILITY * VOLATILITY * STEP_YEARS;
            *rate += drift * STEP_YEARS + VOLATILITY * shock;
        }
    }
    let (mut bond, mut annuity) = (1.0, 0.0);
    for rate in &curve[EXPIRY..] {
        bond /= 1.0 + rate * STEP_YEARS;
        annuity += bond * STEP_YEARS;
    }
    discount * (1.0 - bond - STRIKE * annuity).max(0.0)
}

/// Simulates paths until it is to stop, and counts them; what a path is worth on average.
/// `between` is called after some tens of microseconds each.
pub fn simulate(seed: u64, stop: &AtomicBool, units: &AtomicU64, between: &mut dyn FnMut()) -> f64 {
    let (mut draws, mut sum, mut count) = (Draws::seeded(seed), 0.0, 0_u64);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..BATCH {
            sum += path(&mut draws);
        }
        count += BATCH;
        units.fetch_add(BATCH, Ordering::Relaxed);
        between();
    }
    sum / count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_is_what_theory_says() {
        let mut draws = Draws::seeded(7);
        let count = 20_000;
        let mean = (0..count).map(|_| path(&mut draws)).sum::<f64>() / f64::from(count);
        // Bachelier's formula: the swap's rate varies by VOLATILITY each year for EXPIRY quarters.
        let deviation = VOLATILITY * (EXPIRY as f64 * STEP_YEARS).sqrt();
        let rate = 0.03 + 0.000_25 * (EXPIRY + RATES - 1) as f64 / 2.0;
        let annuity = {
            let (mut bond, mut sum) = (1.0, 0.0);
            for quarter in 0..RATES {
                bond /= 1.0 + (0.03 + 0.000_25 * quarter as f64) * STEP_YEARS;
                sum += if quarter >= EXPIRY { bond * STEP_YEARS } else { 0.0 };
            }
            sum
        };
        let d = (rate - STRIKE) / deviation;
        let density = (-d * d / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        // The normal distribution at d, by a series that is good enough around zero.
        let below = 0.5 + density * (d + d.powi(3) / 3.0 + d.powi(5) / 15.0);
        let expected = annuity * ((rate - STRIKE) * below + deviation * density);
        assert!((mean / expected - 1.0).abs() < 0.1, "{mean} instead of about {expected}");
    }

    #[test]
    fn draws_are_on_the_bell_curve() {
        let mut draws = Draws::seeded(3);
        let all: Vec<f64> = (0..50_000).map(|_| draws.normal()).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| x * x).sum::<f64>() / all.len() as f64;
        let far = all.iter().filter(|x| x.abs() > 1.96).count() as f64 / all.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
        assert!((far - 0.05).abs() < 0.005, "{far}");
    }
}
