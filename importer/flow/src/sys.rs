//! The one call of the kernel that rustix lacks, and the only unsafe code of this crate.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Waits for the writeback of `file` that is under way, then starts the writeback of every page that is dirty now
/// and does not wait for it. A failed writeback is reported here once, and then no more: it is an error for good.
///
/// Costs nothing but the wait: no journal commit and no flush of the disk's cache. It makes nothing durable.
pub(crate) fn start_writeback(file: impl AsFd) -> io::Result<()> {
    // SAFETY: the descriptor is borrowed, so it is open for the length of the call; the call takes no pointer.
    let result =
        unsafe { sync_file_range(file.as_fd().as_raw_fd(), 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const SYNC_FILE_RANGE_WAIT_BEFORE: c_uint = 1;
const SYNC_FILE_RANGE_WRITE: c_uint = 2;

// Declared here and not taken from the libc crate: it is one function, which glibc and musl have with 64-bit offsets on
// every architecture.
// SAFETY: this is its declaration in sync_file_range(2).
unsafe extern "C" {
    unsafe fn sync_file_range(fd: c_int, offset: i64, nbytes: i64, flags: c_uint) -> c_int;
}

/// Lets glibc keep up to 16 MiB of freed memory for the next buffer, instead of giving each back to the kernel and
/// mapping it anew: that cost three quarters of the time of an import in page faults. To be called first in `main`.
pub(crate) fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    {
        const M_TRIM_THRESHOLD: i32 = -1;
        const M_MMAP_THRESHOLD: i32 = -3;
        const KEPT: i32 = 16 << 20;
        #[allow(unsafe_code)]
        unsafe extern "C" {
            fn mallopt(parameter: i32, value: i32) -> i32;
        }
        for parameter in [M_MMAP_THRESHOLD, M_TRIM_THRESHOLD] {
            // SAFETY: mallopt takes two numbers, touches only the allocator's settings under its own lock, and may be
            // called at any time; a parameter it does not know is ignored.
            #[allow(unsafe_code)]
            unsafe {
                mallopt(parameter, KEPT);
            }
        }
    }
}
