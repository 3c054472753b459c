//! Unix sockets: who is at the other end, and what comes through.

use super::{checked, owned};
use std::ffi::{c_char, c_int};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// The most descriptors that a message may bring; the kernel discards further ones.
const MOST_DESCRIPTORS: usize = 4;

/// Calls `recvmsg` once: fills `buffer` from its start and takes the descriptors that came with the message.
pub(crate) fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    /// Room for a control message, aligned as one.
    #[repr(C)]
    union Control {
        header: libc::cmsghdr,
        room: [u8; 64],
    }
    // SAFETY: only computes a number.
    let space = unsafe { libc::CMSG_SPACE((MOST_DESCRIPTORS * size_of::<c_int>()) as u32) } as usize;
    assert!(space <= size_of::<Control>());
    let mut control = Control { room: [0; 64] };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: a plain struct for which zeros are a value.
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = space as _;
    // SAFETY: `message` points at a buffer and a control area that outlive the call and are as long as it says.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut descriptors = Vec::new();
    // SAFETY: the kernel has filled the control area with `msg_controllen` bytes of well-formed control messages, which
    // is what the CMSG macros walk; a SCM_RIGHTS message holds descriptors that are now ours.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for n in 0..bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(n).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok((count as usize, descriptors))
}

/// The process at the other end of a Unix socket, by `SO_PEERCRED`: its pid in our namespace, 0 if it has none there.
pub(crate) fn peer_pid(socket: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: the option is a `ucred`, which any bytes are.
    let peer: libc::ucred = unsafe { socket_option(socket, libc::SO_PEERCRED) }?;
    Ok(peer.pid.max(0) as u32)
}

/// A descriptor as [`pidfd_open`](super::children::pidfd_open) opens it, of the process at the other end of a Unix socket. Since Linux 6.5; since 6.16
/// also of one that has ended and been waited for.
pub(crate) fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    /// `SO_PEERPIDFD` of asm-generic/socket.h, which x86-64 and aarch64 use.
    const PEER_PIDFD: c_int = 77;
    // SAFETY: the option is a new descriptor, which has close-on-exec set.
    owned(unsafe { socket_option(socket, PEER_PIDFD) }?)
}

/// Whether a process listens on the Unix socket at a path. This does not wait until the process accepts: it may have been stopped.
///
/// # Errors
/// Fails if there is no such socket, or if this process may not connect to it.
pub(crate) fn is_listened_on(path: &Path) -> io::Result<bool> {
    let (address, length) = address(path)?;
    let ours = socket()?;
    // SAFETY: the length passed is that of the struct.
    let result = unsafe { libc::connect(ours.as_raw_fd(), (&raw const address).cast(), length) };
    match checked(result) {
        Ok(_) => Ok(true),
        // As many connections wait to be accepted as may (connect(2): EAGAIN).
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
        Err(error) => Err(error),
    }
}

/// Listens on a new Unix socket at a path. If no connection waits, accepting one fails with [`io::ErrorKind::WouldBlock`]: the socket is
/// made so, because a filter may refuse to change it later.
///
/// # Errors
/// Fails if the path is taken, [too long](MOST_OF_A_PATH) or not writable.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    let (address, length) = address(path)?;
    let ours = socket()?;
    // SAFETY: the length passed is that of the struct.
    checked(unsafe { libc::bind(ours.as_raw_fd(), (&raw const address).cast(), length) })?;
    // As many connections may wait as the system lets.
    // SAFETY: takes two numbers.
    checked(unsafe { libc::listen(ours.as_raw_fd(), c_int::MAX) })?;
    Ok(ours.into())
}

/// A new Unix socket that makes nobody wait.
fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes three numbers.
    owned(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })
}

/// The longest path of a Unix socket, bytes: one of the address's stays zero and terminates it.
const MOST_OF_A_PATH: usize = 107;

/// Returns the address of the Unix socket at a path, and the address's length.
fn address(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: a plain struct for which zeros are a value.
    let mut address: libc::sockaddr_un = unsafe { zeroed() };
    assert!(MOST_OF_A_PATH < address.sun_path.len());
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() > MOST_OF_A_PATH {
        let long = format!(
            "the path of a socket may have {MOST_OF_A_PATH} bytes, and this one has {}: choose a directory with a shorter path",
            bytes.len()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, long));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
    Ok((address, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

/// Reads an option of a socket.
///
/// # Safety
/// The kernel fills a `T` for it, or a part of one, and zeros are a `T`.
unsafe fn socket_option<T>(socket: BorrowedFd<'_>, option: c_int) -> io::Result<T> {
    // SAFETY: as the caller promises.
    let mut value: T = unsafe { zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    let place = (&raw mut value).cast();
    // SAFETY: `value` is as long as `length` says.
    checked(unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, place, &raw mut length)
    })?;
    Ok(value)
}

/// Whether the other end of a connection was closed, and not only for sending.
pub(crate) fn is_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut polled = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: one struct of ours.
    let count = unsafe { libc::poll(&raw mut polled, 1, 0) };
    count == 1 && polled.revents & libc::POLLHUP != 0
}

#[cfg(test)]
mod tests {
    use super::is_listened_on;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Connecting waited for the collector of another run that was stopped (Ctrl-Z), and no further run began.
    #[test]
    fn who_listens_is_known_without_waiting_until_a_full_queue_has_room() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        assert!(is_listened_on(&socket).is_err(), "there is no socket");
        let listener = UnixListener::bind(&socket).unwrap();
        // SAFETY: lets one connection wait to be accepted.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let waiting = UnixStream::connect(&socket).unwrap();
        assert!(is_listened_on(&socket).unwrap(), "the queue is full");
        drop(waiting);
        drop(listener);
        assert!(!is_listened_on(&socket).unwrap(), "nobody listens");
    }
}
