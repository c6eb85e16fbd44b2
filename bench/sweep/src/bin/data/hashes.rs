//! Hashes and packing.

use curtail_sweep::{Outcome, must, text};
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use sha2::{Digest, Sha256, Sha512};
use std::fmt::Write as _;
use std::io::{Read, Write};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Of FIPS 180-4's examples.
const SHA_256_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

pub fn sha2() -> Outcome {
    let abc = hex(&Sha256::digest(b"abc"));
    must!(abc == SHA_256_ABC, "SHA-256 of abc is {abc}");
    let mut pieces = Sha512::new();
    let data: Vec<u8> = (0..20_000_u32).map(|n| (n % 251) as u8).collect();
    for piece in data.chunks(333) {
        pieces.update(piece);
    }
    let pieces = hex(&pieces.finalize());
    must!(pieces == hex(&Sha512::digest(&data)), "in pieces it is another one: {pieces}");
    Ok(pieces)
}

/// Of the empty input, from the authors' test vectors.
const BLAKE3_EMPTY: &str = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";

pub fn blake3() -> Outcome {
    let empty = blake3::hash(b"").to_hex();
    must!(empty.as_str() == BLAKE3_EMPTY, "of nothing it is {empty}");
    let data: Vec<u8> = (0..60_000_u32).map(|n| (n % 251) as u8).collect();
    let whole = blake3::hash(&data);
    let mut hasher = blake3::Hasher::new();
    for piece in data.chunks(777) {
        hasher.update(piece);
    }
    must!(hasher.finalize() == whole, "in pieces it is another one");
    Ok(format!("{whole} {}", blake3::keyed_hash(whole.as_bytes(), &data)))
}

pub fn flate2() -> Outcome {
    let data: Vec<u8> = (0..6_000_u32).flat_map(|n| (n * n / 7).to_le_bytes()).collect();
    let mut lengths = Vec::new();
    for level in [1, 6, 9] {
        let mut gz = GzEncoder::new(Vec::new(), Compression::new(level));
        gz.write_all(&data).map_err(text)?;
        let packed = gz.finish().map_err(text)?;
        let mut back = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut back).map_err(text)?;
        must!(back == data, "level {level} came back otherwise");
        lengths.push(packed.len());
    }
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&data).map_err(text)?;
    let packed = zlib.finish().map_err(text)?;
    let mut back = Vec::new();
    ZlibDecoder::new(&packed[..]).read_to_end(&mut back).map_err(text)?;
    must!(back == data, "zlib came back otherwise");
    Ok(format!("{lengths:?} {}", packed.len()))
}
