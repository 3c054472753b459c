//! The examples in the crate's READMEs compile, run, and are the code in this file.

use gpuspy_collector::trace::generator::{Generator, Options, write_trace};
use std::path::PathBuf;

mod records {
    // README: src/trace
    use gpuspy_collector::trace::record::{Body, What, Work};
    use gpuspy_collector::trace::{TraceError, TraceReader};
    use std::path::Path;

    /// Counts the kernel launches of a trace, and those without a GPU time.
    pub fn launches(path: &Path) -> Result<(u64, u64), TraceError> {
        let mut trace = TraceReader::open(path)?;
        let (mut launches, mut untimed) = (0, 0);
        for record in trace.records() {
            if let Body::Work(Work { what: What::Kernel { .. }, gpu, .. }) = record.body {
                launches += 1;
                untimed += u64::from(gpu.is_none());
            }
        }
        if !trace.damage().is_none() {
            eprintln!("the trace is damaged: {:?}", trace.damage());
        }
        Ok((launches, untimed))
    }
    // end
}

mod kernels {
    // README: collector
    use gpuspy_collector::model::survey::Survey;
    use gpuspy_collector::model::{Action, Model, When};
    use gpuspy_collector::trace::{TraceError, TraceReader};
    use gpuspy_wire::record::Namespace;
    use std::path::Path;

    /// Returns each kernel's name with the bounds on its GPU time, in ns.
    pub fn kernels(path: &Path) -> Result<Vec<(String, u64, u64)>, TraceError> {
        let mut trace = TraceReader::open(path)?;
        let names = trace.names().clone();
        let clocks = Survey::of(trace.records());
        let mut model = Model::new(&names, &clocks);
        let mut kernels = Vec::new();
        for record in trace.records() {
            let Some(operation) = model.observe(&record).operation else { continue };
            if let (Action::Kernel { name, .. }, When::Timed(ran)) = (operation.what, operation.when) {
                let name = names.get(Namespace::Kernel, name).unwrap_or("(unknown)");
                kernels.push((name.to_owned(), ran.lo(), ran.hi()));
            }
        }
        Ok(kernels)
    }
    // end
}

/// The code between this file's marker for a README and the next `// end`, without its indentation.
fn example(readme: &str) -> String {
    let marker = format!("    // README: {readme}\n");
    let (_, code) = include_str!("readme.rs").split_once(&marker).unwrap();
    let (code, _) = code.split_once("    // end\n").unwrap();
    code.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect()
}

#[test]
fn the_readmes_show_the_code_that_these_tests_run() {
    let readmes =
        [("collector", include_str!("../README.md")), ("src/trace", include_str!("../src/trace/README.md"))];
    for (name, readme) in readmes {
        let code = format!("```rust\n{}```", example(name));
        assert!(readme.contains(&code), "the README of {name} should contain:\n{code}");
    }
}

/// A trace of 240 generated launches.
fn trace() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("example.gspy");
    write_trace(&path, &mut Generator::new(1, Options::default()), 240).unwrap();
    (folder, path)
}

#[test]
fn the_example_of_the_trace_reader_counts_launches() {
    let (_folder, path) = trace();
    assert_eq!(records::launches(&path).unwrap(), (240, 0));
}

#[test]
fn the_example_of_the_crate_lists_kernels() {
    let (_folder, path) = trace();
    let kernels = kernels::kernels(&path).unwrap();
    assert_eq!(kernels.len(), 240);
    assert!(kernels.iter().all(|(name, lo, hi)| !name.is_empty() && lo <= hi && *hi > 0));
}
