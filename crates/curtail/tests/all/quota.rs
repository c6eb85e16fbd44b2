//! Threads are planned for the quota of a control group: in a real one, where this machine lets us
//! make one.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Set in the process that has been put into the group.
const INSIDE: &str = "CURTAIL_TEST_IN_GROUP";

/// A group of ours, which goes with this.
struct Group(PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A group that has half a core, or why there is none.
fn half_a_core() -> Result<Group, String> {
    let name = format!("curtail-test-{}", std::process::id());
    let mut why = String::new();
    for (base, quota) in [
        ("/sys/fs/cgroup", ("cpu.max", "50000 100000")),
        ("/sys/fs/cgroup/cpu", ("cpu.cfs_quota_us", "50000")),
    ] {
        let path = Path::new(base).join(&name);
        let made = fs::create_dir(&path).map(|()| Group(path.clone()));
        // The kernel makes a group's files; where it does not, this is another directory.
        let mut opened = fs::OpenOptions::new();
        let opened =
            made.and_then(|group| Ok((group, opened.write(true).open(path.join(quota.0))?)));
        match opened.and_then(|(group, mut file)| {
            file.write_all(quota.1.as_bytes())?;
            Ok(group)
        }) {
            Ok(group) => return Ok(group),
            Err(error) => why += &format!("{}: {error}; ", path.display()),
        }
    }
    Err(why)
}

#[test]
fn half_a_core_is_one_thread_that_floats() {
    if std::env::var_os(INSIDE).is_some() {
        let quota = curtail::cpu_quota().expect("this process is in the group");
        assert_eq!((quota.cores(), quota.threads()), (0.5, 1));
        assert_eq!(curtail::pool::Pool::builder().build().unwrap().workers(), 1);
        let sum = curtail::run(|| curtail::spawn(|| 5).join().unwrap() + 2);
        assert_eq!(sum, 7);
        return;
    }
    let group = match half_a_core() {
        Ok(group) => group,
        Err(why) => return eprintln!("not tested: no control group can be made here: {why}"),
    };
    if curtail::allowed_cores().len() < 2 {
        return eprintln!("not tested: one core is what half a core is planned as, too");
    }
    // The shell puts itself into the group and becomes this program.
    let own = std::env::current_exe().unwrap();
    let script = "echo $$ >\"$0/cgroup.procs\" && exec \"$@\"";
    let inside = Command::new("sh")
        .args(["-c", script])
        .arg(&group.0)
        .arg(own)
        .args(["--exact", "quota::half_a_core_is_one_thread_that_floats", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stderr);
    assert!(inside.status.success(), "{said}\n{}", String::from_utf8_lossy(&inside.stdout));
}
