//! Bit manipulation in long straight lines and fixed rounds: SHA-256, ChaCha20, base64, a CRC by
//! bits, big-number multiplication.

#![forbid(unsafe_code)]

use safepoint_programs::{Random, Sum, rounds};

const ROUNDS: u32 = 900;

/// The first 32 bits of the fractions of the primes' roots: `degree` 2 or 3.
fn constants<const N: usize>(degree: u32) -> [u32; N] {
    let mut primes = (2u64..).filter(|n| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0));
    std::array::from_fn(|_| {
        let scaled = u128::from(primes.next().unwrap_or(2)) << (32 * degree);
        let (mut low, mut high) = (0u128, 1u128 << 36);
        while high - low > 1 {
            let middle = (low + high) / 2;
            if middle.pow(degree) <= scaled {
                low = middle;
            } else {
                high = middle;
            }
        }
        low as u32
    })
}

fn compress(state: &mut [u32; 8], block: &[u8], k: &[u32; 64]) {
    let mut w = [0u32; 64];
    for (word, bytes) in w.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    for i in 16..64 {
        let (a, b) = (w[i - 15], w[i - 2]);
        let s0 = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
        let s1 = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for i in 0..64 {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = e & f ^ !e & g;
        let t1 = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(k[i]).wrapping_add(w[i]);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(t1), c, b, a, t1.wrapping_add(t2));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}

fn sha256(message: &[u8], start: &[u32; 8], k: &[u32; 64]) -> u64 {
    let mut state = *start;
    let blocks = message.chunks_exact(64);
    let rest = blocks.remainder();
    blocks.for_each(|block| compress(&mut state, block, k));
    let mut last = [0u8; 128];
    last[..rest.len()].copy_from_slice(rest);
    last[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    last[end - 8..end].copy_from_slice(&(8 * message.len() as u64).to_be_bytes());
    last[..end].chunks_exact(64).for_each(|block| compress(&mut state, block, k));
    u64::from(state[0]) << 32 | u64::from(state[7])
}

fn quarter(s: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    s[a] = s[a].wrapping_add(s[b]);
    s[d] = (s[d] ^ s[a]).rotate_left(16);
    s[c] = s[c].wrapping_add(s[d]);
    s[b] = (s[b] ^ s[c]).rotate_left(12);
    s[a] = s[a].wrapping_add(s[b]);
    s[d] = (s[d] ^ s[a]).rotate_left(8);
    s[c] = s[c].wrapping_add(s[d]);
    s[b] = (s[b] ^ s[c]).rotate_left(7);
}

fn chacha(key: &[u32; 16], bytes: &mut [u8]) {
    for (counter, block) in bytes.chunks_mut(64).enumerate() {
        let mut start = *key;
        start[12] = counter as u32;
        let mut s = start;
        for _ in 0..10 {
            for i in 0..4 {
                quarter(&mut s, [i, 4 + i, 8 + i, 12 + i]);
            }
            for i in 0..4 {
                quarter(&mut s, [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4]);
            }
        }
        for (bytes, (word, start)) in block.chunks_mut(4).zip(s.iter().zip(start)) {
            let word = word.wrapping_add(start).to_le_bytes();
            bytes.iter_mut().zip(word).for_each(|(byte, key)| *byte ^= key);
        }
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().enumerate().fold(0u32, |g, (i, b)| g | u32::from(*b) << (16 - 8 * i));
        for i in 0..=chunk.len() {
            out.push(char::from(LETTERS[(group >> (18 - 6 * i) & 63) as usize]));
        }
    }
    out
}

fn crc_by_bits(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |c, _| c >> 1 ^ (0xEDB8_8320 & (c & 1).wrapping_neg()))
    })
}

fn multiply(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut out = vec![0u32; a.len() + b.len()];
    for (i, x) in a.iter().enumerate() {
        let mut carry = 0u64;
        for (j, y) in b.iter().enumerate() {
            let t = u64::from(*x) * u64::from(*y) + u64::from(out[i + j]) + carry;
            out[i + j] = t as u32;
            carry = t >> 32;
        }
        out[i + b.len()] = carry as u32;
    }
    out
}

fn main() {
    let (mut random, mut sum) = (Random::new(), Sum::default());
    let (start, k) = (constants::<8>(2), constants::<64>(3));
    let mut bytes: Vec<u8> = (0..1 << 16).map(|_| random.draw() as u8).collect();
    for _ in 0..rounds(ROUNDS) {
        for length in [3, 55, 1000, 1 << 16] {
            for _ in 0..1 + 3000 / length {
                let at = random.below((bytes.len() - length + 1) as u64) as usize;
                let message = &mut bytes[at..at + length];
                sum.mix(sha256(message, &start, &k));
                chacha(&std::array::from_fn(|i| random.draw() as u32 ^ i as u32), message);
                sum.mix(base64(&message[..length.min(5000)]).len() as u64);
                sum.mix(u64::from(crc_by_bits(&message[..length.min(5000)])));
            }
        }
        for words in [4, 30, 300] {
            let mut draw = || (0..words).map(|_| random.draw() as u32).collect::<Vec<_>>();
            let (a, b) = (draw(), draw());
            sum.mix(multiply(&a, &b).iter().fold(0, |h: u64, w| h.rotate_left(5) ^ u64::from(*w)));
        }
    }
    sum.end();
}
