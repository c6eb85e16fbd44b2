//! How much time on the cores the control groups of the process leave it (`cpu.max` of version 2,
//! `cpu.cfs_quota_us` of version 1). Read once, when threads are planned.
//!
//! A group's quota holds for all that is below it, so the least of a group and those above it counts,
//! as far up as the process sees.

use std::fs;
use std::path::{Path, PathBuf};

/// So much time on cores in every period, all threads of the group together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// In microseconds.
    pub time_us: u64,
    /// In microseconds.
    pub period_us: u64,
}

impl Quota {
    /// In cores.
    #[must_use]
    pub fn cores(self) -> f64 {
        self.time_us as f64 / self.period_us as f64
    }

    /// How many threads may run all the time within it; one at least, which is stopped now and then
    /// where that is more than the quota.
    #[must_use]
    pub fn threads(self) -> usize {
        usize::try_from(self.time_us / self.period_us).unwrap_or(usize::MAX).max(1)
    }
}

/// The quota of the process; `None`: there is none, or none that it can see.
#[must_use]
pub fn cpu_quota() -> Option<Quota> {
    find(Path::new("/"))
}

/// `root`: `/`, or a directory that looks like it.
fn find(root: &Path) -> Option<Quota> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let all = places(&groups, &mounts);
    let each = all.iter().flat_map(|place| place.quotas(root));
    // The least: of two fractions, that of the smaller product with the other's denominator.
    each.min_by_key(|quota| u128::from(quota.time_us) * 1_000_000_000 / u128::from(quota.period_us))
}

/// A hierarchy of groups as it is mounted, and the process's group in it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    unified: bool,
    mount: PathBuf,
    /// Below the mount.
    group: PathBuf,
}

impl Place {
    /// Of the process's group and of those above it.
    fn quotas(&self, root: &Path) -> Vec<Quota> {
        let mount = root.join(self.mount.strip_prefix("/").unwrap_or(&self.mount));
        let file = |group: &Path, name: &str| fs::read_to_string(mount.join(group).join(name)).ok();
        let one = |group: &Path| match self.unified {
            true => of_max(&file(group, "cpu.max")?),
            false => of_cfs(&file(group, "cpu.cfs_quota_us")?, &file(group, "cpu.cfs_period_us")?),
        };
        self.group.ancestors().filter_map(one).collect()
    }
}

/// `cpu.max`: the time or `max`, and the period.
fn of_max(text: &str) -> Option<Quota> {
    let (time, period) = text.trim().split_once(' ')?;
    quota(time, period)
}

/// The two files of version 1; a time of -1 is none.
fn of_cfs(time: &str, period: &str) -> Option<Quota> {
    quota(time.trim(), period.trim())
}

fn quota(time: &str, period: &str) -> Option<Quota> {
    let (time_us, period_us) = (time.parse().ok()?, period.parse().ok()?);
    (time_us > 0 && period_us > 0).then_some(Quota { time_us, period_us })
}

/// Where the groups are that may have a quota, from `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn places(groups: &str, mounts: &str) -> Vec<Place> {
    mounts.lines().filter_map(|line| place(groups, line)).collect()
}

fn place(groups: &str, mount: &str) -> Option<Place> {
    // ID PARENT DEVICE ROOT MOUNT OPTIONS … - TYPE SOURCE OPTIONS
    let (front, back) = mount.split_once(" - ")?;
    let mut front = front.split(' ').skip(3);
    let (root, mount) = (unescaped(front.next()?), unescaped(front.next()?));
    let mut back = back.split(' ');
    let (kind, options) = (back.next()?, back.nth(1)?);
    let unified = match kind {
        "cgroup2" => true,
        "cgroup" if options.split(',').any(|option| option == "cpu") => false,
        _ => return None,
    };
    let path = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let own = match unified {
            true => number == "0" && controllers.is_empty(),
            false => controllers.split(',').any(|controller| controller == "cpu"),
        };
        own.then_some(path)
    })?;
    // In a container, what is mounted may be the group itself, by its name outside.
    let group = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(""));
    // A group above what the container sees is named by `..`.
    let seen = group.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let group = if seen { group } else { Path::new("") };
    Some(Place { unified, mount: mount.into(), group: group.to_owned() })
}

