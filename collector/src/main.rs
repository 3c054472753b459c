//! The `gpuspy` command; what it does is in [`gpuspy_collector::cli`].

fn main() -> std::process::ExitCode {
    gpuspy_collector::cli::main()
}
