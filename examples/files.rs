//! System calls that block, such as those for files, run on ordinary threads (`curtail::blocking`);
//! meanwhile the kthread runs other threads.
#![forbid(unsafe_code)]

use std::fs;
use std::io;

fn main() -> io::Result<()> {
    curtail::run(|| {
        let name = format!("curtail-example-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let made = directory.clone();
        curtail::blocking(move || fs::create_dir(made))?;
        let writers: Vec<_> = (0..8)
            .map(|n| {
                let file = directory.join(format!("{n}.txt"));
                curtail::spawn(move || {
                    curtail::blocking(move || fs::write(file, format!("file {n}\n")))
                })
            })
            .collect();
        for writer in writers {
            writer.join().expect("no writer panics")?;
        }
        let bytes = curtail::blocking(move || -> io::Result<u64> {
            let mut bytes = 0;
            for entry in fs::read_dir(&directory)? {
                bytes += entry?.metadata()?.len();
            }
            fs::remove_dir_all(&directory)?;
            Ok(bytes)
        })?;
        println!("8 files, {bytes} bytes");
        Ok(())
    })
}
