//! What this machine is, from `/proc` and `/sys`; what cannot be read stays unknown.

use crate::Machine;

impl Machine {
    /// This machine and this build. The frequency of the time-stamp counter is known only where
    /// the kernel tells it; a caller that has calibrated it fills it in.
    #[must_use]
    pub fn gather() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Self {
            cpu: field(&info, "model name").and_then(known),
            cores: std::thread::available_parallelism().ok().and_then(|n| n.get().try_into().ok()),
            virtual_machine: field(&info, "flags")
                .map(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor")),
            kernel: first_line("/proc/sys/kernel/osrelease")
                .map(|release| format!("Linux {release}")),
            tsc_hz: first_line("/sys/devices/system/cpu/cpu0/tsc_freq_khz")
                .and_then(|khz| khz.parse::<u64>().ok())
                .map(|khz| khz * 1_000),
            rustc: known(env!("CURTAIL_REPORT_RUSTC")),
            llvm: known(env!("CURTAIL_REPORT_LLVM")),
        }
    }

    /// The machine in a line; empty where nothing is known.
    pub(crate) fn describe(&self) -> String {
        let mut parts = Vec::new();
        if let Some(cpu) = &self.cpu {
            parts.push(cpu.clone());
        }
        if let Some(cores) = self.cores {
            parts.push(format!("{cores} core{}", if cores == 1 { "" } else { "s" }));
        }
        if self.virtual_machine == Some(true) {
            parts.push("virtual machine".to_owned());
        }
        parts.extend(self.kernel.clone());
        if let Some(hz) = self.tsc_hz {
            parts.push(format!("TSC {:.3} GHz", hz as f64 / 1e9));
        }
        match (&self.rustc, &self.llvm) {
            (Some(rustc), Some(llvm)) => parts.push(format!("rustc {rustc} (LLVM {llvm})")),
            (Some(rustc), None) => parts.push(format!("rustc {rustc}")),
            _ => {}
        }
        parts.join(" · ")
    }
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let info = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Some CPU @ 2.00GHz\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(info, "model name"), Some("Some CPU @ 2.00GHz"));
        assert_eq!(field(info, "model"), Some("85"));
        assert_eq!(field(info, "vendor_id"), None);
    }

    #[test]
    fn this_build_is_known() {
        let machine = Machine::gather();
        assert!(machine.rustc.as_deref().is_some_and(|v| v.starts_with("1.")), "{machine:?}");
        assert!(machine.cores.is_some_and(|n| n > 0));
    }

    #[test]
    fn what_is_unknown_is_not_described() {
        assert_eq!(Machine::default().describe(), "");
        let machine = Machine { cores: Some(1), tsc_hz: Some(2_000_000_000), ..Machine::default() };
        assert_eq!(machine.describe(), "1 core · TSC 2.000 GHz");
    }
}
