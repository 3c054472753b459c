//! Which line of native code made a call: programs that are compiled here in many ways, compared with what they say of
//! themselves.

use gpuspy_tests::{Done, Run, gpuspy, report, root, sim_lib};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs a tool that must succeed.
pub fn tool(program: impl AsRef<std::ffi::OsStr>, folder: &Path, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A folder with a program.
struct Built {
    folder: tempfile::TempDir,
}

impl Built {
    /// Compiles `native_lines.cpp` and its library with these options.
    fn with(options: &[&str]) -> Built {
        let built = Built { folder: tempfile::tempdir().unwrap() };
        let sources = root().join("tests/programs");
        // The compiler says in what folder it ran.
        let copy = |name: &str| assert!(fs::copy(sources.join(name), built.path(name)).is_ok());
        fs::create_dir_all(built.path("include/c++")).unwrap();
        fs::create_dir_all(built.path("native")).unwrap();
        let names = ["native_lines.cpp", "native_lines.h", "include/c++/native_header.h", "native/library.c"];
        names.iter().for_each(|name| copy(name));
        built.compile(options);
        built
    }

    fn compile(&self, options: &[&str]) {
        let cuda = format!("-L{}", sim_lib().display());
        let library =
            ["-shared", "-fPIC", "-o", "liblibrary.so", "native/library.c", &cuda, "-l:libcudart.so.12"];
        self.tool("gcc", &[options, &library].concat());
        let program = ["-o", "program", "native_lines.cpp", "liblibrary.so", "-Wl,-rpath,$ORIGIN", &cuda];
        self.tool("g++", &[options, &program, &["-l:libcudart.so.12"]].concat());
    }

    fn tool(&self, program: &str, arguments: &[&str]) {
        tool(program, self.folder.path(), arguments);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self) -> Done {
        Run::command(self.path("program")).observed().succeeded()
    }
}

/// Returns the lines of `report --operations` for the memsets of a finished run.
fn memsets(done: &Done) -> Vec<Value> {
    let asked = Command::new(gpuspy()).arg("report").arg(done.trace()).arg("--operations").output().unwrap();
    let text = String::from_utf8(asked.stdout).unwrap();
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|operation| operation["kind"] == "memset").collect()
}

/// What the program said of its memsets, by their bytes: the line, and the function.
fn said(done: &Done) -> Vec<(u32, String)> {
    let of_line = |(number, line): (usize, &str)| {
        let parts: Vec<&str> = line.split(' ').collect();
        assert_eq!(parts[0], (number + 1).to_string());
        (parts[1].parse().unwrap(), parts[2].to_owned())
    };
    let said: Vec<(u32, String)> = done.stdout.lines().enumerate().map(of_line).collect();
    assert_eq!(said.len(), 12, "{}", done.stdout);
    said
}

/// Pairs each memset with what the program said of it.
fn compared(done: &Done) -> Vec<(Value, u32, String)> {
    let (said, memsets) = (said(done), memsets(done));
    assert_eq!(said.len(), memsets.len());
    let of = |memset: Value| {
        let (line, function) = said[memset["bytes"].as_u64().unwrap() as usize - 1].clone();
        (memset, line, function)
    };
    memsets.into_iter().map(of).collect()
}

/// Returns the line of the library's call.
fn line_of_library() -> u32 {
    let source = fs::read_to_string(root().join("tests/programs/native/library.c")).unwrap();
    1 + source.lines().position(|line| line.contains("the library's own call")).unwrap() as u32
}

/// Checks that each memset has its line.
fn check_lines(built: &Built, done: &Done, is_inlined: bool) {
    for (memset, line, function) in compared(done) {
        let expected = match function.as_str() {
            "library_memset" => format!("{}:{}", built.path("native/library.c").display(), line_of_library()),
            // Only an inlined header has a caller that the return address tells.
            "through_a_header" if !is_inlined => unreachable!("it is always inlined"),
            _ => format!("{}:{line}", built.path("native_lines.cpp").display()),
        };
        assert_eq!(memset["line"], json!(expected), "{memset}");
        let frames = memset["stack"].as_array().unwrap();
        let is_there = frames.iter().any(|frame| frame.as_str().unwrap().contains(&function));
        assert!(is_there, "{function}: {memset}");
    }
}

