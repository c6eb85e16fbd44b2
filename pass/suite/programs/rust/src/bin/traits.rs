//! Hot calls through trait objects, boxed closures and function pointers: pipelines of filters over
//! samples, most of them a few instructions long.

#![forbid(unsafe_code)]

use safepoint_programs::{Random, Sum, rounds};

const ROUNDS: u32 = 13000;

trait Filter {
    fn step(&mut self, sample: i64) -> i64;
    fn name_length(&self) -> usize {
        8
    }
}

struct Gain(i64);
struct Delay {
    past: [i64; 8],
    at: usize,
}
struct Average {
    window: Vec<i64>,
    at: usize,
}
struct Limit(i64);

impl Filter for Gain {
    fn step(&mut self, sample: i64) -> i64 {
        sample.wrapping_mul(self.0) >> 4
    }
}

impl Filter for Delay {
    fn step(&mut self, sample: i64) -> i64 {
        let past = std::mem::replace(&mut self.past[self.at], sample);
        self.at = (self.at + 1) % self.past.len();
        past + sample / 2
    }
}

impl Filter for Average {
    fn step(&mut self, sample: i64) -> i64 {
        let length = self.window.len();
        self.window[self.at % length] = sample;
        self.at += 1;
        self.window.iter().sum::<i64>() / length as i64
    }

    fn name_length(&self) -> usize {
        self.window.len()
    }
}

impl Filter for Limit {
    fn step(&mut self, sample: i64) -> i64 {
        sample.clamp(-self.0, self.0)
    }
}

fn pipeline(random: &mut Random, length: usize) -> Vec<Box<dyn Filter>> {
    let filter = |random: &mut Random| -> Box<dyn Filter> {
        match random.below(4) {
            0 => Box::new(Gain(10 + random.below(12) as i64)),
            1 => Box::new(Delay { past: [0; 8], at: 0 }),
            2 => Box::new(Average { window: vec![0; 2 + random.below(9) as usize], at: 0 }),
            _ => Box::new(Limit(1 << (12 + random.below(8)))),
        }
    };
    (0..length).map(|_| filter(random)).collect()
}

fn closures(random: &mut Random) -> Vec<Box<dyn Fn(u64) -> u64>> {
    (0..9)
        .map(|at| -> Box<dyn Fn(u64) -> u64> {
            let k = random.draw();
            match at % 3 {
                0 => Box::new(move |x| x.rotate_left((k % 63) as u32) ^ k),
                1 => Box::new(move |x| x.wrapping_mul(k | 1)),
                _ => Box::new(move |x| if x & 8 == 0 { x.wrapping_add(k) } else { x >> 1 }),
            }
        })
        .collect()
}

fn main() {
    let (mut random, mut sum) = (Random::new(), Sum::default());
    let mut lines: Vec<_> = [2, 5, 11].map(|length| pipeline(&mut random, length)).into();
    let chain = closures(&mut random);
    for round in 0..rounds(ROUNDS) {
        for line in &mut lines {
            let mut last = 0;
            for _ in 0..400 {
                let sample = (random.draw() >> 46) as i64 - (1 << 17);
                last = line.iter_mut().fold(sample, |sample, filter| filter.step(sample));
            }
            sum.mix(
                last as u64 + line.iter().map(|filter| filter.name_length() as u64).sum::<u64>(),
            );
        }
        let start = round.wrapping_mul(77);
        sum.mix((0..3000).fold(start, |x, at| chain[(x as usize + at) % chain.len()](x)));
    }
    sum.end();
}
