//! Which interfaces of the network programs may have ports on: those that the daemon was started with.
//!
//! A port past the kernel's network takes rights that the daemon may have and its programs lack: to serve
//! any address, and to answer for it. So each interface and each device of DPDK is named on the daemon's
//! command line, together with what only the daemon may say of it.

use std::str::FromStr;

/// What DPDK is told of its process and of a device. The daemon's own words: some load code.
const DAEMONS: [&str; 2] = ["args", "eal"];

/// Interfaces that ports of programs may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interfaces(Vec<Interface>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Interface {
    /// `xdp://eth0` or `dpdk://0000:03:00.0`.
    place: String,
    /// What follows the `?`.
    options: String,
}

impl FromStr for Interfaces {
    type Err = String;

    /// A comma-separated list of URLs without addresses.
    fn from_str(text: &str) -> Result<Self, String> {
        let interface = |url: &str| {
            let (place, options) = url.trim().split_once('?').unwrap_or((url.trim(), ""));
            let name = place.strip_prefix("xdp://").or_else(|| place.strip_prefix("dpdk://"));
            match name {
                Some(name) if !name.is_empty() && !name.contains('/') => {
                    Ok(Interface { place: place.to_owned(), options: options.to_owned() })
                }
                _ => {
                    Err(format!("`{url}` is no interface, like xdp://eth0 or dpdk://0000:03:00.0"))
                }
            }
        };
        let all = text.split(',').map(interface).collect::<Result<Vec<_>, _>>()?;
        for (at, one) in all.iter().enumerate() {
            if all[..at].iter().any(|other| other.place == one.place) {
                return Err(format!("{} is named twice", one.place));
            }
        }
        // It starts once, for all of its devices.
        let of_dpdk = all.iter().filter(|one| one.place.starts_with("dpdk:"));
        let mut words = of_dpdk.map(|one| one.options.split('&').find(|it| it.starts_with("eal=")));
        let first = words.next();
        if words.any(|other| Some(other) != first) {
            return Err("all devices of DPDK have the same `eal=`: it starts once".to_owned());
        }
        Ok(Self(all))
    }
}

impl Interfaces {
    /// The URL that is opened for a program that asks for `url`: with the daemon's options for the
    /// interface.
    pub(crate) fn admit(&self, url: &str) -> Result<String, String> {
        let parts: Result<Vec<_>, _> =
            url.split(',').map(|part| self.admit_one(part.trim())).collect();
        Ok(parts?.join(","))
    }

    fn admit_one(&self, url: &str) -> Result<String, String> {
        let (place, options) = url.split_once('?').unwrap_or((url, ""));
        let (scheme, rest) = place.split_once("://").unwrap_or((place, ""));
        match scheme {
            // Its clients are woken in a way that a port's loop has no part in.
            "shm" => Err("the core allocator's port is for the network, not for shm://".to_owned()),
            "xdp" | "dpdk" => {
                let name = rest.split('/').next().unwrap_or_default();
                let place = format!("{scheme}://{name}");
                let known = self.0.iter().find(|one| one.place == place).ok_or_else(|| {
                    format!("{place} is not for programs: the daemon has no `--interfaces {place}`")
                })?;
                let names = options.split('&').map(|it| it.split('=').next().unwrap_or_default());
                if let Some(name) = names.into_iter().find(|name| DAEMONS.contains(name)) {
                    return Err(format!("`{name}=` is the daemon's to say, by `--interfaces`"));
                }
                let joint = match (url.contains('?'), known.options.is_empty()) {
                    (_, true) => "",
                    (true, false) => "&",
                    (false, false) => "?",
                };
                Ok(format!("{url}{joint}{}", known.options))
            }
            _ => Ok(url.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: &str = "dpdk://net_af_packet0?args=iface=cable&eal=--no-huge;-m;64";

    #[test]
    fn programs_have_the_interfaces_of_the_command_line_only() {
        let interfaces: Interfaces = format!("xdp://eth0, {DEVICE}").parse().unwrap();
        let said = |url| interfaces.admit(url);
        for same in ["udp://127.0.0.1:0", "xdp://eth0/10.0.0.1:4000?mode=copy", "nonsense"] {
            assert_eq!(said(same).unwrap(), same);
        }
        let both = said("xdp://eth0/[fd00::1]:1,dpdk://net_af_packet0/10.0.0.1:2").unwrap();
        assert_eq!(
            both,
            format!("xdp://eth0/[fd00::1]:1,dpdk://net_af_packet0/10.0.0.1:2{}", &DEVICE[21..])
        );
        let more = said("dpdk://net_af_packet0/10.0.0.1:2?max=64").unwrap();
        assert!(more.ends_with(":2?max=64&args=iface=cable&eal=--no-huge;-m;64"), "{more}");
        for (url, why) in [
            ("shm:///tmp/file", "not for shm://"),
            ("xdp://eth1/10.0.0.1:1", "no `--interfaces xdp://eth1`"),
            ("udp://127.0.0.1:0, xdp://eth1/10.0.0.1:1", "xdp://eth1 is not for programs"),
            ("dpdk://eth0/10.0.0.1:1", "no `--interfaces dpdk://eth0`"),
            ("xdp://eth0?x=/10.0.0.1:1,xdp://eth0/1.1.1.1:1?eal=x", "`eal=` is the daemon's"),
            ("dpdk://net_af_packet0/10.0.0.1:1?max=9&args=iface=lo", "`args=` is the daemon's"),
            ("xdp://", "xdp:// is not for programs"),
        ] {
            let error = said(url).unwrap_err();
            assert!(error.contains(why), "{url}: {error}");
        }
        assert!(Interfaces::default().admit("xdp://eth0/10.0.0.1:1").is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for text in ["", "eth0", "xdp://", "udp://eth0", "xdp://eth0/10.0.0.1:1", "xdp://a,"] {
            let error = text.parse::<Interfaces>().unwrap_err();
            assert!(error.contains("is no interface"), "{text}: {error}");
        }
        let twice = "xdp://eth0,xdp://eth0?mode=copy".parse::<Interfaces>().unwrap_err();
        assert!(twice.contains("xdp://eth0 is named twice"), "{twice}");
        for other in ["dpdk://b", "dpdk://b?eal=--no-huge", "dpdk://b?queues=2"] {
            let error = format!("dpdk://a?eal=-m;64,{other}").parse::<Interfaces>().unwrap_err();
            assert!(error.contains("have the same `eal=`"), "{error}");
        }
        assert!("dpdk://a?eal=-m;64,xdp://a,dpdk://b?eal=-m;64".parse::<Interfaces>().is_ok());
    }
}
