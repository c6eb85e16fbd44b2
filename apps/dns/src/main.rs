//! `dns`: see the library, and `dns --help`.
#![forbid(unsafe_code)]

use clap::Parser;
use curtail::{Nanos, Server, ServerBuilder, Spec};
use dns::{Dns, Zone, Zones};
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

/// An authoritative DNS server, over UDP and TCP.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// A zone, by name and file (RFC 1035), as in example.com=example.com.zone; several are several
    #[arg(long, value_name = "NAME=FILE", required = true)]
    zone: Vec<String>,
    /// Where to listen, for datagrams and connections
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5300")]
    listen: SocketAddr,
    /// Where to listen past the kernel's network besides: xdp://IFACE/IP:PORT or dpdk://DEVICE/IP:PORT,
    /// with options
    #[arg(long, value_name = "URLS")]
    packets: Option<String>,
    /// The policy; see `curtail policies`
    #[arg(long, value_name = "NAME", default_value = "tq")]
    policy: String,
    /// How long a query may run while others wait, in microseconds [default: the policy's own]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..))]
    quantum_us: Option<u64>,
    /// Workers [default: the cores, less one for the dispatcher]
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Get the cores from the core allocator (curtaild) at this socket
    #[arg(long, value_name = "PATH")]
    daemon: Option<PathBuf>,
    /// Have the core allocator receive the datagrams and send the answers: with a policy without a
    /// dispatcher (shenango)
    #[arg(long, requires = "daemon")]
    daemon_port: bool,
}

impl Args {
    fn zones(&self) -> Result<Zones, Box<dyn Error>> {
        let mut zones = Zones::default();
        for text in &self.zone {
            let (name, file) =
                text.split_once('=').ok_or_else(|| format!("--zone {text}: wants NAME=FILE"))?;
            let zone =
                Zone::load(name, file.as_ref()).map_err(|why| format!("zone {name}: {why}"))?;
            eprintln!("zone {name}: {} names", zone.names());
            zones.add(zone).map_err(|_| format!("zone {name}: given twice"))?;
        }
        Ok(zones)
    }

    fn spec(&self) -> Result<Spec, Box<dyn Error>> {
        let spec = Spec::preset(&self.policy)?;
        Ok(match self.quantum_us {
            Some(quantum) => spec.with_quantum(Nanos(quantum * 1_000))?,
            None => spec,
        })
    }

    fn server(&self) -> Result<ServerBuilder, Box<dyn Error>> {
        let spec = self.spec()?;
        let (udp, tcp) = (format!("udp://{}", self.listen), format!("tcp://{}", self.listen));
        let tcp = format!("{tcp}?prefix=u16be&idle=10s");
        let mut server = Server::builder(Dns::new(self.zones()?));
        if let Some(path) = &self.daemon {
            server = server.daemon(path);
        }
        let urls = match self.daemon_port {
            true => {
                server = server.daemon_port(udp);
                tcp
            }
            false => format!("{udp},{tcp}"),
        };
        let urls = [Some(urls), self.packets.clone()].into_iter().flatten().collect::<Vec<_>>();
        if let Some(workers) = self.workers {
            server = server.workers(workers);
        }
        Ok(server.policy(spec).transport(curtail::net::open(&urls.join(","))?))
    }
}

fn main() -> ExitCode {
    match serve(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dns: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    let server = args.server()?.build()?;
    let listens = server.listens();
    server.handle().shutdown_on_signals()?;
    println!("{listens}");
    let report = server.run()?;
    for note in report.preempt_note.iter().chain(&report.notes) {
        eprintln!("note: {note}");
    }
    for class in &report.classes {
        eprintln!(
            "{}: {} answered, {} refused, {} failed",
            class.name, class.completed, class.dropped, class.failed
        );
    }
    Ok(())
}
