//! Memory that the machine has ready, before a subject asks for it.
//!
//! ```text
//! scenario ─▶ how much a subject may take ─▶ touch_memory: a process that uses it and ends ─▶ subject starts
//! ```
//!
//! A virtual machine gives memory that is not used back to its host, and waits for the host when it is used
//! again: up to three seconds a gigabyte, all of which counts as CPU time of whoever is first. That would be a
//! figure of the host. So as much as a subject may take is used just before it starts, in huge pages as the
//! subjects' allocator asks for them, and is free again when it does.

use tokio::process::Command;

use crate::meter::available_bytes;
use crate::scenario::{Scenario, Work};
use crate::subject::Failed;

/// What the memory of an object may come to in a cache that is filled: the most of all subjects.
const BYTES_AN_OBJECT: u64 = 48 << 10;
/// The same of the small pods, keys and events of scenarios without a server.
const BYTES_A_SMALL_ONE: u64 = 2 << 10;
/// What a program takes whatever it does, and some more.
const LEAST: u64 = 128 << 20;
const PAGE: usize = 4096;
/// What is asked for at once.
const BLOCK: usize = 1 << 20;

/// Uses as much memory as a subject may take in this scenario, by the program beside this one.
///
/// # Errors
/// It does not start, or fails.
pub async fn prepare(scenario: Scenario) -> Result<(), Failed> {
    let program = std::env::current_exe()?.with_file_name("touch_memory");
    let bytes = wanted(scenario, available_bytes());
    let mut command = Command::new(&program);
    command.arg(bytes.to_string()).kill_on_drop(true);
    match command
        .status()
        .await
        .map_err(|error| format!("{}: {error}", program.display()))?
    {
        status if status.success() => Ok(()),
        status => Err(format!("{}: {status}", program.display()).into()),
    }
}

/// Uses so many bytes, each page of them, and gives them back.
pub fn touch(bytes: usize) {
    let block = || {
        let mut block = vec![0_u8; BLOCK];
        block.chunks_mut(PAGE).for_each(|page| page[0] = 1);
        block
    };
    let blocks: Vec<_> = (0..bytes.div_ceil(BLOCK)).map(|_| block()).collect();
    std::hint::black_box(blocks);
}

/// BOUND: half of what the machine has left.
fn wanted(scenario: Scenario, available: u64) -> u64 {
    let each = match scenario.work.needs() {
        // All are there twice for a while.
        Some(_) if scenario.work == Work::Relist => 2 * BYTES_AN_OBJECT,
        Some(_) => BYTES_AN_OBJECT,
        None => BYTES_A_SMALL_ONE,
    };
    let all = each.saturating_mul(scenario.size as u64).max(LEAST);
    all.min(available / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_may_be_taken_is_used_and_no_more_than_half() {
        let check = |work: Work, size: usize, available: u64, expected: u64| {
            assert_eq!(wanted(Scenario { work, size }, available), expected);
        };
        let plenty = 64 << 30;
        check(Work::SyncJson, 100_000, plenty, 4_915_200_000);
        check(Work::Relist, 10_000, plenty, 983_040_000);
        check(Work::SyncJson, 100_000, 4 << 30, 2 << 30);
        check(Work::IndexList, 1_000_000, plenty, 2_048_000_000);
        check(Work::WriteToReconcile, 1_000, plenty, 128 << 20);
        check(Work::WriteToReconcile, 1_000, 0, 0);
    }
}
