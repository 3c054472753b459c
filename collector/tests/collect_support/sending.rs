//! What an agent sends to a collector: a sealed memfd and a message with its descriptor.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// The seals of a segment.
pub const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// Creates a memfd of `bytes` bytes with these seals.
pub fn memfd(bytes: u64, seals: i32) -> OwnedFd {
    // SAFETY: memfd_create returns a new descriptor, which this function owns.
    let fd = unsafe {
        let fd = libc::memfd_create(c"gpuspy".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        assert!(fd >= 0);
        OwnedFd::from_raw_fd(fd)
    };
    File::from(fd.try_clone().unwrap()).set_len(bytes).unwrap();
    // SAFETY: the calls take numbers.
    assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    fd
}

/// Sends bytes and descriptors.
pub fn send(stream: &UnixStream, bytes: &[u8], descriptors: &[RawFd]) {
    assert!(try_send(stream, bytes, descriptors), "{}", std::io::Error::last_os_error());
}

/// Sends bytes and descriptors. Returns whether the other side took all of them.
pub fn try_send(stream: &UnixStream, bytes: &[u8], descriptors: &[RawFd]) -> bool {
    /// Space for the descriptors that tests send, aligned like a control message.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let payload = size_of_val(descriptors) as u32;
    // SAFETY: the message points to live memory, and the control area, which CMSG_* walk, is large enough (asserted).
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if !descriptors.is_empty() {
            assert!(libc::CMSG_SPACE(payload) as usize <= 64);
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(payload) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
            std::ptr::copy_nonoverlapping(
                descriptors.as_ptr().cast::<u8>(),
                libc::CMSG_DATA(header),
                payload as usize,
            );
        }
        libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) == bytes.len() as isize
    }
}
