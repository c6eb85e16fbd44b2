//! LevelDB's requests, for the generator in this process.

use super::opcodes;
use curtail_load::Source;
use curtail_load::inside::{Message, Requests};
use curtail_net::Completion;
use curtail_workload::Schedule;

/// LevelDB's requests.
pub(crate) struct KvRequests {
    schedule: Schedule,
    maker: kv_app::load::RequestMaker,
    /// Class and service time by opcode; those without a share are never asked for.
    by_opcode: [(usize, u64); kv_app::protocol::Opcode::ALL.len()],
    random: Box<dyn FnMut() -> u64 + Send>,
}

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
        for (class, ((opcode, _), &ns)) in opcodes(&mix).zip(services).enumerate() {
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

impl Source for KvRequests {
    type Request = Message;

    fn draw(&mut self, next: &mut Message) -> Option<u64> {
        // The response is not read, so its id is not needed.
        let opcode = self.maker.write(0, &mut self.random, &mut next.payload);
        next.class = self.by_opcode[opcode.index()].0;
        Some(self.schedule.next_ns())
    }
}

impl Requests for KvRequests {
    fn completed(&self, completion: &Completion) -> (usize, u64) {
        // The application's classes are the opcodes.
        let last = self.by_opcode.len() - 1;
        self.by_opcode[usize::from(completion.class).min(last)]
    }
}

#[cfg(test)]
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
        let mut next = Message::default();
        let mut seen = [0; 2];
        for _ in 0..1_000 {
            requests.draw(&mut next).unwrap();
            let Message { class, ref payload } = next;
            seen[class] += 1;
            let opcode = kv_app::protocol::Request::parse(payload).unwrap().op.opcode();
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
