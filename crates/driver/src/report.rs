//! `--report FILE` in a link: the pass's lines are collected, appended to FILE, and summed up in
//! FILE.txt, each by one write to a file opened for appending. So links that run at the same time
//! add their parts one after the other, and none loses or sums up another's.

use crate::summary;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What the pass writes in this link: a file without a name, that goes with this process whatever
/// happens. The link's back ends open it through `/proc`.
pub struct Part {
    file: File,
    report: PathBuf,
    output: String,
}

impl Part {
    /// An empty one, that is to go to `report`. `output`: what is linked.
    ///
    /// # Errors
    /// No temporary file can be made.
    pub fn new(report: PathBuf, output: String) -> Result<Self, String> {
        let name = format!("curtail-report-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let make = || {
            // Left behind by a process of the same number that was killed right here.
            let _ = fs::remove_file(&path);
            let mut options = OpenOptions::new();
            let file = options.read(true).append(true).create_new(true).mode(0o600).open(&path)?;
            fs::remove_file(&path)?;
            Ok(file)
        };
        let file = make().map_err(|error: io::Error| format!("{}: {error}", path.display()))?;
        Ok(Self { file, report, output })
    }

    /// Where children of this process find it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Runs the link and hands on what was written, also where it failed: then the report may say
    /// why.
    ///
    /// # Errors
    /// The linker does not start, or the report cannot be written.
    pub fn run(self, mut link: Command) -> Result<ExitCode, String> {
        let status = link.status();
        let status =
            status.map_err(|error| format!("{}: {error}", link.get_program().display()))?;
        self.hand_on()?;
        Ok(status.code().map_or(ExitCode::FAILURE, |code| ExitCode::from(code as u8)))
    }

    fn hand_on(mut self) -> Result<(), String> {
        let mut lines = String::new();
        let read = self.file.rewind().and_then(|()| self.file.read_to_string(&mut lines));
        read.map_err(|error| format!("the pass's report: {error}"))?;
        append(&self.report, &lines)?;
        append(&summary_of(&self.report), &summary::summarise(&self.output, &lines)?)
    }
}

/// The file for people beside the report.
#[must_use]
pub fn summary_of(report: &Path) -> PathBuf {
    let mut name = report.as_os_str().to_owned();
    name.push(".txt");
    PathBuf::from(name)
}

/// Begins both files anew; what they were is kept beside them until [`end`]. Where that was never
/// called, as a build was interrupted, what was kept then is kept on.
///
/// # Errors
/// One cannot be written.
pub fn begin(report: &Path) -> Result<(), String> {
    for file in [report, &summary_of(report)] {
        let told = |error: io::Error| format!("{}: {error}", file.display());
        if fs::metadata(file).is_ok_and(|data| data.is_file() && data.len() > 0) {
            fs::rename(file, before(file)).map_err(told)?;
        }
        fs::write(file, "").map_err(told)?;
    }
    Ok(())
}

/// The build has ended. Whether it linked something: if not, both files are again what they were.
///
/// # Errors
/// One cannot be written.
pub fn end(report: &Path) -> Result<bool, String> {
    let linked = fs::metadata(summary_of(report)).is_ok_and(|data| data.len() > 0);
    for file in [report, &summary_of(report)] {
        let before = before(file);
        let done = match linked {
            true => fs::remove_file(&before),
            false => fs::rename(&before, file),
        };
        match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("{}: {error}", before.display()));
            }
            _ => {}
        }
    }
    Ok(linked)
}

/// Where a file of an earlier build is kept.
fn before(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".before");
    PathBuf::from(name)
}

fn append(file: &Path, text: &str) -> Result<(), String> {
    let opened = OpenOptions::new().append(true).create(true).open(file);
    let written = opened.and_then(|mut opened| opened.write_all(text.as_bytes()));
    written.map_err(|error| format!("--report {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_links_nothing_leaves_the_report_as_it_was() {
        let directory = std::env::temp_dir().join(format!("curtail-again-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let report = directory.join("r.json");
        let both = || {
            let text = fs::read_to_string(summary_of(&report)).unwrap();
            (fs::read_to_string(&report).unwrap(), text)
        };
        let write = |text: &str| {
            append(&report, text).unwrap();
            append(&summary_of(&report), text).unwrap();
        };
        begin(&report).unwrap();
        write("first");
        assert_eq!(end(&report), Ok(true));
        begin(&report).unwrap();
        assert_eq!((both(), end(&report)), ((String::new(), String::new()), Ok(false)));
        assert_eq!(both(), ("first".to_owned(), "first".to_owned()));
        // Interrupted: its end never comes.
        begin(&report).unwrap();
        begin(&report).unwrap();
        assert_eq!((end(&report), both().0.as_str()), (Ok(false), "first"));
        begin(&report).unwrap();
        write("second");
        assert_eq!((end(&report), both().0.as_str()), (Ok(true), "second"));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "nothing is left beside them");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn parallel_links_add_their_parts() {
        let directory = std::env::temp_dir().join(format!("curtail-parts-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let report = directory.join("r.json");
        begin(&report).unwrap();
        // Both are open at once, as in links that run in parallel.
        let first = Part::new(report.clone(), "one".into()).unwrap();
        let second = Part::new(report.clone(), "two".into()).unwrap();
        for (part, name) in [(&first, "f"), (&second, "g")] {
            let line = format!("{{\"name\":\"{name}\",\"longest\":7,\"skipped\":null}}\n");
            append(&part.path(), &line).unwrap();
        }
        second.hand_on().unwrap();
        first.hand_on().unwrap();
        let (lines, text) = (
            fs::read_to_string(&report).unwrap(),
            fs::read_to_string(summary_of(&report)).unwrap(),
        );
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(lines.lines().count(), 2, "{lines}");
        assert!(text.starts_with("two\n") && text.contains("\none\n"), "{text}");
        assert_eq!(text.matches("modules, functions          0, 1\n").count(), 2, "{text}");
    }
}
