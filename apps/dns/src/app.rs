//! The server: all workers read the same zones, and keep nothing.

use crate::answer::respond;
use crate::zone::Zones;
use curtail::net::Peer;
use curtail::{App, Class, Response, WorkerId, context};

/// Bytes of a message's header.
const HEADER: usize = 12;

/// An authoritative server for some zones, as an application of the runtime. TCP has
/// [short frames](curtail::net::Wire::ShortFrames).
#[derive(Debug)]
pub struct Dns {
    zones: Zones,
}

impl Dns {
    /// For these zones.
    #[must_use]
    pub fn new(zones: Zones) -> Self {
        Self { zones }
    }
}

impl App for Dns {
    type Worker = ();

    fn classes(&self) -> Vec<Class> {
        vec![Class::named("query")]
    }

    fn setup_worker(&self, _: WorkerId) {}

    fn handle(&self, (): &(), request: &[u8], response: &mut Response) {
        respond(&self.zones, request, is_datagram, response.as_mut_vec());
    }

    fn failed(&self, request: &[u8], response: &mut Response) {
        response.clear();
        server_failure(request, response);
    }

    fn overloaded(&self, request: &[u8], response: &mut Response) {
        server_failure(request, response);
    }
}

/// Whether the request that is worked for came as a datagram.
fn is_datagram() -> bool {
    context().is_none_or(|context| !matches!(context.peer(), Peer::Tcp { .. } | Peer::Local { .. }))
}

/// SERVFAIL, with the header alone: no record is looked at for it.
fn server_failure(request: &[u8], response: &mut Response) {
    const ANSWER: u8 = 0x80;
    const SERVFAIL: u8 = 2;
    let Some([id_high, id_low, flags, ..]) = request.first_chunk::<HEADER>() else { return };
    if flags & ANSWER == 0 {
        // Opcode and "recursion desired" come back.
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&[*id_high, *id_low, ANSWER | (flags & 0x79), SERVFAIL]);
        response.write(&header);
    }
}
