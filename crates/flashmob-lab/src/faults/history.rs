//! What clients saw, as histories of registers, for a checker of linearizability that knows nothing of this simulator.
//!
//! A register is a byte of the volume; its values are those of bytes. What was asked and never answered with success may have happened
//! or not, at any time. Reads that failed say nothing.

use std::io::{self, Write};

use flashmob_core::op::Op;

use super::World;
use super::client::Pending;
use super::fault::Fault;
use super::oracle::{WriteId, pattern};
use super::scenario::Scenario;

/// From one register to the next. Writes of a few bytes hit few of them.
const STRIDE: u64 = 61;

/// One operation on one register. Moments are numbers in the order of all that clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Who asked.
    pub client: usize,
    /// It was written, else read.
    pub is_write: bool,
    /// Where the byte is.
    pub register: u64,
    /// What was written or read.
    pub value: u8,
    /// When it was asked.
    pub call: u64,
    /// When it was answered with success; `None` if it was not.
    pub end: Option<u64>,
}

/// What is kept of a run.
#[derive(Debug, Default)]
pub(super) struct History {
    steps: Vec<Step>,
}

impl Scenario {
    /// The same without faults that take back what was acknowledged, for which a volume is no register, and with a record of what clients saw. `None`
    /// if no standby takes over in it.
    #[must_use]
    pub fn of_registers(mut self) -> Option<Scenario> {
        self.faults.retain(|(_, fault)| !fault.loses_data() && !fault.is_of_other_maps());
        self.record_history = true;
        let has_lease = self.copies.as_ref().is_some_and(|copies| copies.lease.is_some());
        let has_standby = self.faults.iter().any(|(_, fault)| matches!(fault, Fault::Standby(_)));
        (has_lease && has_standby).then_some(self)
    }
}

/// A line for each step, as tests/linear reads them.
///
/// # Errors
/// It cannot be written.
pub fn write_history(steps: &[Step], to: &mut impl Write) -> io::Result<()> {
    for Step { client, is_write, register, value, call, end } in steps {
        let (op, end) =
            (if *is_write { "write" } else { "read" }, end.map_or("null".to_string(), |end| end.to_string()));
        writeln!(
            to,
            r#"{{"client": {client}, "op": "{op}", "register": {register}, "value": {value}, "call": {call}, "return": {end}}}"#
        )?;
    }
    Ok(())
}

/// The registers in a range.
fn registers(at: u64, len: u64) -> impl Iterator<Item = u64> {
    (at.div_ceil(STRIDE)..).map(|n| n * STRIDE).take_while(move |&register| register < at + len)
}

impl World {
    /// A read was answered with these bytes.
    pub(super) fn note_read(&mut self, client: usize, pending: &Pending, data: &[u8]) {
        if !self.scenario.record_history {
            return;
        }
        let (call, end) = (pending.asked, Some(self.oracle.asked()));
        self.oracle.read_failed(end.unwrap_or_default());
        let mut before = 0;
        for &(at, len) in &pending.spans {
            for register in registers(at, u64::from(len)) {
                let value = data[before + (register - at) as usize];
                self.history.steps.push(Step { client, is_write: false, register, value, call, end });
            }
            before += len as usize;
        }
    }

    /// A change was answered, or never will be.
    pub(super) fn note_change(&mut self, client: usize, pending: &Pending, is_acknowledged: bool) {
        let Some(write) = pending.write.filter(|_| self.scenario.record_history) else { return };
        let end = is_acknowledged.then(|| {
            let end = self.oracle.asked();
            self.oracle.read_failed(end);
            end
        });
        let value = |register: u64, write: WriteId| if pending.op == Op::Write { pattern(write, register) } else { 0 };
        for &(at, len) in &pending.spans {
            for register in registers(at, u64::from(len)) {
                let value = value(register, write);
                self.history.steps.push(Step { client, is_write: true, register, value, call: pending.asked, end });
            }
        }
    }

    /// What was seen until the end.
    pub(super) fn take_history(&mut self) -> Vec<Step> {
        if !self.scenario.record_history {
            return Vec::new();
        }
        for (client, pending) in self.take_unanswered() {
            self.note_change(client, &pending, false);
        }
        let first = registers(0, self.oracle.first_bytes()).map(|register| Step {
            client: 0,
            is_write: true,
            register,
            value: pattern(0, register),
            call: 0,
            end: Some(0),
        });
        first.chain(std::mem::take(&mut self.history.steps)).collect()
    }
}
