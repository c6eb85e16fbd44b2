//! Chains of iterators: what the compiler turns into vector code (sums, products, comparisons over
//! slices) and what it can't (filters, windows, group-by, prefix sums, bounds checks).

#![forbid(unsafe_code)]

use safepoint_programs::{Random, Sum, rounds};

const ROUNDS: u32 = 75;

fn vectors(a: &[u32], b: &[u32]) -> u64 {
    let dot = a.iter().zip(b).fold(0u32, |sum, (x, y)| sum.wrapping_add(x.wrapping_mul(*y)));
    let most = a.iter().copied().max().unwrap_or(0);
    let equal = a.iter().zip(b).filter(|(x, y)| *x % 16 == *y % 16).count() as u64;
    u64::from(dot) ^ u64::from(most) << 20 ^ equal << 40
}

fn windows(a: &[u32]) -> u64 {
    let rises = a.windows(3).filter(|w| w[0] < w[1] && w[1] < w[2]).count() as u64;
    let groups = a.chunk_by(|x, y| x % 4 <= y % 4).map(<[u32]>::len).max().unwrap_or(0) as u64;
    rises << 32 | groups
}

fn prefix(a: &[u32], out: &mut [u64]) -> u64 {
    let mut total = 0u64;
    for (at, value) in a.iter().enumerate() {
        total += u64::from(*value);
        out[at % 1000] = total;
    }
    out.iter().fold(0, |sum, value| sum ^ value)
}

fn text(a: &[u32]) -> u64 {
    let joined = a.iter().take(200).map(|x| (x % 1000).to_string()).collect::<Vec<_>>().join("/");
    let back = joined.split('/').filter_map(|part| part.parse::<u64>().ok());
    back.enumerate().map(|(at, value)| at as u64 * value).sum()
}

fn smooth(a: &[u32], values: &mut Vec<f64>) -> f64 {
    values.clear();
    values.extend(a.iter().map(|x| f64::from(x % 1000) / 1000.0));
    for _ in 0..3 {
        for at in 1..values.len().saturating_sub(1) {
            values[at] = 0.25 * values[at - 1] + 0.5 * values[at] + 0.25 * values[at + 1];
        }
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|v| (v - mean) * (v - mean)).sum()
}

/// Rows of 3 to 6 elements, each a vector of its own.
fn ragged(rows: &[Vec<u32>]) -> u64 {
    let best = |row: &Vec<u32>| row.iter().map(|x| x % 977).max().unwrap_or(0);
    let total: u64 = rows.iter().flatten().map(|x| u64::from(x % 101)).sum();
    rows.iter().map(|row| u64::from(best(row))).fold(total, |h, x| h.rotate_left(3) ^ x)
}

fn main() {
    let (mut random, mut sum) = (Random::new(), Sum::default());
    let mut draw = |n: usize| (0..n).map(|_| (random.draw() >> 40) as u32).collect::<Vec<_>>();
    let (mut a, b) = (draw(300_000), draw(300_000));
    let rows: Vec<_> = (0..20_000).map(|at| draw(3 + at % 4)).collect();
    let (mut out, mut values) = (vec![0; 1000], Vec::new());
    for round in 0..rounds(ROUNDS) {
        for n in [7, 100, 3000, 300_000] {
            for at in 0..60_000 / n + 1 {
                let from = at * n % (a.len() - n + 1);
                let part = &a[from..from + n];
                sum.mix(vectors(part, &b[..n]));
                sum.mix(windows(part));
                sum.mix(prefix(part, &mut out));
                sum.mix(smooth(part, &mut values).to_bits());
            }
        }
        sum.mix(text(&a[round as usize % 1000..]));
        sum.mix(ragged(&rows));
        a[round as usize % 300_000] ^= 1;
    }
    sum.end();
}