#[test]
fn each_native_call_has_the_line_that_the_program_says() {
    for options in [
        &["-g", "-O0"][..],
        &["-g", "-O2"],
        &["-g", "-O3", "-fno-plt", "-ffunction-sections", "-Wl,--gc-sections"],
        &["-gdwarf-4", "-O2"],
        &["-gdwarf-3", "-gstrict-dwarf", "-O1"],
        &["-g", "-O2", "-gz"],
        &["-g", "-O2", "-no-pie", "-fPIC"],
        &["-g", "-O2", "-flto", "-fuse-linker-plugin"],
        &["-g", "-O2", "-Wl,--build-id=none"],
        &["-g", "-O2", "-Wl,--build-id=md5"],
    ] {
        println!("{options:?}");
        let built = Built::with(options);
        check_lines(&built, &built.run(), true);
    }
}

#[test]
fn functions_that_were_inlined_are_the_stack_of_a_native_call() {
    let built = Built::with(&["-g", "-O2"]);
    let done = built.run();
    let (memset, line, _) =
        compared(&done).into_iter().find(|(_, _, function)| function == "inlined").unwrap();
    let frames = memset["stack"].as_array().unwrap();
    assert_eq!(frames[0], format!("inlined ({}:{line})", built.path("native_lines.cpp").display()).as_str());
    assert!(frames[1].as_str().unwrap().starts_with("model::Trainer::step(int) ("), "{memset}");
    let (memset, ..) =
        compared(&done).into_iter().find(|(_, _, function)| function == "through_a_header").unwrap();
    let header = memset["stack"][0].as_str().unwrap();
    assert!(header.starts_with("header_memset") && header.contains("native_header.h:"), "{memset}");
}

#[test]
fn debug_information_in_a_file_of_its_own_is_found() {
    for options in [&["-g", "-O2"][..], &["-g", "-O2", "-Wl,--build-id=none"]] {
        let built = Built::with(options);
        for file in ["program", "liblibrary.so"] {
            let debug = format!("{file}.debug");
            built.tool("objcopy", &["--only-keep-debug", file, &debug]);
            built.tool("strip", &[file]);
            built.tool("objcopy", &[&format!("--add-gnu-debuglink={debug}"), file]);
        }
        let done = built.run();
        check_lines(&built, &done, true);
        // One of another program is not believed.
        fs::write(built.path("program.debug"), fs::read(built.path("liblibrary.so.debug")).unwrap()).unwrap();
        for (memset, _, function) in compared(&done) {
            assert_eq!(memset["line"].is_null(), function != "library_memset", "{memset}");
        }
    }
}

#[test]
fn a_program_without_debug_information_has_functions() {
    let built = Built::with(&["-O0", "-fno-inline"]);
    let done = built.run();
    for (memset, _, function) in compared(&done) {
        let function = if function == "through_a_header" { "header_memset".into() } else { function };
        let line = memset["line"].as_str().unwrap_or_else(|| panic!("{memset}"));
        let file = if function == "library_memset" { "liblibrary.so" } else { "program" };
        // Functions that are always inlined are part of another one, which is what the symbols say.
        let is_part = ["inlined", "header_memset"].contains(&function.as_str());
        assert!(line.contains(&function) || is_part, "{function}: {memset}");
        assert!(line.ends_with(&format!(" in {file}")), "{memset}");
    }
    let report = report(&done.trace());
    let lines = report["lines"].as_array().unwrap();
    let of = |function: &str| lines.iter().find(|line| line["function"] == function).unwrap();
    let (main, library) = (of("main"), of("library_memset"));
    assert_eq!(main["library"], json!(built.path("program")));
    assert_eq!((&main["file"], &main["line"]), (&main["library"], &Value::Null));
    assert_eq!(library["library"], json!(built.path("liblibrary.so")));
    assert_eq!(library["calls"], json!({"cudaMemset": 1}));
}

#[test]
fn a_stripped_program_has_what_its_exported_symbols_say() {
    let built = Built::with(&["-O2"]);
    built.tool("strip", &["program", "liblibrary.so"]);
    for (memset, _, function) in compared(&built.run()) {
        let expected = (function == "library_memset").then_some("library_memset in liblibrary.so");
        assert_eq!(memset["line"], json!(expected), "{memset}");
    }
}

