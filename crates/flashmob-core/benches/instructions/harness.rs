//! What the programs that count instructions share: cases, what is counted of them, and the two parts that a program plays.
//!
//! As cargo starts it (`cargo bench`), it starts itself under valgrind once for each
//! case, reads what callgrind wrote and judges it (`figures.rs`). Under valgrind it is given the name of a case, prepares it and runs it
//! a number of times. Only what happens within [`count_on`] and not within [`count_off`] is counted: callgrind watches for these functions
//! by name. Without valgrind, and without `--bench`, every case runs a few times: that tests that they still work.

use std::hint::black_box;
use std::process::ExitCode;

use crate::{allocations, callgrind, figures};

/// Turns before counting starts: buffers have their size by then, and pools are filled.
const WARM_UP_TURNS: usize = 64;
/// Requests that are counted, at least.
const REQUESTS_MIN: usize = 4096;
/// Turns that are counted, at least.
const TURNS_MIN: usize = 16;

/// What is counted. callgrind finds it by its name, and must see it return: a call in last place would become a jump.
#[inline(never)]
fn count_on(turn: &mut dyn FnMut()) {
    allocations::set_on(true);
    turn();
    allocations::set_on(false);
}

/// What was counted so far is forgotten: before, outside of [`count_on`], [`count_off`] has switched the counting on. callgrind finds it
/// by its name.
#[inline(never)]
fn count_anew() {
    black_box(());
}

/// What a kernel, a disk or a client does: not counted, even within [`count_on`]. callgrind finds it by its name. They do not nest.
#[inline(never)]
pub fn count_off<R>(work: impl FnOnce() -> R) -> R {
    let was_on = allocations::set_on(false);
    let result = work();
    allocations::set_on(was_on);
    result
}

/// One turn of a case.
pub type Turn = Box<dyn FnMut()>;

/// Something whose instructions are counted.
pub struct Case {
    /// `part/what`, the same for ever: figures are compared by name.
    pub name: String,
    /// How many requests, pieces or spans one turn serves; costs are given for one of them.
    pub requests: usize,
    /// Makes ready, and gives back what is run again and again.
    pub prepare: Box<dyn Fn() -> Turn + Sync>,
}

impl Case {
    /// How many turns are counted.
    pub fn turns(&self) -> usize {
        REQUESTS_MIN.div_ceil(self.requests).max(TURNS_MIN)
    }

    /// Prepares the case, runs it until it is warm, and then so often that it can be counted.
    fn run(&self, turns: usize) {
        let mut turn = (self.prepare)();
        (0..WARM_UP_TURNS).for_each(|_| turn());
        count_anew();
        allocations::take_calls();
        (0..turns).for_each(|_| count_on(&mut *turn));
    }
}

/// The program of some cases. `accepted` is the name of the file with their accepted figures.
pub fn main(cases: &[Case], accepted: &str) -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = &args[..]
        && flag == "--case"
    {
        let Some(case) = cases.iter().find(|c| c.name == *name) else {
            eprintln!("no case is named '{name}'");
            return ExitCode::FAILURE;
        };
        case.run(case.turns());
        println!("{}", allocations::take_calls());
        return ExitCode::SUCCESS;
    }
    if !args.iter().any(|a| a == "--bench") {
        cases.iter().for_each(|case| case.run(1));
        println!("{} cases ran; 'cargo bench' counts their instructions", cases.len());
        return ExitCode::SUCCESS;
    }
    let accept = args.iter().any(|a| a == "--accept");
    let wanted: Vec<&str> = args.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    let chosen: Vec<&Case> =
        cases.iter().filter(|c| wanted.is_empty() || wanted.iter().any(|w| c.name.contains(w))).collect();
    match callgrind::count_all(&chosen).and_then(|rows| figures::judge(&rows, accepted, accept, wanted.is_empty())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
