//! Runs of a sweep in their file as they end, so that a sweep that is interrupted has not run in vain.
//!
//! After each run the file is a complete array. At the end the caller writes the whole sweep in
//! order, by [`write_runs`](crate::write_runs).

use crate::{Error, Run};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How the array ends.
const END: &str = "\n]\n";

/// A file that gets each run when it has ended. Any thread may add one.
#[derive(Debug)]
pub struct Partial {
    /// None: there is no file, or it is one (a pipe, a device) that can't be written twice.
    to: Option<PathBuf>,
    file: Mutex<Option<File>>,
}

impl Partial {
    /// For runs that are to go to `to` in the end (`-`: standard output). Nothing is written yet.
    ///
    /// # Errors
    /// Where that file can't be written: then the runs need not begin.
    pub fn begin(to: Option<&str>) -> Result<Self, Error> {
        let to = to.filter(|to| *to != "-").map(PathBuf::from);
        let file = Mutex::new(None);
        let Some(path) = &to else { return Ok(Self { to, file }) };
        if std::fs::metadata(path).is_ok_and(|existing| !existing.is_file()) {
            return Ok(Self { to: None, file });
        }
        can_write(path)
            .map_err(|error| Error::io(format!("cannot write {}", path.display()), error))?;
        Ok(Self { to, file })
    }

    /// Adds one run to the file. The first replaces what was there.
    ///
    /// # Errors
    /// Where it can't be written.
    pub fn add(&self, run: &Run) -> Result<(), Error> {
        let Some(path) = &self.to else { return Ok(()) };
        let run = serde_json::to_string_pretty(run).expect("string keys, and nothing that fails");
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut file, path, &run)
            .map_err(|error| Error::io(format!("cannot write {}", path.display()), error))
    }
}

/// Says whether it can be written, and changes nothing.
fn can_write(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    }
}

fn write(file: &mut Option<File>, path: &Path, run: &str) -> io::Result<()> {
    match file {
        Some(file) => {
            file.seek(SeekFrom::End(-(END.len() as i64)))?;
            file.write_all(format!(",\n{run}{END}").as_bytes())
        }
        None => {
            let new = file.insert(File::create(path)?);
            new.write_all(format!("[\n{run}{END}").as_bytes())
        }
    }
}
