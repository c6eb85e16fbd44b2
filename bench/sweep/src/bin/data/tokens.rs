//! Tokens that never come twice.

use curtail_sweep::{Outcome, must};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Mutex;
use ulid::{Generator, Ulid};
use uuid::Uuid;

/// Of all threads and jobs of this process.
static SEEN: Mutex<Option<HashSet<u128>>> = Mutex::new(None);
const AT_A_TIME: usize = 200;

fn all_new(tokens: &[u128]) -> Result<(), String> {
    let mut seen = SEEN.lock().map_err(|_| "poisoned")?;
    let seen = seen.get_or_insert_default();
    match tokens.iter().find(|token| !seen.insert(**token)) {
        Some(twice) => Err(format!("{twice:032x} came twice")),
        None => Ok(()),
    }
}

pub fn rand() -> Outcome {
    let tokens: Vec<u128> = (0..AT_A_TIME).map(|_| rand::random()).collect();
    all_new(&tokens)?;
    let mut seeded = StdRng::seed_from_u64(7);
    let sum = (0..500).fold(0_u64, |sum, _| sum.wrapping_mul(31) ^ seeded.random::<u64>());
    Ok(sum.to_string())
}

pub fn uuid() -> Outcome {
    let tokens: Vec<u128> = (0..AT_A_TIME).map(|_| Uuid::new_v4().as_u128()).collect();
    all_new(&tokens)?;
    let in_order: Vec<Uuid> = (0..AT_A_TIME).map(|_| Uuid::now_v7()).collect();
    must!(in_order.is_sorted(), "those of version 7 are out of order");
    all_new(&in_order.iter().map(Uuid::as_u128).collect::<Vec<_>>())?;
    must!(in_order.iter().all(|id| id.get_version_num() == 7), "another version");
    Ok("new".to_owned())
}

thread_local! {
    static GENERATOR: RefCell<Generator> = RefCell::new(Generator::new());
}

pub fn ulid() -> Outcome {
    let tokens: Vec<u128> = (0..AT_A_TIME).map(|_| Ulid::generate().0).collect();
    all_new(&tokens)?;
    let next = || GENERATOR.with_borrow_mut(|own| own.generate().map_err(|_| "overflow"));
    let own: Result<Vec<Ulid>, &str> = (0..AT_A_TIME).map(|_| next()).collect();
    let own = own?;
    must!(own.is_sorted(), "a thread's own are out of order");
    all_new(&own.iter().map(|id| id.0).collect::<Vec<_>>())?;
    Ok("new".to_owned())
}