#[test]
fn a_file_that_changed_after_the_run_has_no_line_and_is_named() {
    for options in [&["-g", "-O2"][..], &["-g", "-O2", "-Wl,--build-id=none"]] {
        let built = Built::with(options);
        let done = built.run();
        let notes = || report(&done.trace())["processes"][0]["notes"].clone();
        assert_eq!(notes(), json!([]));
        let source = fs::read_to_string(built.path("native_lines.cpp")).unwrap();
        fs::write(built.path("native_lines.cpp"), format!("\n\n{source}")).unwrap();
        // A compiler that writes into the file of a program would change that of a running one.
        fs::remove_file(built.path("program")).unwrap();
        let missing = notes();
        let expected = format!(
            "{} is not on this machine: calls from it have no line; make the report where the program's files are",
            built.path("program").display()
        );
        assert_eq!(missing, json!([expected]), "a file that is not there has not changed");
        let library = fs::read(built.path("liblibrary.so")).unwrap();
        built.compile(options);
        fs::write(built.path("liblibrary.so"), library).unwrap();
        for (memset, _, function) in compared(&done) {
            let is_believed = function == "library_memset" && options.len() == 2;
            assert_eq!(memset["line"].is_string(), is_believed, "{options:?}: {memset}");
        }
        let notes = notes();
        // Of a file without a build id that was written again, nobody knows whether it is the same.
        let files =
            if options.len() == 2 { &["program has"][..] } else { &["liblibrary.so, ", "program have"] };
        let note = notes[0].as_str().unwrap();
        assert!(files.iter().all(|file| note.contains(file)), "{notes}");
        assert!(
            note.contains(" changed since the run: calls from ") && note.ends_with(" have no line"),
            "{note}"
        );
        assert_eq!(notes.as_array().unwrap().len(), 1, "{notes}");
    }
}

