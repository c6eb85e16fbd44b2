//! Loops whose trip counts depend on floating-point values: escape times of the Mandelbrot set, roots
//! by Newton and by bisection, an adaptive integral, random walks.

#![forbid(unsafe_code)]

use safepoint_programs::{Random, Sum, rounds};

const ROUNDS: u32 = 180;

fn escape(x: f64, y: f64, most: u32) -> u32 {
    let (mut a, mut b, mut n) = (0.0, 0.0, 0);
    while n < most && a * a + b * b <= 4.0 {
        (a, b) = (a * a - b * b + x, 2.0 * a * b + y);
        n += 1;
    }
    n
}

fn picture(width: u32, most: u32, zoom: f64) -> u64 {
    let at = |i: u32| f64::from(i) / f64::from(width) - 0.5;
    let row = |i| (0..width).map(move |j| escape(at(j) * zoom - 0.6, at(i) * zoom, most));
    (0..width).flat_map(row).map(u64::from).fold(0, |sum, n| sum.wrapping_mul(31).wrapping_add(n))
}

fn newton(target: f64) -> (f64, u64) {
    let (mut x, mut steps) = (target, 0);
    loop {
        let next = x - (x * x * x - target) / (3.0 * x * x);
        steps += 1;
        if (next - x).abs() <= 1e-12 * x.abs() || steps == 200 {
            return (next, steps);
        }
        x = next;
    }
}

fn bisect(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    while high - low > 1e-10 {
        let middle = (low + high) / 2.0;
        if f(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

fn integral(f: &dyn Fn(f64) -> f64, a: f64, b: f64, depth: u32) -> f64 {
    let middle = (a + b) / 2.0;
    let coarse = (f(a) + f(b)) * (b - a) / 2.0;
    let fine = (f(a) + 2.0 * f(middle) + f(b)) * (b - a) / 4.0;
    if depth == 0 || (fine - coarse).abs() < 1e-7 {
        return fine;
    }
    integral(f, a, middle, depth - 1) + integral(f, middle, b, depth - 1)
}

fn walk(random: &mut Random, wall: i32) -> u64 {
    let (mut place, mut steps) = (0i32, 0);
    while place.abs() < wall {
        place += if random.draw() >> 63 == 0 { 1 } else { -1 };
        steps += 1;
    }
    steps
}

fn main() {
    let (mut random, mut sum) = (Random::new(), Sum::default());
    for round in 0..rounds(ROUNDS) {
        sum.mix(picture(60, 2000, 2.5 + round as f64 / 1000.0));
        sum.mix(picture(150, 30, 3.0));
        for i in 1..300 {
            let (root, steps) = newton(f64::from(i) * 7.3);
            sum.mix(root.to_bits() ^ steps);
            sum.mix(bisect(|x| x * x - f64::from(i), 0.0, 400.0).to_bits());
        }
        let peak = random.unit();
        sum.mix(integral(&|x| 1.0 / (0.001 + (x - peak) * (x - peak)), 0.0, 1.0, 18).to_bits());
        for wall in [2, 8, 40] {
            sum.mix(walk(&mut random, wall));
        }
    }
    sum.end();
}
