//! Runs cases under valgrind's callgrind and reads what it wrote.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::Case;

/// What a case costs per request.
#[derive(Debug, Clone)]
pub struct Row {
    pub name: String,
    /// Instructions.
    pub instructions: f64,
    /// Those of them that copy, move, fill or compare memory (`memcpy` and its like).
    pub memory: f64,
    /// Those of them that compute checksums.
    pub checksum: f64,
    /// How often memory was asked for.
    pub allocations: f64,
}

/// What one run came to, all turns together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    instructions: u64,
    memory: u64,
    checksum: u64,
}

/// Counts all cases, as many at once as there are cores.
pub fn count_all(cases: &[&Case]) -> Result<Vec<Row>, String> {
    let dir = out_dir()?;
    let next = AtomicUsize::new(0);
    let rows: Mutex<Vec<Option<Result<Row, String>>>> = Mutex::new((0..cases.len()).map(|_| None).collect());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let row = count(case, &dir);
                    let place = cases.iter().position(|c| c.name == case.name);
                    if let (Some(place), Ok(mut rows)) = (place, rows.lock()) {
                        rows[place] = Some(row);
                    }
                }
            });
        }
    });
    let rows = rows.into_inner().map_err(|_| "a run of valgrind could not be followed".to_string())?;
    let rows = rows.into_iter().flatten().collect::<Result<Vec<Row>, String>>()?;
    println!("what callgrind wrote: {}/*.callgrind, for callgrind_annotate\n", dir.display());
    Ok(rows)
}

/// Where callgrind's files go: beside the program, so within cargo's target directory.
fn out_dir() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|e| format!("this program's path: {e}"))?;
    let dir = program.with_file_name("instruction-counts");
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(dir)
}

fn count(case: &Case, dir: &Path) -> Result<Row, String> {
    let program = std::env::current_exe().map_err(|e| format!("this program's path: {e}"))?;
    let out = dir.join(format!("{}.callgrind", case.name.replace(['/', ' '], "-")));
    let done = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg("--toggle-collect=*instructions::harness::count_on*")
        .arg("--toggle-collect=*instructions::harness::count_off*")
        .arg("--zero-before=*instructions::harness::count_anew*")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(&program)
        .args(["--case", &case.name])
        // One copied byte would count as one instruction where `rep movsb` copies: vectors tell more.
        .env(
            "GLIBC_TUNABLES",
            "glibc.cpu.x86_rep_movsb_threshold=1073741824:glibc.cpu.x86_rep_stosb_threshold=1073741824",
        )
        .output()
        .map_err(|e| {
            format!("valgrind cannot be started ({e}); install it (Debian and Ubuntu: apt-get install valgrind)")
        })?;
    if !done.status.success() {
        return Err(format!("{}: {}\n{}", case.name, done.status, String::from_utf8_lossy(&done.stderr)));
    }
    let text = std::fs::read_to_string(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let allocations = String::from_utf8_lossy(&done.stdout).trim().parse();
    let allocations: u64 = allocations.map_err(|_| format!("{}: it did not tell its allocations", case.name))?;
    let totals = read(&text).ok_or(format!("{}: not what callgrind writes", out.display()))?;
    if totals.instructions == 0 {
        return Err(format!("{}: nothing was counted; are its functions inlined?", case.name));
    }
    let per_request = |sum: u64| sum as f64 / (case.requests * case.turns()) as f64;
    Ok(Row {
        name: case.name.clone(),
        instructions: per_request(totals.instructions),
        memory: per_request(totals.memory),
        checksum: per_request(totals.checksum),
        allocations: per_request(allocations),
    })
}

/// Sums up a file of callgrind's: lines `fn=(number) name` begin a function, lines of numbers are its own costs, and
/// `cfn=` with `calls=` and one line of numbers, which are the callee's, tell of a call.
fn read(text: &str) -> Option<Totals> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut totals = Totals::default();
    let mut function = "";
    let mut is_call_cost = false;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("fn=") {
            function = name_of(&mut names, rest)?;
        } else if let Some(rest) = line.strip_prefix("cfn=") {
            // A callee's name may be given here and only referred to later.
            name_of(&mut names, rest)?;
        } else if line.starts_with("calls=") {
            is_call_cost = true;
        } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            if std::mem::take(&mut is_call_cost) {
                continue;
            }
            let cost: u64 = line.split(' ').nth(1)?.parse().ok()?;
            totals.instructions += cost;
            totals.memory += if is_memory(function) { cost } else { 0 };
            totals.checksum += if function.contains("crc32") { cost } else { 0 };
        }
    }
    // It says itself what all costs sum up to: nothing was misread.
    let sum = text
        .lines()
        .find_map(|line| line.strip_prefix("totals: "))
        .or_else(|| text.lines().find_map(|line| line.strip_prefix("summary: ")));
    (sum?.trim().parse() == Ok(totals.instructions)).then_some(totals)
}

/// The name in `(number) name`, or the one that was given to the number before.
fn name_of<'a>(names: &mut HashMap<&'a str, &'a str>, text: &'a str) -> Option<&'a str> {
    let (number, name) = text.split_once(')')?;
    let name = name.trim();
    if !name.is_empty() {
        names.insert(number, name);
    }
    names.get(number).copied()
}

fn is_memory(function: &str) -> bool {
    ["__memcpy", "__memmove", "__memset", "__memcmp", "__bcmp", "memcpy", "memmove", "memset", "memcmp", "bcmp"]
        .iter()
        .any(|name| function.starts_with(name))
}
