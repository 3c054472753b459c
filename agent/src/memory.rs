//! Reads of the program's memory: checked ones, which no address can make fault, and the bare ones of a hook, for what a
//! checked read has confirmed.

use crate::sys;

/// Copies memory of this process. Returns false where some of it cannot be read, or where the system refuses
/// `process_vm_readv` (then even [`can_be_checked`] is false).
pub fn copy(from: u64, to: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: from as *mut _, iov_len: to.len() };
    // SAFETY: the kernel writes into our own buffer, and checks the address that it reads from.
    let copied = unsafe { libc::process_vm_readv(sys::pid() as libc::pid_t, &local, 1, &remote, 1, 0) };
    usize::try_from(copied) == Ok(to.len())
}

/// Returns whether the system lets this process copy its own memory.
pub fn can_be_checked() -> bool {
    let probe = 0x6770_7573_7079u64;
    checked_word(core::ptr::from_ref(&probe) as u64) == Some(probe)
}

/// Reads a word, if it can be read.
pub fn checked_word(address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    copy(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// Reads an `int`, if it can be read.
pub fn checked_int(address: u64) -> Option<i32> {
    let mut bytes = [0; 4];
    copy(address, &mut bytes).then(|| i32::from_le_bytes(bytes))
}

/// Reads a byte, if it can be read.
pub fn checked_byte(address: u64) -> Option<u8> {
    let mut bytes = [0; 1];
    copy(address, &mut bytes).then(|| {
        let [byte] = bytes;
        byte
    })
}

/// Reads a value where it lies.
///
/// # Safety
/// It can be read and does not change meanwhile: it lies in a frame of the calling thread's own that has not returned, or in
/// what such a frame refers to.
#[inline(always)]
pub unsafe fn read<T: Copy>(address: u64) -> T {
    // SAFETY: as the caller promises.
    unsafe { (address as *const T).read_unaligned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_refused() {
        assert!(can_be_checked());
        assert_eq!(checked_word(0), None);
        assert_eq!(checked_word(u64::MAX - 3), None);
        let value = 7i32;
        assert_eq!(checked_int(core::ptr::from_ref(&value) as u64), Some(7));
    }
}