#[test]
fn calls_count_for_their_native_lines() {
    let built = Built::with(&["-g", "-O2"]);
    let done = built.run();
    let report = report(&done.trace());
    let lines = report["lines"].as_array().unwrap();
    let said = said(&done);
    let (line, _) = said.iter().find(|(_, function)| function == "inlined").unwrap();
    let inlined = lines.iter().find(|row| row["line"] == *line).unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(inlined["calls"], json!({"cudaMemset": 3}));
    assert_eq!(inlined["bytes"], 2 + 3 + 4);
    assert_eq!(inlined["file"], json!(built.path("native_lines.cpp")));
    assert_eq!(
        (&inlined["function"], &inlined["library"]),
        (&json!("inlined"), &json!(built.path("program")))
    );
    let calls =
        |line: &Value| line["calls"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    let apis = report["apis"].as_array().unwrap().iter().map(|api| api["count"].as_u64().unwrap());
    assert_eq!(lines.iter().map(calls).sum::<u64>(), apis.sum::<u64>(), "the rows sum to the whole");
    assert!(done.section("lines").contains("inlined"));
}

#[test]
fn an_export_has_the_lines_of_native_calls() {
    let built = Built::with(&["-g", "-O2"]);
    let done = built.run();
    let exported = built.path("trace.json");
    let mut export = Command::new(gpuspy());
    let export = export.arg("export").arg(done.trace()).arg("-o").arg(&exported).output().unwrap();
    assert!(export.status.success());
    let chrome: Value = serde_json::from_str(&fs::read_to_string(exported).unwrap()).unwrap();
    let events = chrome["traceEvents"].as_array().unwrap();
    let mut lines: Vec<&str> = events
        .iter()
        .filter(|e| e["name"] == "cudaMemset")
        .filter_map(|e| e["args"]["line"].as_str())
        .collect();
    let source = built.path("native_lines.cpp").display().to_string();
    let said = said(&done);
    let of_library = format!("{}:{}", built.path("native/library.c").display(), line_of_library());
    let mut expected: Vec<String> = said
        .iter()
        .map(|(line, function)| match function.as_str() {
            "library_memset" => of_library.clone(),
            _ => format!("{source}:{line}"),
        })
        .collect();
    lines.sort_unstable();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn a_program_in_rust_has_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("rust.rs");
    fs::copy(root().join("tests/programs/native/rust.rs"), &source).unwrap();
    let cuda = sim_lib().join("libcudart.so.12").display().to_string();
    let rustc = |options: &[&str]| {
        let link = format!("link-arg={cuda}");
        let common = ["--edition=2024", "-g", "-C", &link, source.to_str().unwrap()];
        tool(
            std::env::var("RUSTC").unwrap_or("rustc".to_owned()),
            folder.path(),
            &[&common, options].concat(),
        );
    };
    for options in [&["-Copt-level=0"][..], &["-Copt-level=3"]] {
        rustc(options);
        let done = Run::command(folder.path().join("rust")).observed().succeeded();
        let said: Vec<Vec<&str>> = done.stdout.lines().map(|line| line.split(' ').collect()).collect();
        let memsets = memsets(&done);
        assert_eq!((said.len(), memsets.len()), (3, 3));
        for (said, memset) in said.iter().zip(&memsets) {
            assert_eq!(memset["line"], json!(format!("{}:{}", source.display(), said[1])), "{memset}");
            assert!(memset["stack"][0].as_str().unwrap().starts_with(&format!("{} (", said[2])), "{memset}");
        }
    }
}

#[test]
fn a_launch_of_nvcc_s_has_the_line_of_its_brackets() {
    let cuda = root().join("downloads/nvcc/lib/python3.11/site-packages/nvidia/cu13");
    if !cuda.is_dir() {
        return; // scripts/test-clients.sh downloads it
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("kernels.cu");
    let text = "__global__ void add(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }\n\
                int main() {\n\
                float *x;\n\
                if (cudaMalloc(&x, 512)) return 1;\n\
                for (int i = 0; i < 3; i++) add<<<4, 32>>>(x, 32);\n\
                return cudaDeviceSynchronize() != 0;\n\
                }\n";
    fs::write(&source, text).unwrap();
    let (cccl, runtime) = (format!("-I{}/include/cccl", cuda.display()), sim_lib().join("libcudart.so.13"));
    let common = ["-g", "-arch=sm_80", "-cudart", "none", &cccl, "-Xlinker", runtime.to_str().unwrap()];
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        tool(
            cuda.join("bin/nvcc"),
            folder.path(),
            &[&common[..], &[level, "-o", "kernels", "kernels.cu"]].concat(),
        );
        let done = Run::command(folder.path().join("kernels")).observed().succeeded();
        let report = report(&done.trace());
        let lines = report["lines"].as_array().unwrap();
        let at = |line: u64| lines.iter().any(|row| row["file"] == json!(source) && row["line"] == line);
        assert!(at(6), "{lines:?}");
        let launches: Vec<&Value> = lines.iter().filter(|row| row["launches"] != 0).collect();
        assert_eq!(launches.len(), 1, "{lines:?}");
        assert_eq!((&launches[0]["file"], &launches[0]["line"]), (&json!(source), &json!(5)), "{level}");
        assert_eq!((&launches[0]["function"], &launches[0]["launches"]), (&json!("main"), &json!(3)));
    }
}

/// Before, calls from code that a just-in-time compiler made came from an unknown file, also where it lists that code.
#[test]
fn code_that_is_generated_has_the_names_that_the_program_lists_for_perf() {
    let rows = |done: &Done| {
        let report = report(&done.trace());
        let rows = report["lines"].as_array().unwrap().clone();
        let of = |row: &Value| (row["function"].clone(), row["calls"]["cudaDeviceSynchronize"].clone());
        rows.iter().map(of).filter(|(_, calls)| calls.is_u64()).collect::<Vec<_>>()
    };
    let program = || Run::command(gpuspy_tests::program("generated_code"));
    let done = program().observed().succeeded();
    let list = PathBuf::from(format!("/tmp/perf-{}.map", done.stdout.trim()));
    let listed = fs::read(&list);
    let seen = rows(&done);
    // The process's number is used again by another one, which writes a list of its own.
    let written = fs::metadata(&list).unwrap().modified().unwrap();
    let later = fs::File::options().write(true).open(&list).unwrap();
    later.set_modified(written + std::time::Duration::from_secs(60)).unwrap();
    let after = rows(&done);
    fs::remove_file(&list).unwrap();
    assert!(listed.is_ok());
    let names = [("Lapp/Train;::step", 3), ("Lapp/Train;::\u{202e}last", 1)];
    let expected: Vec<_> = names.map(|(name, calls)| (json!(name), json!(calls))).into();
    assert_eq!(seen, expected);
    let is_named = |(function, _): &(Value, Value)| function.to_string().contains("Train");
    assert!(!after.iter().any(is_named), "{after:?}");
    let unlisted = program().arg("unlisted").observed().succeeded();
    assert!(!rows(&unlisted).iter().any(is_named));
}

/// Libraries with a function at the same offset, which a program loads one after another, to call each so often.
fn plugins(calls: usize, libraries: &[&str]) -> (Built, Done) {
    let built = Built { folder: tempfile::tempdir().unwrap() };
    let sources = root().join("tests/programs");
    let cuda = format!("-L{}", sim_lib().display());
    fs::create_dir(built.path("native")).unwrap();
    for name in ["native_lines.h", "native/plugins.c"] {
        fs::copy(sources.join(name), built.path(name)).unwrap();
    }
    for name in ["one", "two"] {
        let source = format!("native/{name}.c");
        fs::copy(sources.join("native/library.c"), built.path(&source)).unwrap();
        let library = format!("lib{name}.so");
        built.tool("gcc", &["-g", "-shared", "-fPIC", "-o", &library, &source, &cuda, "-l:libcudart.so.12"]);
    }
    built.tool("gcc", &["-g", "-o", "program", "native/plugins.c", "-ldl", &cuda, "-l:libcudart.so.12"]);
    let run = Run::command(built.path("program")).arg(calls.to_string()).arg(built.folder.path());
    let done = libraries.iter().fold(run, |run, library| run.arg(library)).observed().succeeded();
    (built, done)
}

/// No call from a library that was loaded by a relative path had a line.
#[test]
fn a_library_that_was_loaded_by_a_relative_path_has_lines() {
    let (built, done) = plugins(100, &["./libone.so"]);
    let line = format!("{}:{}", built.path("native/one.c").display(), line_of_library());
    let memsets = memsets(&done);
    assert_eq!(memsets.len(), 100);
    memsets.iter().for_each(|memset| assert_eq!(memset["line"], json!(line), "{memset}"));
    assert_eq!(report(&done.trace())["processes"][0]["notes"], json!([]));
}

/// All calls of the libraries that were unloaded were attributed to the one that was loaded last, and none of them had a line.
#[test]
fn calls_of_an_unloaded_library_are_not_those_of_the_one_in_its_place() {
    let loaded = ["libone.so", "libtwo.so", "libone.so"].map(|library| format!("./{library}"));
    let (built, done) = plugins(100, &loaded.each_ref().map(String::as_str));
    let places: Vec<&str> = done.stdout.lines().collect();
    assert!(places.iter().all(|place| *place == places[0]), "all at one address: {places:?}");
    let memsets = memsets(&done);
    assert_eq!(memsets.len(), 300);
    for (number, name) in [(2, "one"), (3, "two"), (4, "one")] {
        let line = format!("{}:{}", built.path(&format!("native/{name}.c")).display(), line_of_library());
        let of_it: Vec<&Value> = memsets.iter().filter(|memset| memset["bytes"] == number).collect();
        // Those that were made around a change may be of either library.
        let (known, unknown): (Vec<&Value>, Vec<&Value>) =
            of_it.into_iter().partition(|memset| memset["line"].is_string());
        assert!(!known.is_empty(), "{name}, load {number}");
        known.iter().for_each(|memset| assert_eq!(memset["line"], json!(line), "{memset}"));
        println!("load {number} of {name}: {} calls have no line", unknown.len());
    }
    let report = report(&done.trace());
    let rows = report["lines"].as_array().unwrap().iter().filter(|row| row["function"] == "library_memset");
    let mut libraries: Vec<&str> = rows.map(|row| row["library"].as_str().unwrap()).collect();
    libraries.sort_unstable();
    let expected = ["libone.so", "libtwo.so"].map(|name| built.path(name).display().to_string());
    assert_eq!(libraries, expected);
}

/// A library that was loaded in the last tenth of a second was unknown, and at times all of them in a program that is over soon.
#[test]
fn a_library_that_is_loaded_just_before_the_end_has_lines() {
    let (built, done) = plugins(1, &["./libone.so"]);
    let line = format!("{}:{}", built.path("native/one.c").display(), line_of_library());
    let lines: Vec<Value> = memsets(&done).iter().map(|memset| memset["line"].clone()).collect();
    assert_eq!(lines, [json!(line)]);
}
