//! Memory pools of frameworks: what their libraries allocate, they hand out in pieces and keep.

/// Returns the framework whose memory pool is in the library at a path. PyTorch's caching allocator has a library of its
/// own (`libc10_cuda.so`); the pools of the others call CUDA from the library that does everything else, too.
pub fn pool_of(path: &str) -> Option<&'static str> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let starts = |names: &[&str]| names.iter().any(|name| file.starts_with(name));
    match () {
        () if starts(&["libc10_cuda"]) => Some("PyTorch"),
        () if starts(&["xla_cuda_plugin", "xla_extension", "libjax_common", "pjrt_c_api_gpu"]) => Some("JAX"),
        () if starts(&["libtensorflow", "_pywrap_tensorflow"]) => Some("TensorFlow"),
        () if path.contains("/cupy/") || path.contains("/cupy_backends/") => Some("CuPy"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_known_by_its_library() {
        for (path, pool) in [
            ("/v/torch/lib/libc10_cuda.so", Some("PyTorch")),
            ("/v/torch/lib/libtorch_cuda.so", None),
            ("/v/jax_plugins/xla_cuda12/xla_cuda_plugin.so", Some("JAX")),
            ("/v/cupy_backends/cuda/api/runtime.cpython-312-x86_64-linux-gnu.so", Some("CuPy")),
            ("/usr/lib/libnccl.so.2", None),
            ("/usr/lib/libcublas.so.12", None),
            ("/app/libc10_cuda/train", None),
        ] {
            assert_eq!(pool_of(path), pool, "{path}");
        }
    }
}
