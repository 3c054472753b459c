//! Which kernels move data between GPUs? The agent times them with care, since they may wait for their peers;
//! the collector counts them as communication.

/// Parts of their names, mangled or not: of NCCL's device functions (`ncclDevKernel_…`, before 2.19
/// `ncclKernel_…`), and of MSCCL's and NVSHMEM's.
const NAMES: [&[u8]; 4] = [b"ncclDevKernel", b"ncclKernel", b"mscclKernel", b"nvshmem"];

/// Whether a kernel with this name moves data between GPUs.
pub fn is_communication(name: &[u8]) -> bool {
    NAMES.iter().any(|part| name.windows(part.len()).any(|at| at == *part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communication_kernels_are_recognized_by_a_part_of_their_name() {
        for name in [
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "_Z25ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
            "nvshmem_wait",
        ] {
            assert!(is_communication(name.as_bytes()), "{name}");
        }
        for name in ["", "nccl", "sm90_xmma_gemm_bf16bf16"] {
            assert!(!is_communication(name.as_bytes()), "{name}");
        }
    }
}
