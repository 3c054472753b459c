//! Links the library as `libcuda.so.1` and turns `names.txt` into the address table and the unsimulated functions.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::{env, fs, path::Path};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=names.txt");
    println!("cargo:rerun-if-changed=src/api");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // A Rust cdylib takes its own exported functions' addresses through the GOT, where a preloaded library of the same
    // names would win: cuGetProcAddress must hand out our own.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");

    // It has threads and an exit handler: it stays.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");

    let names = fs::read_to_string("names.txt").expect("names.txt");
    let simulated = simulated(Path::new("src/api"));
    let mut known = BTreeSet::new();
    let (mut rows, mut declarations, mut stubs) = (String::new(), String::new(), String::new());
    for line in names.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let base = words.next().expect("a base name");
        for variant in words {
            let digits = variant.find(|c: char| !c.is_ascii_digit()).unwrap_or(variant.len());
            let (version, export) = (&variant[..digits], format!("{base}{}", &variant[digits..]));
            writeln!(
                rows,
                "Row {{ base: {base:?}, version: {version}, export: {export:?}, address: {export} }},"
            )
            .expect("a String takes all");
            if !known.insert(export.clone()) {
                continue;
            }
            writeln!(declarations, "fn {export}();").expect("a String takes all");
            if !simulated.contains(&export) {
                writeln!(stubs, "{export},").expect("a String takes all");
            }
        }
    }
    if let Some(stray) = simulated.difference(&known).next() {
        panic!("{stray} is simulated but not in names.txt");
    }
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    let table = format!(
        "unsafe extern \"C\" {{ {declarations} }}\npub static ROWS: &[Row] = &[\n{rows}];\nunsimulated! {{ {stubs} }}\n"
    );
    fs::write(Path::new(&out).join("names.rs"), table).expect("OUT_DIR is writable");
}

/// The exports that `exports!` tables define: every word before `=>` on a line that begins with `cu`.
fn simulated(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in fs::read_dir(folder).expect("src/api") {
        let text = fs::read_to_string(file.expect("an entry").path()).expect("a source file");
        let tables = text.lines().map(str::trim).filter(|line| line.starts_with("cu"));
        for (exports, _) in tables.filter_map(|line| line.split_once("=>")) {
            names.extend(exports.split('|').map(|name| name.trim().to_owned()));
        }
    }
    names
}
