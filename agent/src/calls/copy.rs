//! Copies and sets.

use gpuspy_wire::record::{self, Direction};

use crate::calls::Work;
use crate::cuda::*;
use crate::thread::Call;

/// A copy, by whichever API.
pub struct Copy {
    direction: Direction,
    dst: u64,
    src: u64,
    bytes: usize,
    /// The stream argument; none: a blocking copy on the default stream.
    stream: Option<CUstream>,
    /// Contexts of a peer copy: destination's, source's.
    peer: Option<(CUcontext, CUcontext)>,
}

/// cudaMemcpyKind (driver_types.h): HostToHost, HostToDevice, DeviceToHost, DeviceToDevice, Default.
pub fn runtime_direction(kind: cudaMemcpyKind) -> Direction {
    match kind {
        0 => Direction::HtoH,
        1 => Direction::HtoD,
        2 => Direction::DtoH,
        3 => Direction::DtoD,
        _ => Direction::Default,
    }
}

impl Copy {
    /// A blocking copy.
    pub fn new(direction: Direction, dst: u64, src: u64, bytes: usize) -> Copy {
        Copy { direction, dst, src, bytes, stream: None, peer: None }
    }

    /// An asynchronous one.
    pub fn on(self, stream: CUstream) -> Copy {
        Copy { stream: Some(stream), ..self }
    }

    /// Between two contexts.
    pub fn peer(self, dst: CUcontext, src: CUcontext) -> Copy {
        Copy { peer: Some((dst, src)), ..self }
    }
}

impl Work for Copy {
    type Record = record::Memcpy;

    fn stream(&self) -> CUstream {
        self.stream.unwrap_or(core::ptr::null_mut())
    }

    fn is_work(&self) -> bool {
        self.bytes != 0
    }

    fn is_blocking(&self) -> bool {
        self.stream.is_none()
    }

    fn record(self, call: &Call, work: record::Work) -> record::Memcpy {
        let other = |(dst, src): (CUcontext, CUcontext)| {
            let driver = crate::driver::driver()?;
            let number = |handle| call.session.contexts.get(call, driver, handle).map(|c| c.number);
            number(dst).filter(|n| *n != work.context).or_else(|| number(src))
        };
        record::Memcpy {
            work,
            bytes: self.bytes as u64,
            dst: self.dst,
            src: self.src,
            rows: 1,
            peer_context: self.peer.and_then(other).unwrap_or(0),
            direction: self.direction as u8,
            asynchronous: u8::from(self.stream.is_some()),
            reserved: [0; 22],
        }
    }
}

/// A set, by whichever API.
pub struct Set {
    dst: u64,
    value: u32,
    element: u8,
    count: usize,
    stream: Option<CUstream>,
}

impl Set {
    /// A set of `count` elements of `element` bytes.
    pub fn new(dst: u64, value: u32, element: u8, count: usize) -> Set {
        Set { dst, value, element, count, stream: None }
    }

    /// An asynchronous one.
    pub fn on(self, stream: CUstream) -> Set {
        Set { stream: Some(stream), ..self }
    }
}

impl Work for Set {
    type Record = record::Memset;

    fn stream(&self) -> CUstream {
        self.stream.unwrap_or(core::ptr::null_mut())
    }

    fn is_work(&self) -> bool {
        self.count != 0
    }

    fn record(self, _: &Call, work: record::Work) -> record::Memset {
        record::Memset {
            work,
            bytes: (self.count as u64).saturating_mul(u64::from(self.element)),
            dst: self.dst,
            value: self.value,
            rows: 1,
            element: self.element,
            asynchronous: u8::from(self.stream.is_some()),
            reserved: [0; 30],
        }
    }
}
