//! What the generator's requests are, by application.

use curtail_net::Completion;
use curtail_workload::{Mix, Sampler, Schedule, Source};
use spin::protocol::Request;

/// Makes one request after another. A class is a position in the workload's mix.
pub(crate) trait Requests: Send {
    /// No request is longer, in bytes.
    const MAX_LENGTH: usize;

    /// Replaces what is in `payload` by the next request: when it arrives, in nanoseconds since the
    /// start, and its class. `None`: there are no more.
    fn draw(&mut self, payload: &mut Vec<u8>) -> Option<(u64, usize)>;

    /// The class of one that has ended, and the service time that it takes by itself, in
    /// nanoseconds.
    fn completed(&self, completion: &Completion) -> (usize, u64);
}

/// Requests for so much service.
pub(crate) struct SpinRequests {
    schedule: Schedule,
    sampler: Sampler,
}

impl SpinRequests {
    pub(crate) fn new(mix: &Mix, schedule: Schedule, seed: u64) -> Self {
        Self { schedule, sampler: mix.sampler(seed) }
    }
}

/// A request for so much service. The tag tells `completed` what it was: what the classifier takes
/// it for may be something else.
fn spin_request(class: usize, service_ns: u64, payload: &mut Vec<u8>) {
    let service_ns = u32::try_from(service_ns).unwrap_or(u32::MAX);
    let tag = (class as u64) << 32 | u64::from(service_ns);
    payload.clear();
    payload.extend_from_slice(&Request { tag, class: class as u16, service_ns }.encode());
}

/// The class and the service time of one that has ended.
fn spin_completed(completion: &Completion) -> (usize, u64) {
    ((completion.tag >> 32) as usize, completion.tag & u64::from(u32::MAX))
}

impl Requests for SpinRequests {
    const MAX_LENGTH: usize = spin::protocol::BYTES;

    fn draw(&mut self, payload: &mut Vec<u8>) -> Option<(u64, usize)> {
        let (class, service_ns) = self.sampler.draw();
        spin_request(class, service_ns, payload);
        Some((self.schedule.next_ns(), class))
    }

    fn completed(&self, completion: &Completion) -> (usize, u64) {
        spin_completed(completion)
    }
}

/// Requests for service, of a workload that changes.
pub(crate) struct ChangingRequests(pub(crate) Source);

impl Requests for ChangingRequests {
    const MAX_LENGTH: usize = spin::protocol::BYTES;

    fn draw(&mut self, payload: &mut Vec<u8>) -> Option<(u64, usize)> {
        let request = self.0.next()?;
        spin_request(request.class, request.service_ns, payload);
        Some((request.at_ns, request.class))
    }

    fn completed(&self, completion: &Completion) -> (usize, u64) {
        spin_completed(completion)
    }
}

/// LevelDB's requests.
#[cfg(feature = "kv")]
pub(crate) struct KvRequests {
    schedule: Schedule,
    maker: kv_app::load::RequestMaker,
    /// Class and service time by opcode; those without a share are never asked for.
    by_opcode: [(usize, u64); kv_app::protocol::Opcode::ALL.len()],
    random: Box<dyn FnMut() -> u64 + Send>,
}

#[cfg(feature = "kv")]
impl KvRequests {
    /// Of this mix; `services` are by class.
    pub(crate) fn new(
        mix: kv_app::load::Mix,
        schedule: Schedule,
        options: &kv_app::KvOptions,
        services: &[u32],
        seed: u64,
    ) -> Self {
        let mut by_opcode = [(0, 0); kv_app::protocol::Opcode::ALL.len()];
        for (class, ((opcode, _), &ns)) in crate::kv::opcodes(&mix).zip(services).enumerate() {
            by_opcode[opcode.index()] = (class, u64::from(ns));
        }
        Self {
            schedule,
            maker: kv_app::load::RequestMaker::new(mix, options.keys, options.value_bytes),
            by_opcode,
            random: Box::new(curtail_workload::numbers(seed)),
        }
    }
}

#[cfg(feature = "kv")]
impl Requests for KvRequests {
    const MAX_LENGTH: usize = kv_app::protocol::MAX_REQUEST;

    fn draw(&mut self, payload: &mut Vec<u8>) -> Option<(u64, usize)> {
        // The response is not read, so its id is not needed.
        let opcode = self.maker.write(0, &mut self.random, payload);
        Some((self.schedule.next_ns(), self.by_opcode[opcode.index()].0))
    }

    fn completed(&self, completion: &Completion) -> (usize, u64) {
        // The application's classes are the opcodes.
        let last = self.by_opcode.len() - 1;
        self.by_opcode[usize::from(completion.class).min(last)]
    }
}

#[cfg(all(test, feature = "kv"))]
mod tests {
    use super::*;
    use curtail_net::{Outcome, Peer};
    use kv_app::KvOptions;
    use kv_app::protocol::Opcode;

    #[test]
    fn kv_requests_find_back_to_their_class() {
        let mix = kv_app::load::Mix::GET_SCAN_50;
        let schedule = curtail_workload::Arrivals::Uniform.schedule(1.0, 1);
        let mut requests =
            KvRequests::new(mix, schedule, &KvOptions::default(), &[900, 800_000], 1);
        let mut payload = Vec::new();
        let mut seen = [0; 2];
        for _ in 0..1_000 {
            let (_, class) = requests.draw(&mut payload).unwrap();
            seen[class] += 1;
            let opcode = kv_app::protocol::Request::parse(&payload).unwrap().op.opcode();
            assert_eq!(opcode, [Opcode::Get, Opcode::Scan][class]);
            let completion = Completion {
                peer: Peer::None,
                class: opcode.index() as u16,
                outcome: Outcome::Done,
                tag: 0,
                request_bytes: 0,
                arrived_tsc: 0,
                started_tsc: 0,
                finished_tsc: 0,
                ran_cycles: 0,
                preemptions: 0,
                disturbed: false,
            };
            assert_eq!(requests.completed(&completion), (class, [900, 800_000][class]));
        }
        assert!(seen.iter().all(|&count| count > 400), "{seen:?}");
    }
}
