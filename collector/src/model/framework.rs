//! Which framework does the program use?

/// What a program calls CUDA through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Framework {
    /// PyTorch.
    PyTorch,
    /// JAX, or TensorFlow on XLA.
    Jax,
    /// None that is known: CUDA itself.
    #[default]
    Cuda,
}

/// How the names of the libraries of PyTorch begin (its wheels: `torch/lib`).
const PYTORCH: [&str; 2] = ["libtorch", "libc10"];
/// How the names of the libraries of XLA begin (the wheels of jaxlib, of its CUDA plugin, and of TensorFlow).
const XLA: [&str; 4] = ["xla_extension", "xla_cuda_plugin", "libjax_common", "_pywrap_tensorflow"];

impl Framework {
    /// Returns the framework whose library is among these paths. A program that maps libraries of both counts as one of
    /// PyTorch.
    pub fn of<'p>(paths: impl Iterator<Item = &'p str>) -> Framework {
        let of = |path: &str| {
            let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
            let is_of = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
            match () {
                () if is_of(&PYTORCH) => Framework::PyTorch,
                () if is_of(&XLA) => Framework::Jax,
                () => Framework::Cuda,
            }
        };
        paths.map(of).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_framework_is_known_by_its_libraries() {
        for (paths, framework) in [
            (&["/usr/bin/python3", "/v/torch/lib/libtorch_cuda.so"][..], Framework::PyTorch),
            (&["/v/jaxlib/xla_extension.so", "/usr/bin/python3"], Framework::Jax),
            (&["/v/jax_plugins/xla_cuda12/xla_cuda_plugin.so"], Framework::Jax),
            (&["/v/jaxlib/xla_extension.so", "/v/torch/lib/libc10_cuda.so"], Framework::PyTorch),
            (&["/home/me/libtorch/train"], Framework::Cuda),
            (&[], Framework::Cuda),
        ] {
            assert_eq!(Framework::of(paths.iter().copied()), framework, "{paths:?}");
        }
    }
}
