//! DPDK's error numbers as text.
use std::ffi::CStr;

/// ENOTSUP.
pub(crate) const NOT_SUPPORTED: i32 = 95;
/// ENOMEM.
const NO_MEMORY: i32 = 12;

/// Whether `errno` (positive or negative) says that memory is lacking.
pub(crate) const fn is_no_memory(errno: i32) -> bool {
    errno.wrapping_abs() == NO_MEMORY
}

/// The calling thread's `rte_errno`.
pub(crate) fn last() -> i32 {
    // SAFETY: reads a thread-local number.
    unsafe { dpdk_sys::hnlb_errno() }
}

/// What `errno` (positive or negative) means, in DPDK's words.
pub(crate) fn text(errno: i32) -> String {
    let errno = errno.wrapping_abs();
    // SAFETY: any number is allowed; the text lives in a buffer of the calling
    // thread (or is static) until its next call, and is copied here.
    let words = unsafe { CStr::from_ptr(dpdk_sys::rte_strerror(errno)) };
    format!("{} (errno {errno})", words.to_string_lossy())
}