/// The kernel writes blanks and the like as three octal digits.
fn unescaped(text: &str) -> String {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                out.push(code);
                rest = &after[3..];
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel shows, as files below a directory that goes with this.
    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = format!("curtail-quota-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(root);
            for (file, text) in files {
                let file = root.join(file);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const UNIFIED: &str =
        "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const SPLIT: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn quotas_are_read_and_counted() {
        assert_eq!(of_max("max 100000\n"), None);
        let two = of_max("200000 100000\n").unwrap();
        assert_eq!((two.cores(), two.threads()), (2.0, 2));
        let half = of_max("50000 100000").unwrap();
        assert_eq!((half.cores(), half.threads()), (0.5, 1));
        assert_eq!(of_max("250000 100000").unwrap().threads(), 2);
        assert_eq!(of_cfs("-1\n", "100000\n"), None);
        assert_eq!(of_cfs("400000\n", "50000\n").unwrap().threads(), 8);
        for text in ["", "max", "5", "0 100000", "5 0", "x 100000", "99999999999999999999 1"] {
            assert_eq!(of_max(text), None, "{text}");
        }
    }

    #[test]
    fn the_least_of_a_group_and_those_above_counts() {
        let root = Root::new(
            "v2",
            &[
                ("proc/self/cgroup", "0::/pods/one/app\n"),
                ("proc/self/mountinfo", UNIFIED),
                ("sys/fs/cgroup/pods/cpu.max", "800000 100000\n"),
                ("sys/fs/cgroup/pods/one/cpu.max", "100000 50000\n"),
                ("sys/fs/cgroup/pods/one/app/cpu.max", "max 100000\n"),
            ],
        );
        assert_eq!(find(&root.0), Some(Quota { time_us: 100_000, period_us: 50_000 }));
    }

    #[test]
    fn of_version_1_too_and_beside_version_2() {
        let groups = "4:memory:/x\n3:cpuset:/\n2:cpu,cpuacct:/docker/7f\n0::/\n";
        let quota = ("sys/fs/cgroup/cpu,cpuacct/docker/7f/cpu.cfs_quota_us", "150000\n");
        let period = ("sys/fs/cgroup/cpu,cpuacct/docker/7f/cpu.cfs_period_us", "100000\n");
        let proc = [("proc/self/cgroup", groups), ("proc/self/mountinfo", SPLIT)];
        let root = Root::new("v1", &[proc[0], proc[1], quota, period]);
        assert_eq!(find(&root.0), Some(Quota { time_us: 150_000, period_us: 100_000 }));
    }

    #[test]
    fn a_container_may_see_its_own_group_alone() {
        // Mounted is the group itself, by the name that it has outside; or that is hidden.
        let mount = "32 31 0:29 /docker/7f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu";
        let place = place("2:cpu:/docker/7f\n", mount).unwrap();
        assert_eq!(place.group, Path::new(""));
        for path in ["/", "/../../outside", "/elsewhere/x"] {
            let place = super::place(&format!("0::{path}\n"), UNIFIED).unwrap();
            let above = path.contains("..");
            assert!(place.unified && (above || path == "/") == (place.group == Path::new("")));
        }
    }

    #[test]
    fn what_is_not_there_is_no_quota() {
        let root = Root::new("none", &[("proc/self/cgroup", "0::/a\n")]);
        assert_eq!(find(&root.0), None);
        let root = Root::new(
            "bare",
            &[("proc/self/cgroup", "garbage\n0::/a\n"), ("proc/self/mountinfo", UNIFIED)],
        );
        assert_eq!(find(&root.0), None);
        for text in ["", " - ", "1 2 3 - cgroup2", "a b c d e f - cgroup x"] {
            assert!(places("0::/\n", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn names_are_unescaped() {
        assert_eq!(unescaped(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescaped(r"/a\04"), r"/a\04");
    }
}
