//! Writes the first inputs of each target into `fuzz/corpus`.
//!
//!     cargo run -p gpuspy-fuzz --bin seeds [TRACE ...]
//!
//! Traces are cut down to a few records of each kind. Texts and files of programs are kept as they are.

use gpuspy_fuzz::seeds;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let keep = |target: &str, name: &str, bytes: &[u8]| {
        let folder = corpus.join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), bytes)
    };
    keep("records", "each_kind", &seeds::records())?;
    for (name, bytes) in seeds::segments() {
        keep("segment", name, &bytes)?;
        // The greeting is right, and one descriptor goes with it.
        keep("session", name, &[&[1], &bytes[..]].concat())?;
    }
    for (name, bytes) in seeds::handshakes() {
        keep("handshake", name, &bytes)?;
        keep("session", name, &[&[0], &bytes[..]].concat())?;
    }
    for trace in std::env::args_os().skip(1) {
        let small = seeds::small_trace(Path::new(&trace))?;
        let name = Path::new(&trace).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        keep("trace", &name, &small)?;
    }
    Ok(())
}
