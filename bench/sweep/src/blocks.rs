//! The check of a global allocator: blocks of many sizes, each full of its owner's number, some of
//! which others free.

use crate::inside::{compute, ticket};
use crate::{Outcome, must};
use std::sync::Mutex;

/// Filled with the first byte's value, all of them.
type Block = Vec<u8>;

/// From one to the next, whoever that is.
static PASSED_ON: Mutex<Vec<Block>> = Mutex::new(Vec::new());

fn is_whole(block: &Block) -> bool {
    block.iter().all(|byte| *byte == block[0])
}

/// Allocates, grows, passes on and frees.
pub fn blocks() -> Outcome {
    let own = ticket() as u8;
    let mut blocks: Vec<Block> = Vec::new();
    for n in 0..60_usize {
        blocks.push(vec![own; 1 + n * n * 7 % 5_000]);
        if n.is_multiple_of(20) {
            compute();
            blocks.push(vec![own; 100_000]);
        }
        let at = n * 31 % blocks.len();
        let grown = blocks[at].len() + 50;
        blocks[at].resize(grown, own);
        if n.is_multiple_of(3) {
            drop(blocks.swap_remove(n * 13 % blocks.len()));
        }
    }
    for block in &blocks {
        must!(block[0] == own && is_whole(block), "a block was given twice");
    }
    blocks.truncate(12);
    let taken: Vec<Block> = {
        let mut passed_on = PASSED_ON.lock().map_err(|_| "poisoned")?;
        passed_on.append(&mut blocks);
        let left = passed_on.len().saturating_sub(100);
        passed_on.drain(..left).collect()
    };
    for block in &taken {
        must!(is_whole(block), "a block that was passed on was given twice");
    }
    Ok("whole".to_owned())
}
