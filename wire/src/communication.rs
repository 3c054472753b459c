//! Which kernels move data between GPUs? The agent times them with care, since they may wait for their peers;
//! the collector counts them as communication.

/// Parts of the names, mangled or not, of kernels that all ranks of a communicator launch:
///
/// - NCCL's: `ncclDevKernel_…`, before 2.19 `ncclKernel_…`; on symmetric memory `ncclSymkDevKernel_…`, in 2.27
///   `ncclSymDevKernel_…` (src/device/symmetric/generate.py).
/// - `cross_device_reduce_1stage` and `…_2stage` of vLLM and SGLang (custom_all_reduce.cuh).
/// - PyTorch's on symmetric memory: `one_shot_all_reduce_kernel`, `two_shot_all_reduce_kernel` and
///   `multimem_all_reduce_kernel` (CUDASymmetricMemoryOps.cu).
/// - `oneShotAllReduceKernel` and `twoShotAllReduceKernel` of TensorRT-LLM (customAllReduceKernels.cu), its and
///   FlashInfer's `allreduce_fusion_kernel_…` (allReduceFusionKernels.cu, trtllm_allreduce_fusion.cuh), and
///   FlashInfer's `oneshotAllreduceFusionKernel` and `twoshotAllreduceKernel` (trtllm_mnnvl_allreduce.cuh).
const COLLECTIVES: [&[u8]; 12] = [
    b"ncclDevKernel",
    b"ncclKernel",
    b"ncclSym",
    b"cross_device_reduce",
    b"one_shot_all_reduce",
    b"two_shot_all_reduce",
    b"multimem_all_reduce",
    b"oneShotAllReduce",
    b"twoShotAllReduce",
    b"allreduce_fusion",
    b"oneshotAllreduce",
    b"twoshotAllreduce",
];

/// The same of kernels that some ranks may launch more often than others: MSCCL's, and those that use NVSHMEM or are
/// in the namespaces of DeepEP and MSCCL++.
const OTHERS: [&[u8]; 4] = [b"mscclKernel", b"nvshmem", b"deep_ep", b"mscclpp"];

/// Whether a kernel with this name moves data between GPUs.
pub fn is_communication(name: &[u8]) -> bool {
    COLLECTIVES.iter().chain(&OTHERS).any(|part| contains(name, part))
}

/// Whether all ranks of a communicator launch a kernel with this name: not NCCL's point-to-point kernels, of which each
/// rank launches as many as it has messages.
pub fn is_collective(name: &[u8]) -> bool {
    COLLECTIVES.iter().any(|part| contains(name, part)) && !contains(name, b"SendRecv")
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len()).any(|at| at == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communication_kernels_are_recognized_by_a_part_of_their_name() {
        for name in [
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
            "_Z25ncclKernel_AllGather_RING_SIMPLE_Sum_int8_t",
            "ncclSymDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymDevArgs)",
            "ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs4K)",
            "_ZN4vllm26cross_device_reduce_1stageI13__nv_bfloat16Li8EEEvPNS_8RankDataENS_11RankSignalsEPNS_6SignalEPT_ii",
            "void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*, sglang::RankSignals)",
            "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**)",
            "void (anonymous namespace)::one_shot_all_reduce_kernel<float, 16, 8>(float**)",
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
            "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true, false>(AllReduceParams)",
            "void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8, true, false>(AllReduceParams)",
            "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<1, __nv_bfloat16>()",
            "void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<2, __nv_bfloat16, true>()",
            "void flashinfer::trtllm_mnnvl_allreduce::twoshotAllreduceKernel<2, __nv_bfloat16, true>()",
        ] {
            assert!(is_communication(name.as_bytes()) && is_collective(name.as_bytes()), "{name}");
        }
        for name in [
            "_Z25ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t",
            "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
            "nvshmem_wait",
            "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)",
            "void allreduce<__half>(mscclpp::MemoryChannelDeviceHandle*)",
        ] {
            assert!(is_communication(name.as_bytes()) && !is_collective(name.as_bytes()), "{name}");
        }
        for name in ["", "nccl", "sm90_xmma_gemm_bf16bf16", "void at::native::reduce_kernel<512, 1>()"] {
            assert!(!is_communication(name.as_bytes()) && !is_collective(name.as_bytes()), "{name}");
        }
    }
}
