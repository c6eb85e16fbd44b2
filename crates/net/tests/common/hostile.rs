//! Frames that nobody means well with.

use super::frames::{OUR4, OUR6, THEIR4, THEIR6, arp, request4, request6, solicitation};

/// How many there are to be: as `CURTAIL_HOSTILE_FRAMES` says.
pub fn frame_count(usual: u64) -> u64 {
    let asked = std::env::var("CURTAIL_HOSTILE_FRAMES");
    asked.map_or(usual, |it| it.parse().expect("a number of frames"))
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Good frames that bad ones are made of.
pub fn seeds() -> Vec<Vec<u8>> {
    let tagged =
        [&request4(b"tagged")[..12], &[0x81, 0, 0, 1], &request4(b"tagged")[12..]].concat();
    vec![
        request4(b"a request"),
        request4(&[9; 1_400]),
        request4(b""),
        request6(b"another request"),
        request6(&[9; 1_000]),
        arp(THEIR4, OUR4),
        solicitation(THEIR6, OUR6, 255),
        solicitation([0; 16].into(), OUR6, 255),
        tagged,
    ]
}

/// A frame with something wrong, or, now and then, nothing.
pub fn hostile(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut frame = seeds[random.below(seeds.len())].clone();
    for _ in 0..random.below(4) {
        let length = frame.len();
        match random.below(7) {
            0 if length > 0 => frame[random.below(length)] ^= 1 << random.below(8),
            1 if length > 0 => frame[random.below(length)] = random.next() as u8,
            // Where the headers are.
            2 if length > 61 => frame[12 + random.below(50)] = [0, 1, 0x7f, 0xff][random.below(4)],
            3 => frame.truncate(random.below(length + 1)),
            4 => frame.extend((0..random.below(80)).map(|at| at as u8)),
            5 => {
                let other = &seeds[random.below(seeds.len())];
                let at = random.below(length.min(other.len()));
                frame.truncate(at);
                frame.extend(&other[at..]);
            }
            _ => {
                frame = (0..random.below(200)).map(|_| random.next() as u8).collect();
            }
        }
    }
    // What is behind a checksum is to be reached, too.
    if random.below(2) == 0 {
        repair(&mut frame);
    }
    frame
}

/// Makes the checksum of IPv4's header right, and leaves out UDP's.
fn repair(frame: &mut [u8]) {
    if frame.len() < 42 || frame[12..14] != [8, 0] || frame[14] & 15 != 5 {
        return;
    }
    frame[40..42].fill(0);
    frame[24..26].fill(0);
    let sum = etherparse::checksum::Sum16BitWords::new().add_slice(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.ones_complement().to_ne_bytes());
}
