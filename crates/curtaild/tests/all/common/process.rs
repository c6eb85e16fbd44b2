//! Programs that are processes of their own, so that they can be killed: this very test program,
//! started again to run one test, which plays.

use crate::common::{Daemon, Manner, Player, critical};
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const VARIABLE: &str = "CURTAILD_TEST_PLAYER";

/// A player's process; killed at the end, if it lives.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// `test` is the name of the test that calls [`play`].
    pub(crate) fn start(test: &str, path: &Path, spec: [u32; 3], manner: Manner) -> Self {
        let hogs = manner == Manner::Hogs;
        let spec = spec.map(|n| n.to_string()).join(" ");
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(VARIABLE, format!("{spec} {hogs} {}", path.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Plays, where this process was started to: until its input or the daemon ends.
pub(crate) fn play() {
    let Ok(asked) = std::env::var(VARIABLE) else { return };
    let words: Vec<&str> = asked.splitn(5, ' ').collect();
    let [kthreads, guaranteed, burstable, hogs, path] = words[..] else { panic!("{asked}") };
    let number = |text: &str| text.parse::<u32>().unwrap();
    let spec = critical(number(kthreads), number(guaranteed), number(burstable));
    let manner = if hogs == "true" { Manner::Hogs } else { Manner::Works };
    let player = Player::join(Path::new(path), "process", spec, manner);
    let session = player.session.as_ref().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The parent has ended, or has let go of it.
            let _ = std::io::stdin().read(&mut [0]);
            std::process::exit(0);
        });
        scope.spawn(|| {
            loop {
                (0..spec.kthreads).for_each(|kthread| player.give(kthread));
                std::thread::sleep(Duration::from_micros(300));
            }
        });
        session.wait_for_end();
        std::process::exit(0);
    });
}

/// What the daemon has open, and whether all programs have gone.
pub(crate) fn is_alone(daemon: &Daemon) -> bool {
    daemon.status()["programs"].as_array().unwrap().is_empty()
}
