//! What processes have used so far, as `/proc` tells it: processor time and the most memory.

use std::fs;
use std::io;
use std::ops::{Add, Sub};
use std::time::Duration;

use anyhow::{Context, Result};

/// What one process, or some of them together, have used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user and system mode, that of its ended children included. It comes in ticks, mostly of 10 ms.
    pub cpu: Duration,
    /// The most memory that was resident, in bytes; of several processes the sum, with what they share counted once.
    pub memory_peak_bytes: u64,
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory_peak_bytes: self.memory_peak_bytes + other.memory_peak_bytes }
    }
}

impl Sub for Usage {
    type Output = Self;

    /// What was used between two moments. A peak can't be taken apart: it stays that of the later moment.
    fn sub(self, earlier: Self) -> Self {
        Self { cpu: self.cpu.saturating_sub(earlier.cpu), memory_peak_bytes: self.memory_peak_bytes }
    }
}

/// Of one process.
///
/// # Errors
/// When it is gone, or this system has no `/proc`.
pub fn of_process(pid: u32) -> Result<Usage> {
    let (stat, memory) = (read_stat(pid)?, read_memory(pid)?);
    Ok(Usage { cpu: stat.cpu(), memory_peak_bytes: memory.peak_bytes })
}

/// Of a process and everything below it, such as a Postgres server. Memory that they share is counted once.
///
/// # Errors
/// When the process is gone, or this system has no `/proc`.
pub fn of_tree(root: u32) -> Result<Usage> {
    // Processes come and go while the folder is read; whoever has ended is accounted for by its parent.
    let stats: Vec<Stat> = process_ids()?.into_iter().filter_map(|pid| read_stat(pid).ok()).collect();
    anyhow::ensure!(stats.iter().any(|stat| stat.pid == root), "the process {root} is gone");
    let members: Vec<&Stat> = stats.iter().filter(|stat| is_below(stat, root, &stats)).collect();
    let memories: Vec<Memory> = members.iter().filter_map(|stat| read_memory(stat.pid).ok()).collect();
    let shared = memories.iter().map(|memory| memory.shared_bytes).max().unwrap_or(0);
    let own: u64 = memories.iter().map(|memory| memory.peak_bytes.saturating_sub(memory.shared_bytes)).sum();
    Ok(Usage { cpu: members.iter().map(|stat| stat.cpu()).sum(), memory_peak_bytes: own + shared })
}

fn is_below(stat: &Stat, root: u32, stats: &[Stat]) -> bool {
    let mut at = stat;
    // A parent that ended meanwhile breaks the chain; a chain longer than the list would be a circle.
    for _ in 0..stats.len() {
        if at.pid == root {
            return true;
        }
        let Some(parent) = stats.iter().find(|other| other.pid == at.parent) else { return false };
        at = parent;
    }
    false
}

fn process_ids() -> io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// What `/proc/PID/stat` says (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    pid: u32,
    parent: u32,
    /// Its own time and that of its children that were waited for, in user and system mode.
    ticks: u64,
}

impl Stat {
    /// Reads the line. The second field is the program's name, which may hold spaces and parentheses.
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // utime, stime, cutime, cstime are the fields 14–17 of the line, so 11–14 behind the name.
        let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
        Some(Self { pid: pid.parse().ok()?, parent: fields.get(1)?.parse().ok()?, ticks })
    }

    fn cpu(&self) -> Duration {
        Duration::from_secs_f64(self.ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }
}

/// What `/proc/PID/status` says of a process's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Memory {
    /// `VmHWM`: the most that was resident.
    peak_bytes: u64,
    /// `RssShmem` and `RssFile`: what is resident now of Postgres' buffers and of the program itself.
    shared_bytes: u64,
}

impl Memory {
    fn parse(text: &str) -> Self {
        let bytes = |name: &str| -> Option<u64> {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1_024)
        };
        // A process that has just ended has none of these lines.
        let [peak_bytes, shmem, file] = ["VmHWM", "RssShmem", "RssFile"].map(|name| bytes(name).unwrap_or(0));
        Self { peak_bytes, shared_bytes: shmem + file }
    }
}

fn read_stat(pid: u32) -> Result<Stat> {
    let text = read(pid, "stat")?;
    Stat::parse(&text).with_context(|| format!("/proc/{pid}/stat has another form: {text}"))
}

fn read_memory(pid: u32) -> Result<Memory> {
    Ok(Memory::parse(&read(pid, "status")?))
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    // A program's name may be any bytes.
    let bytes = fs::read(&path).with_context(|| format!("reading {path}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_program_is_called() {
        let rest = "S 41 42 42 0 -1 4194560 1000 2000 3 4 150 50 7 3 20 0 5 0 100 200 300";
        for name in ["postgres", "tokio-rt (worker) 1", ") R 1 ("] {
            let stat = Stat::parse(&format!("42 ({name}) {rest}"));
            assert_eq!(stat, Some(Stat { pid: 42, parent: 41, ticks: 210 }), "{name}");
        }
        for text in ["", "42 (x) S 1 2 3", "x (y) S 41 42 42 0 -1 4194560 1000 2000 3 4 150 50 7 3"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
    }

    #[test]
    fn memory_is_in_bytes_and_zero_for_who_has_ended() {
        let text =
            "Name:\tpostgres\nVmPeak:\t  9 kB\nVmHWM:\t   12 kB\nRssAnon:\t 3 kB\nRssFile:\t 1 kB\nRssShmem:\t 8 kB\n";
        assert_eq!(Memory::parse(text), Memory { peak_bytes: 12 * 1_024, shared_bytes: 9 * 1_024 });
        assert_eq!(Memory::parse("Name:\tx\nState:\tZ (zombie)\n"), Memory::default());
    }

    #[test]
    fn only_what_hangs_below_counts() {
        let stat = |pid, parent| Stat { pid, parent, ticks: 0 };
        let stats = [stat(1, 0), stat(5, 1), stat(6, 5), stat(7, 6), stat(8, 1), stat(9, 77), stat(10, 10)];
        let below: Vec<u32> = stats.iter().filter(|stat| is_below(stat, 5, &stats)).map(|stat| stat.pid).collect();
        assert_eq!(below, [5, 6, 7]);
    }

    /// A real child: what it used counts for its parent once it has been waited for.
    #[test]
    fn the_time_of_an_ended_child_is_not_lost() {
        let own = std::process::id();
        let before = of_process(own).unwrap();
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        assert!(std::process::Command::new("sh").args(["-c", busy]).status().unwrap().success());
        let used = of_process(own).unwrap() - before;
        assert!(used.cpu >= Duration::from_millis(20), "{used:?}");
        assert!(used.memory_peak_bytes > 0);
        assert!(of_tree(own).unwrap().cpu >= before.cpu + used.cpu);
        assert!(of_process(u32::MAX).is_err() && of_tree(u32::MAX).is_err());
    }
}
