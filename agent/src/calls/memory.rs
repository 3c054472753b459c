//! Allocations and frees.

use gpuspy_wire::record::{self, Kind, Memory};

use crate::calls::order::Untimed;
use crate::calls::{Plain, current_context, stream_of};
use crate::cuda::*;
use crate::gpu::stream::Stream;
use crate::thread::Call;

/// Where an allocation's address is.
enum Address {
    /// Written by the call, to be read after success: a CUdeviceptr or a pointer, both 64 bits.
    Out(*const u64),
    /// Known before.
    Known(u64),
}

/// An allocation.
pub struct Alloc {
    address: Address,
    bytes: usize,
    memory: Memory,
    stream: Option<CUstream>,
    untimed: Untimed,
}

impl Alloc {
    /// An allocation whose address the call writes to `out`.
    pub fn at<T>(out: *mut T, bytes: usize, memory: Memory) -> Alloc {
        const { assert!(size_of::<T>() == 8) };
        Alloc {
            address: Address::Out(out.cast_const().cast()),
            bytes,
            memory,
            stream: None,
            untimed: Untimed::default(),
        }
    }

    /// Memory of the app's own that the call makes known to CUDA.
    pub fn of(address: *mut void, bytes: usize, memory: Memory) -> Alloc {
        Alloc {
            address: Address::Known(address as u64),
            bytes,
            memory,
            stream: None,
            untimed: Untimed::default(),
        }
    }

    /// A stream-ordered one.
    pub fn on(self, stream: CUstream) -> Alloc {
        Alloc { stream: Some(stream), ..self }
    }
}

impl Plain for Alloc {
    fn kind(&self) -> Kind {
        Kind::Alloc
    }

    fn before(&self, call: &Call) {
        if let Some(stream) = self.stream {
            self.untimed.begin(call, stream);
        }
    }

    fn failed(&self, _: &Call) {
        self.untimed.failed();
    }

    fn after(&self, call: &Call, end: u64) -> bool {
        if let Some(stream) = self.stream {
            self.untimed.end(call, stream);
        }
        let address = match self.address {
            Address::Known(address) => address,
            // SAFETY: the call succeeded, so it has written there; null would have failed.
            Address::Out(out) if !out.is_null() => unsafe { out.read_unaligned() },
            Address::Out(_) => 0,
        };
        if address == 0 {
            return false; // cudaMalloc of no bytes succeeds with a null pointer
        }
        let stream = self.stream.and_then(|s| stream_of(call, s));
        let mut record = record::Alloc {
            head: call.head::<record::Alloc>(0),
            correlation: call.correlation,
            begin: call.begin,
            end,
            caller: call.caller,
            address,
            bytes: self.bytes as u64,
            context: stream.and_then(Stream::context).map_or_else(|| current_context(call), |c| c.number),
            stream: stream.map_or(0, Stream::id),
            ..Default::default()
        };
        record.memory = self.memory as u8;
        call.record(&record);
        true
    }
}

/// A free. Published before the real call, so that no allocation of the same address can come before it.
pub struct Free {
    address: u64,
    memory: Memory,
    stream: Option<CUstream>,
    untimed: Untimed,
}

impl Free {
    /// A free of an address.
    pub fn of(address: u64, memory: Memory) -> Free {
        Free { address, memory, stream: None, untimed: Untimed::default() }
    }

    /// A stream-ordered one.
    pub fn on(self, stream: CUstream) -> Free {
        Free { stream: Some(stream), ..self }
    }

    fn publish(&self, call: &Call) {
        if self.address == 0 {
            return; // a free of nothing
        }
        let stream = self.stream.and_then(|s| stream_of(call, s));
        let mut record = record::Free {
            head: call.head::<record::Free>(0),
            correlation: call.correlation,
            begin: call.begin,
            caller: call.caller,
            address: self.address,
            context: stream.and_then(Stream::context).map_or_else(|| current_context(call), |c| c.number),
            stream: stream.map_or(0, Stream::id),
            ..Default::default()
        };
        record.memory = self.memory as u8;
        call.publish(&record);
    }
}

impl Plain for Free {
    fn kind(&self) -> Kind {
        Kind::Free
    }

    fn before(&self, call: &Call) {
        self.publish(call);
        if let Some(stream) = self.stream {
            self.untimed.begin(call, stream);
        }
    }

    fn failed(&self, _: &Call) {
        self.untimed.failed();
    }

    fn after(&self, call: &Call, _: u64) -> bool {
        if let Some(stream) = self.stream {
            self.untimed.end(call, stream);
        }
        if call.layer == crate::hook::Layer::Runtime {
            // The driver's free was not seen: better late than never.
            self.publish(call);
        }
        false // the call's end and result follow as an Api record of the same correlation
    }

    fn subject(&self) -> u64 {
        self.address
    }
}
