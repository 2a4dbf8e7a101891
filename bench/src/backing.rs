//! Memory that the machine has ready before a subject asks for it.
//!
//! ```text
//! scenario ─▶ how much a subject may take ─▶ touch_memory: uses twice as much, keeps every other block ─▶ subject starts
//! ```
//!
//! A virtual machine returns unused memory to its host, and waits for the host when the memory is
//! used again: up to four seconds a gigabyte, all of which counts as CPU time of the first subject.
//! That would be a figure of the host. So the bench touches as much memory as a subject may take
//! just before it starts, in huge pages as the subjects' allocator asks for them, and then frees
//! it.
//!
//! Freeing it all is not enough. A subject that ran for three seconds on memory just freed found a
//! tenth of a gigabyte slow again after one to two and a half seconds: half a second in all. Every
//! two seconds Linux reports a sixteenth of the free blocks of each size to its host, the most
//! recently freed first, and puts them last. The likely cause is that free huge pages merge into
//! larger blocks, so that few of their own size are left, and a subject uses up those before a
//! larger one is split for it. So every other huge page is kept in use while the subjects run. The
//! free pages between them cannot merge, and are more than a subject takes. This removes the slow
//! stretch, or shortens it.

use std::process::Stdio;

use memmap2::MmapMut;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::meter::available_bytes;
use crate::scenario::{Scenario, Work};
use crate::subject::Failed;

/// The most memory that an object takes in a filled cache, over all subjects.
const BYTES_AN_OBJECT: u64 = 48 << 10;
/// The most memory that a small pod, key or event takes in a scenario without a server.
const BYTES_A_SMALL_ONE: u64 = 2 << 10;
/// The memory that a program takes whatever it does, with a margin.
const LEAST: u64 = 128 << 20;
const PAGE: usize = 4096;
/// The unit that is kept or freed: a huge page, where Linux places a mapping of this size as one.
const BLOCK: usize = 2 << 20;

/// The helper process that touches memory for the bench. It ends with this.
pub struct Backing {
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// BOUND: half of the memory that the machine had left at the start.
    most: u64,
    _program: Child,
}

impl Backing {
    /// Starts it; it uses no memory yet.
    ///
    /// # Errors
    /// There is no such program, or it does not start.
    pub fn start() -> Result<Self, Failed> {
        let program = std::env::current_exe()?.with_file_name("touch_memory");
        let mut command = Command::new(&program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.kill_on_drop(true).spawn();
        let mut started = started.map_err(|error| format!("{}: {error}", program.display()))?;
        let pipes = started.stdin.take().zip(started.stdout.take());
        let (asks, answers) = pipes.ok_or("touch_memory: it has no pipes")?;
        Ok(Self {
            asks,
            answers: BufReader::new(answers),
            most: available_bytes() / 2,
            _program: started,
        })
    }

    /// Has as much memory used, and free, as a subject may take in this scenario.
    ///
    /// # Errors
    /// The program is gone: it got no memory.
    pub async fn prepare(&mut self, scenario: Scenario) -> Result<(), Failed> {
        let failed = |error| format!("touch_memory: {error}");
        let blocks = wanted(scenario, self.most).div_ceil(BLOCK as u64);
        let line = format!("{blocks}\n");
        self.asks.write_all(line.as_bytes()).await.map_err(failed)?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer).await.map_err(failed)? {
            0 => Err("touch_memory: it ended".into()),
            _ => Ok(()),
        }
    }
}

/// Answers each input line, a number of blocks: allocates them, touches each page and frees every
/// other block. Blocks in use are kept for later lines, up to the number that a line names.
///
/// # Errors
/// There is no memory, or a line is not a number.
pub fn serve() -> Result<(), Failed> {
    let mut blocks = Vec::new();
    for line in std::io::stdin().lines() {
        alternate(&mut blocks, line?.trim().parse()?)?;
        println!("ready");
    }
    Ok(())
}

/// Uses `wanted` blocks and frees every other one.
fn alternate(blocks: &mut Vec<Option<MmapMut>>, wanted: usize) -> std::io::Result<()> {
    if blocks.len() < wanted {
        blocks.resize_with(wanted, || None);
    }
    let blocks = &mut blocks[..wanted];
    for block in blocks.iter_mut().filter(|block| block.is_none()) {
        *block = Some(used()?);
    }
    // Not before all are used: the next one would be the one that was just given back.
    blocks.iter_mut().step_by(2).for_each(|block| *block = None);
    Ok(())
}

/// A block, each page of it used.
fn used() -> std::io::Result<MmapMut> {
    let mut block = MmapMut::map_anon(BLOCK)?;
    #[cfg(target_os = "linux")]
    // Only advice: a system without huge pages refuses it and provides small ones.
    let _ = block.advise(memmap2::Advice::HugePage);
    block.chunks_mut(PAGE).for_each(|page| page[0] = 1);
    Ok(block)
}

/// The bytes to touch: twice what a subject may take, as half of them is kept.
fn wanted(scenario: Scenario, most: u64) -> u64 {
    let each = match scenario.work.needs() {
        // Both lists are in memory for a while.
        Some(_) if matches!(scenario.work, Work::Relist(_)) => 2 * BYTES_AN_OBJECT,
        Some(_) => BYTES_AN_OBJECT,
        None => BYTES_A_SMALL_ONE,
    };
    let all = each.saturating_mul(scenario.size as u64).max(LEAST);
    all.saturating_mul(2).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Share;

    #[test]
    fn twice_what_may_be_taken_is_used_and_no_more_than_the_most() {
        let check = |work: Work, size: usize, most: u64, expected: u64| {
            assert_eq!(wanted(Scenario { work, size }, most), expected);
        };
        let plenty = 64 << 30;
        check(Work::SyncJson, 100_000, plenty, 9_830_400_000);
        check(Work::Relist(Share::Tenth), 10_000, plenty, 1_966_080_000);
        check(Work::SyncJson, 100_000, 2 << 30, 2 << 30);
        check(Work::IndexList, 1_000_000, plenty, 4_096_000_000);
        check(Work::WriteToReconcile, 1_000, plenty, 256 << 20);
        check(Work::WriteToReconcile, 1_000, 0, 0);
    }

    #[test]
    fn every_other_block_is_free_and_those_that_are_not_named_stay() {
        let mut blocks = Vec::new();
        let mut check = |wanted: usize, expected: &[bool]| {
            alternate(&mut blocks, wanted).expect("memory");
            let kept: Vec<_> = blocks.iter().map(Option::is_some).collect();
            assert_eq!(kept, expected);
        };
        check(0, &[]);
        check(5, &[false, true, false, true, false]);
        check(2, &[false, true, false, true, false]);
        check(6, &[false, true, false, true, false, true]);
    }
}
