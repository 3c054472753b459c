//! The `gpuspy` command, which is implemented in [`gpuspy_collector::cli`].

fn main() -> std::process::ExitCode {
    gpuspy_collector::cli::main()
}
