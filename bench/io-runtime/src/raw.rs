//! The limit: a loop over the ring, no futures and no tasks.

use crate::load::{BLOCK, Case, DEPTH, Walk, buffer};
use io_uring::{IoUring, opcode, squeue, types};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How a ring's entries name files and memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Plain,
    /// Registered buffers and a registered file.
    Fixed,
}

/// How the kernel runs what completes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    /// The kernel's default: completions interrupt the task.
    Default,
    /// At the task's next entry into the kernel, whatever that is.
    Coop,
    /// Only when the task asks for completions; one thread alone submits.
    Defer,
}

pub fn ring(setup: Setup) -> IoUring {
    let mut builder = IoUring::builder();
    match setup {
        Setup::Default => &mut builder,
        Setup::Coop => builder.setup_single_issuer().setup_coop_taskrun(),
        Setup::Defer => builder.setup_single_issuer().setup_defer_taskrun(),
    };
    builder.build(256).expect("a ring")
}

pub fn register(ring: &IoUring, file: &File, buffers: &[Vec<u8>]) {
    let at = |buffer: &Vec<u8>| libc::iovec { iov_base: buffer.as_ptr() as *mut _, iov_len: BLOCK };
    let vectors: Vec<_> = buffers.iter().map(at).collect();
    // SAFETY: the buffers are leaked.
    unsafe { ring.submitter().register_buffers(&vectors) }.expect("buffers register");
    ring.submitter().register_files(&[file.as_raw_fd()]).expect("files register");
}

pub fn entry(case: Case, mode: Mode, fd: i32, index: u16, pointer: *mut u8, offset: u64) -> squeue::Entry {
    let length = BLOCK as u32;
    match (mode, case) {
        (Mode::Plain, Case::Write) => {
            opcode::Write::new(types::Fd(fd), pointer, length).offset(offset).build()
        }
        (Mode::Plain, _) => opcode::Read::new(types::Fd(fd), pointer, length).offset(offset).build(),
        (Mode::Fixed, Case::Write) => {
            opcode::WriteFixed::new(types::Fixed(0), pointer, length, index).offset(offset).build()
        }
        // A device without data has nothing to map a fixed buffer for.
        (Mode::Fixed, Case::Null) => opcode::Read::new(types::Fixed(0), pointer, length).build(),
        (Mode::Fixed, Case::Read) => {
            opcode::ReadFixed::new(types::Fixed(0), pointer, length, index).offset(offset).build()
        }
    }
}

pub fn run(case: Case, setup: Setup, mode: Mode, file: File, time: Duration) -> u64 {
    let mut ring = ring(setup);
    let mut buffers: Vec<_> = (0..DEPTH).map(|_| buffer()).collect();
    if mode == Mode::Fixed {
        register(&ring, &file, &buffers);
    }
    let mut walks = Walk::all(case, time);
    let (mut idle, mut flying, mut done): (Vec<usize>, _, _) = ((0..DEPTH).collect(), 0, 0);
    loop {
        for slot in idle.drain(..) {
            let Some(offset) = walks[slot].next() else { continue };
            let pointer = buffers[slot].as_mut_ptr();
            let entry =
                entry(case, mode, file.as_raw_fd(), slot as u16, pointer, offset).user_data(slot as u64);
            // SAFETY: the buffer is leaked and used by this slot alone.
            unsafe { ring.submission().push(&entry) }.expect("room for the depth");
            flying += 1;
        }
        if flying == 0 {
            break;
        }
        ring.submit_and_wait(1).expect("submission");
        for completion in ring.completion() {
            case.expect(completion.result());
            idle.push(completion.user_data() as usize);
            (flying, done) = (flying - 1, done + 1);
        }
    }
    buffers.into_iter().for_each(std::mem::forget);
    done
}
