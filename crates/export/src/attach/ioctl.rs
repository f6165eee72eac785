//! The ioctls of loop and nbd devices, as safe functions. The only `unsafe` of this crate.
//!
//! Numbers and layouts are those of `linux/loop.h` and `linux/nbd.h`; both drivers' interfaces are frozen.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::{
    io::Result,
    ioctl::{Getter, IntegerSetter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl},
};

const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;

const NBD_SET_SOCK: Opcode = 0xAB00;
const NBD_SET_BLKSIZE: Opcode = 0xAB01;
const NBD_DO_IT: Opcode = 0xAB03;
const NBD_CLEAR_SOCK: Opcode = 0xAB04;
const NBD_SET_SIZE_BLOCKS: Opcode = 0xAB07;
const NBD_DISCONNECT: Opcode = 0xAB08;
const NBD_SET_TIMEOUT: Opcode = 0xAB09;
const NBD_SET_FLAGS: Opcode = 0xAB0A;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset_bytes: u64,
    size_limit_bytes: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    backing_fd: u32,
    block_bytes: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// What lies under a loop device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopBacking {
    /// The number of the file system that holds the file.
    pub file_system: u64,
    /// The file's inode.
    pub inode: u64,
    /// The number of the block device below, if it is one.
    pub device_number: Option<u64>,
    /// Where in the file the loop device begins.
    pub offset_bytes: u64,
    /// How much of the file it shows; 0: all the rest.
    pub len_bytes: u64,
}

const _: () = assert!(size_of::<LoopInfo>() == 232 && size_of::<LoopConfig>() == 304);

/// An ioctl that takes nothing and returns a number.
struct GetFree;

// SAFETY: LOOP_CTL_GET_FREE takes no argument, touches no memory of ours and returns the number as its
// result.
unsafe impl Ioctl for GetFree {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut std::ffi::c_void) -> Result<u32> {
        u32::try_from(output).map_err(|_| rustix::io::Errno::RANGE)
    }
}

/// The number of a loop device that is free right now; `control` is `/dev/loop-control`.
pub(super) fn loop_get_free(control: impl AsFd) -> Result<u32> {
    // SAFETY: see `GetFree`.
    unsafe { ioctl(control, GetFree) }
}

/// Binds a loop device to an open file. `EBUSY` if it is bound already.
pub(super) fn loop_configure(
    device: impl AsFd,
    backing: BorrowedFd<'_>,
    block_bytes: u32,
    flags: u32,
    file_name: [u8; 64],
) -> Result<()> {
    let info = LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset_bytes: 0,
        size_limit_bytes: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags,
        file_name,
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
    let config =
        LoopConfig { backing_fd: backing.as_raw_fd().cast_unsigned(), block_bytes, info, reserved: [0; 8] };
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config`, which LoopConfig is (sizes asserted above).
    unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) }
}

/// The binding of a loop device, or of a partition of one: the numbers of the file system, inode and block
/// device below, its start and its length. `ENXIO` if it is not bound; another error if it is no loop device.
pub(super) fn loop_status(device: impl AsFd) -> Result<LoopBacking> {
    // SAFETY: LOOP_GET_STATUS64 writes one `struct loop_info64`, which LoopInfo is (size asserted above); any
    // bytes are valid.
    let info = unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) }?;
    Ok(LoopBacking {
        file_system: info.device,
        inode: info.inode,
        device_number: (info.rdevice != 0).then_some(info.rdevice),
        offset_bytes: info.offset_bytes,
        len_bytes: info.size_limit_bytes,
    })
}

/// Unbinds a loop device, at its last close if others have it open.
pub(super) fn loop_clear(device: impl AsFd) -> Result<()> {
    // SAFETY: LOOP_CLR_FD takes no argument.
    unsafe { ioctl(device, NoArg::<LOOP_CLR_FD>::new()) }
}

fn nbd_set<const OPCODE: Opcode>(device: impl AsFd, value: usize) -> Result<()> {
    // SAFETY: the NBD ioctls that this module calls this way take a plain number and touch no memory of ours.
    unsafe { ioctl(device, IntegerSetter::<OPCODE>::new_usize(value)) }
}

/// Adds a connection to an nbd device. All of them must come from one thread.
pub(super) fn nbd_add_socket(device: impl AsFd, socket: BorrowedFd<'_>) -> Result<()> {
    nbd_set::<NBD_SET_SOCK>(device, socket.as_raw_fd().cast_unsigned() as usize)
}

/// Sets an nbd device's block size and size.
pub(super) fn nbd_set_size(device: impl AsFd, block_bytes: u32, blocks: u64) -> Result<()> {
    nbd_set::<NBD_SET_BLKSIZE>(&device, block_bytes as usize)?;
    let blocks = usize::try_from(blocks).map_err(|_| rustix::io::Errno::FBIG)?;
    nbd_set::<NBD_SET_SIZE_BLOCKS>(device, blocks)
}

/// Tells an nbd device what its server can do, as the protocol's transmission flags.
pub(super) fn nbd_set_flags(device: impl AsFd, flags: u16) -> Result<()> {
    nbd_set::<NBD_SET_FLAGS>(device, usize::from(flags))
}

/// How long an nbd device waits for a reply before it fails the request; 0: for ever.
pub(super) fn nbd_set_timeout(device: impl AsFd, seconds: u32) -> Result<()> {
    nbd_set::<NBD_SET_TIMEOUT>(device, seconds as usize)
}

/// Runs an nbd device on this thread until it is disconnected.
pub(super) fn nbd_do_it(device: impl AsFd) -> Result<()> {
    nbd_set::<NBD_DO_IT>(device, 0)
}

/// Ends an nbd device's connections after the requests under way.
pub(super) fn nbd_disconnect(device: impl AsFd) -> Result<()> {
    nbd_set::<NBD_DISCONNECT>(device, 0)
}

/// Drops an nbd device's connections at once.
pub(super) fn nbd_clear_sockets(device: impl AsFd) -> Result<()> {
    nbd_set::<NBD_CLEAR_SOCK>(device, 0)
}
