//! The eBPF program, run at the exit of every system call. For a call that takes file names it reads the address of each from the caller's registers and
//! calls `bpf_trace_printk` with a format string built on the stack.

use super::calls::{Call, Registers};

/// An instruction: the kernel's `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    code: u8,
    /// Destination in the lower four bits, source in the upper.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// The kernel's `bpf_trace_printk(format, bytes, …)`.
const TRACE_PRINTK: i32 = 6;
/// The kernel's `bpf_probe_read_kernel(to, bytes, from)`.
const PROBE_READ_KERNEL: i32 = 113;

const LOAD_4_BYTES: u8 = 0x61;
const LOAD_8_BYTES: u8 = 0x79;
const STORE_8_BYTES: u8 = 0x7b;
const LOAD_CONSTANT: u8 = 0x18;
const MOVE_NUMBER: u8 = 0xb7;
const MOVE_REGISTER: u8 = 0xbf;
const ADD_NUMBER: u8 = 0x07;
const JUMP: u8 = 0x05;
const JUMP_UNLESS_EQUAL: u8 = 0x55;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Callee-saved registers: they hold the address of `pt_regs`, and the system call's number.
const SAVED: u8 = 6;
const NUMBER: u8 = 7;
const STACK: u8 = 10;
/// Stack offset of values read; the format string is below.
const VALUE: i16 = -8;

/// A program that emits each name as `PREFIX CALL ARGUMENT NAME`.
pub fn say(prefix: &str, calls: &[Call], registers: &Registers) -> Vec<Instruction> {
    // The arguments of the raw tracepoint: `pt_regs`, and the call's result.
    let mut program = vec![make(LOAD_8_BYTES, SAVED, 1, 0, 0)];
    read(&mut program, NUMBER, registers.number, registers.number_bytes);
    for call in calls {
        let mut block = Vec::new();
        for (argument, place) in call.names {
            let text = format!("{prefix} {} {argument} %pus", call.name);
            let begin = store(&mut block, &text);
            read(&mut block, 3, registers.arguments[*place], registers.pointer_bytes);
            block.push(make(MOVE_REGISTER, 1, STACK, 0, 0));
            block.push(make(ADD_NUMBER, 1, 0, 0, i32::from(begin)));
            block.push(make(MOVE_NUMBER, 2, 0, 0, text.len() as i32 + 1));
            block.push(make(CALL, 0, 0, 0, TRACE_PRINTK));
        }
        program.push(make(JUMP_UNLESS_EQUAL, NUMBER, 0, block.len() as i16 + 1, call.number as i32));
        program.append(&mut block);
        // To the end; the offset is filled in below.
        program.push(make(JUMP, 0, 0, 0, 0));
    }
    let end = program.len();
    for (at, instruction) in program.iter_mut().enumerate() {
        if instruction.code == JUMP {
            instruction.offset = (end - at - 1) as i16;
        }
    }
    program.push(make(MOVE_NUMBER, 0, 0, 0, 0));
    program.push(make(EXIT, 0, 0, 0, 0));
    program
}

/// Reads a number from `pt_regs` into a register.
fn read(program: &mut Vec<Instruction>, into: u8, offset: usize, bytes: usize) {
    program.push(make(MOVE_REGISTER, 1, STACK, 0, 0));
    program.push(make(ADD_NUMBER, 1, 0, 0, i32::from(VALUE)));
    program.push(make(MOVE_NUMBER, 2, 0, 0, bytes as i32));
    program.push(make(MOVE_REGISTER, 3, SAVED, 0, 0));
    program.push(make(ADD_NUMBER, 3, 0, 0, offset as i32));
    program.push(make(CALL, 0, 0, 0, PROBE_READ_KERNEL));
    program.push(make(if bytes == 8 { LOAD_8_BYTES } else { LOAD_4_BYTES }, into, STACK, VALUE, 0));
}

/// Writes a text with its NUL to the stack; returns its stack offset.
fn store(program: &mut Vec<Instruction>, text: &str) -> i16 {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let begin = VALUE - bytes.len() as i16;
    for (offset, word) in (begin..).step_by(8).zip(bytes.chunks_exact(8)) {
        let half = |at: usize| i32::from_le_bytes([word[at], word[at + 1], word[at + 2], word[at + 3]]);
        program.push(make(LOAD_CONSTANT, 1, 0, 0, half(0)));
        program.push(make(0, 0, 0, 0, half(4)));
        program.push(make(STORE_8_BYTES, STACK, 1, offset, 0));
    }
    begin
}

fn make(code: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: destination | source << 4, offset, immediate }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::names::calls::CALLS;

    const SOME: Registers = Registers { number: 120, number_bytes: 8, arguments: [112, 104, 96, 56], pointer_bytes: 8 };
    /// All the stack that a program has.
    const STACK_BYTES: i16 = 512;

    #[test]
    fn every_jump_ends_within_the_program_and_every_text_on_the_stack() {
        let program = say("flashmob", CALLS, &SOME);
        assert_eq!(program.last().map(|last| last.code), Some(EXIT));
        for (at, instruction) in program.iter().enumerate() {
            if matches!(instruction.code, JUMP | JUMP_UNLESS_EQUAL) {
                let to = at as i64 + 1 + i64::from(instruction.offset);
                assert!(instruction.offset >= 0 && to < program.len() as i64 - 1, "{at} to {to}");
            }
            if instruction.code == STORE_8_BYTES {
                assert!((-STACK_BYTES..=VALUE - 8).contains(&instruction.offset) && instruction.offset % 8 == 0);
            }
        }
        let says = program.iter().filter(|one| one.code == CALL && one.immediate == TRACE_PRINTK).count();
        assert_eq!(says, CALLS.iter().map(|call| call.names.len()).sum::<usize>());
    }
}
