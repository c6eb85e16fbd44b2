//! Pictures and packing: what goes in comes out.

use curtail_sweep::{Outcome, must, text};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, imageops};
use std::io::{Cursor, Read, Write};

pub fn image() -> Outcome {
    let picture = RgbImage::from_fn(64, 48, |x, y| Rgb([(x * 4) as u8, (y * 5) as u8, 90]));
    let mut png = Cursor::new(Vec::new());
    let whole = DynamicImage::ImageRgb8(picture.clone());
    whole.write_to(&mut png, ImageFormat::Png).map_err(text)?;
    let back = image::load_from_memory_with_format(png.get_ref(), ImageFormat::Png);
    must!(back.map_err(text)?.to_rgb8() == picture, "the PNG is another picture");
    let mut jpeg = Cursor::new(Vec::new());
    whole.write_to(&mut jpeg, ImageFormat::Jpeg).map_err(text)?;
    let back = image::load_from_memory(jpeg.get_ref()).map_err(text)?.to_rgb8();
    let worst = picture.as_raw().iter().zip(back.as_raw()).map(|(a, b)| a.abs_diff(*b)).max();
    must!(worst < Some(40), "the JPEG is off by {worst:?}");
    let small = imageops::resize(&picture, 20, 20, imageops::FilterType::Lanczos3);
    let small = imageops::rotate90(&imageops::blur(&small, 1.5));
    let sum: u64 = small.as_raw().iter().map(|byte| u64::from(*byte)).sum();
    Ok(format!("{} {} {sum}", png.get_ref().len(), jpeg.get_ref().len()))
}

pub fn zstd() -> Outcome {
    let data: Vec<u8> = (0..8_000_u32).flat_map(|n| (n * n / 9).to_le_bytes()).collect();
    let mut lengths = Vec::new();
    for level in [1, 3, 9] {
        let packed = zstd::bulk::compress(&data, level).map_err(text)?;
        let back = zstd::bulk::decompress(&packed, data.len()).map_err(text)?;
        must!(back == data, "level {level} came back otherwise");
        lengths.push(packed.len());
    }
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).map_err(text)?;
    encoder.include_checksum(true).map_err(text)?;
    for piece in data.chunks(1_000) {
        encoder.write_all(piece).map_err(text)?;
    }
    let packed = encoder.finish().map_err(text)?;
    let mut back = Vec::new();
    let mut decoder = zstd::Decoder::new(&packed[..]).map_err(text)?;
    decoder.read_to_end(&mut back).map_err(text)?;
    must!(back == data, "the stream came back otherwise");
    Ok(format!("{lengths:?} {}", packed.len()))
}
