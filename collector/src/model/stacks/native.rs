//! Frames of native functions.

use super::Frame;
use crate::model::names::demangle;

/// A function's name is cut to so many bytes: names of C++ templates have no limit.
const LONGEST_FUNCTION: usize = 1024;
/// How nvcc calls the functions that launch a kernel for `<<<>>>`, before the kernel's own name: mangled, or of a template
/// (`__wrapper__device_stub_`) as it is written.
const STUB: &str = "__device_stub_";
/// The function of a frame that nobody knows.
const LOST: &str = "?";

impl Frame {
    /// A frame of a function in a library, at a line of a file if that is known.
    pub fn native(function: &str, place: Option<(String, u32)>, library: &str) -> Frame {
        let demangled = demangle(function);
        let (file, line) = place.filter(|(_, line)| *line != 0).unwrap_or((library.to_owned(), 0));
        let mut function = one_line(&demangled);
        if function.len() > LONGEST_FUNCTION {
            function.truncate(function.floor_char_boundary(LONGEST_FUNCTION));
            function.push('…');
        }
        Frame { file: one_line(&file), line, function, library: one_line(library), first_line: 0 }
    }

    /// Returns the frames of a caller, the innermost first, such that one of them is the user's. If all are in headers of
    /// CUDA or of the system, that is the outermost, without a line: the line that called it is not known, and theirs is
    /// not the program's.
    pub fn of_caller(mut frames: Vec<Frame>) -> Vec<Frame> {
        if !frames.iter().any(Frame::is_users_native)
            && let Some(outermost) = frames.last_mut()
        {
            (outermost.file, outermost.line) = (outermost.library.clone(), 0);
            if let Some(kernel) = launched(&outermost.function) {
                outermost.function = format!("launch of {kernel}");
            }
        }
        frames
    }

    /// Returns the frames of a stack from which a kernel was launched without those in front that compiled code has for it:
    /// nvcc's, of which one has the kernel's own name, and the runtime's headers'. All of them, if there are no others.
    pub fn without_launch(mut frames: Vec<Frame>, kernel: &str) -> Vec<Frame> {
        let mut stub = None;
        let of_launch = frames.iter().take_while(|frame| {
            let of_stub = launched(&frame.function);
            let is_of_stub = |stub: &String| {
                let rest = stub.strip_prefix(frame.function.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
            };
            let is_own = frame.function == kernel || stub.as_ref().is_some_and(is_of_stub);
            let is_one = is_own || of_stub.is_some() || is_runtimes(&frame.function);
            stub = of_stub.or(stub.take());
            is_one
        });
        let count = of_launch.count();
        if count < frames.len() {
            frames.drain(..count);
        }
        frames
    }

    /// The frame of a function that its file, if that is known, says nothing of.
    pub fn lost(library: Option<String>) -> Frame {
        let library = library.unwrap_or_else(|| "an unknown file".to_owned());
        Frame { function: LOST.to_owned(), library: one_line(&library), ..Frame::default() }
    }

    /// Whether it is one of those.
    pub fn is_lost(&self) -> bool {
        self.function == LOST && self.file.is_empty()
    }

    /// Returns the frames before the first that is [lost](Frame::lost), unless one of them is the user's: behind a function
    /// that nobody knows, the line of another one would be told in its place.
    pub fn up_to_lost(mut frames: Vec<Frame>) -> Vec<Frame> {
        let lost = frames.iter().position(Frame::is_lost).unwrap_or(frames.len());
        if !frames.iter().take(lost).any(Frame::is_users_native) {
            frames.truncate(lost);
        }
        frames
    }

    /// Returns it as a trace has it.
    pub(in crate::model) fn text(&self) -> String {
        let Frame { file, line, function, library, first_line } = self;
        format!("{function}\n{file}\n{line}\n{library}\n{first_line}")
    }

    /// Whether it is native, and in the program's own files; of a library without debug information every function is.
    pub(super) fn is_users_native(&self) -> bool {
        let is_whole = self.line == 0 && self.file == self.library;
        let is_native = !self.library.is_empty() && launched(&self.function).is_none();
        is_native && (is_whole || self.line != 0 && !is_of_others(&self.file))
    }
}

/// Returns the kernel that a stub of nvcc launches.
fn launched(function: &str) -> Option<String> {
    let (_, kernel) = function.split_once(STUB)?;
    Some(match kernel.starts_with("_Z") {
        true => demangle(kernel.split('(').next().unwrap_or(kernel)),
        false => kernel.to_owned(),
    })
}

/// Whether a function is one of the runtime's headers that launch: the templates around `cudaLaunchKernel`, and what nvcc calls
/// without optimization.
fn is_runtimes(function: &str) -> bool {
    let name = function.split(['(', '<']).next().unwrap_or(function);
    let name = name.rsplit(' ').next().unwrap_or(name);
    name.trim_start_matches('_').starts_with("cudaLaunch")
}

/// Whether a source file is not the program's own: a header of the system or of CUDA, the standard library of C++ or Rust, a
/// crate, or what nvcc wrote.
fn is_of_others(file: &str) -> bool {
    let starts = ["/usr/include/", "/usr/local/include/", "/usr/lib/gcc/", "/rustc/"];
    // With the standard libraries of GCC and of LLVM, and where Cargo keeps crates.
    let holds = ["/include/c++/", "/c++/v1/", "/.cargo/registry/src/", "/rustlib/src/"];
    let of_cuda = || {
        let mut folders = file.split('/').rev().skip(1).skip_while(|folder| *folder != "include");
        let is_toolkit = |folder: &str| {
            let number = folder.strip_prefix("cuda").map(|rest| rest.trim_start_matches('-'));
            folder == "nvidia"
                || number
                    .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        };
        folders.any(is_toolkit)
    };
    let name = file.rsplit('/').next().unwrap_or(file);
    starts.iter().any(|start| file.starts_with(start))
        || holds.iter().any(|part| file.contains(part))
        || name.contains(".cudafe1.")
        || name.starts_with("cuda_runtime")
        || of_cuda()
}

/// A name without control characters: in a trace, a frame's parts are a line each.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Stacks;
    use super::*;
    use crate::trace::record::{Call, Names};
    use gpuspy_wire::record::Namespace;

    fn at(function: &str, file: &str) -> Frame {
        Frame::native(function, Some((file.to_owned(), 7)), "/opt/app")
    }

    #[test]
    fn headers_of_others_are_told_from_the_programs_own() {
        for own in [
            "main.cpp",
            "/home/ann/src/include/a.h",
            "/home/ann/cuda-samples/include/a.h",
            "/work/nvidia/a.cu",
        ] {
            assert!(!is_of_others(own), "{own}");
        }
        for other in [
            "/usr/include/x86_64-linux-gnu/bits/stdio2.h",
            "/usr/local/cuda-12.9/targets/x86_64-linux/include/thrust/copy.h",
            "/opt/cuda/include/cub/cub.cuh",
            "/x/site-packages/nvidia/cu13/include/crt/device_functions.h",
            "/opt/gcc/include/c++/12/bits/std_function.h",
            "/tmp/tmpxft_00006f1e_00000000-6_k.cudafe1.stub.c",
            "/rustc/abc/library/core/src/ops/function.rs",
            "/home/ann/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/cust-0.3/src/lib.rs",
        ] {
            assert!(is_of_others(other), "{other}");
        }
    }

    #[test]
    fn of_a_caller_the_users_frame_is_the_innermost_of_its_own_files() {
        let template = at("cudaLaunchKernel", "/opt/cuda/include/cuda_runtime.h");
        let (step, main) = (at("_Z4stepPf", "/src/step.cpp"), at("main", "/src/main.cpp"));
        let frames = [template.clone(), step.clone(), main];
        assert_eq!(Frame::of_caller(frames.to_vec()), frames);
        assert!(!template.is_users_native() && step.is_users_native());
        let alone = Frame::of_caller(vec![template]);
        assert_eq!(alone[0].place(), "cudaLaunchKernel in app");
        let stub = at("_Z23__device_stub__Z3addPfiPfi", "/tmp/x.cudafe1.stub.c");
        assert_eq!(Frame::of_caller(vec![stub])[0].place(), "launch of add(float*, int) in app");
        assert_eq!(Frame::of_caller(Vec::new()), []);
    }

    #[test]
    fn no_line_is_told_from_behind_a_function_that_nobody_knows() {
        let (step, main) = (at("_Z4stepPf", "/src/step.cpp"), at("main", "/src/main.cpp"));
        let lost = Frame::lost(Some("/lib/x.so".to_owned()));
        assert_eq!(lost.place(), "? in x.so");
        let header = at("_Z6launchv", "/usr/include/a.h");
        let hidden = [header.clone(), lost.clone(), main.clone()];
        assert_eq!(Frame::up_to_lost(hidden.to_vec()), [header]);
        let behind = [step, lost.clone(), main];
        assert_eq!(Frame::up_to_lost(behind.to_vec()), behind);
        assert_eq!(Frame::up_to_lost(vec![lost]), []);
        assert_eq!(Frame::lost(None).place(), "? in an unknown file");
    }

    /// What nvcc 13.5 makes of `add<<<1, 1>>>(p, 3)`, without optimization, with it, and with more of it.
    #[test]
    fn behind_a_launch_is_the_function_with_the_three_brackets() {
        let helper =
            at("_ZL25__cudaLaunchKernel_helperP9CUkern_st4dim3S1_PPvmP11CUstream_st", "/c/host_runtime.h");
        let template =
            at("_Z16cudaLaunchKernelIcE9cudaErrorPT_4dim3S3_PPvmP11CUstream_st", "/c/cuda_runtime.h");
        let stub = at("_Z23__device_stub__Z3addPfiPfi", "/tmp/x.cudafe1.stub.c");
        let own = at("_Z3addPfi", "/src/add.cu");
        let wrapper = at("__wrapper__device_stub_add<(int)4>", "/tmp/x.cudafe1.stub.c");
        let template_own = at("add<(int)4>", "/src/add.cu");
        let (step, main) = (at("_Z4stepPf", "/src/step.cu"), at("main", "/src/main.cu"));
        let program = [step.clone(), main.clone()];
        for front in [
            &[helper, stub.clone(), own.clone()][..],
            &[template, stub.clone(), own.clone()],
            std::slice::from_ref(&stub),
            &[stub.clone(), wrapper.clone(), template_own.clone()],
            &[wrapper, template_own],
            std::slice::from_ref(&own),
        ] {
            let frames = [front, &program].concat();
            assert_eq!(Frame::without_launch(frames, "add(float*, int)"), program, "{front:?}");
            assert_eq!(
                Frame::without_launch(front.to_vec(), "add(float*, int)"),
                front,
                "there is nothing else"
            );
        }
        let by_hand = [step.clone(), own.clone(), main];
        assert_eq!(Frame::without_launch(by_hand.to_vec(), "add(float*, int)"), by_hand);
        // The name that the driver gives a kernel of a file may differ from the one that its own function has.
        let frames = Frame::without_launch(vec![stub, own, step.clone()], "_ZN34_INTERNAL_add3addEPfi");
        assert_eq!(frames, [step]);
    }

    #[test]
    fn a_native_frame_is_read_as_it_was_written() {
        let frames = [
            Frame::native("evil\nname", Some(("a\nb.c".to_owned(), 9)), "/lib/x.so"),
            Frame::native("step", None, "/lib/x.so"),
            at(&"n".repeat(9000), "main.c"),
        ];
        for frame in frames {
            assert_eq!(Frame::parse(&frame.text()), Some(frame.clone()));
            assert!(frame.function.len() < 1100);
        }
    }

    #[test]
    fn a_native_frame_counts_where_python_has_none_of_its_own() {
        let native = Frame::native("copy", None, "/x/libtorch_cuda.so").text();
        let names = [
            (Namespace::Frame, 1, "item\n/x/site-packages/torch/_tensor.py\n30"),
            (Namespace::Frame, 2, &native),
            (Namespace::Stack, 7, "2 1"),
        ];
        let names = names.map(|(space, id, text)| ((space, id), text.to_owned()));
        let stacks = Stacks::of(&Names(names.into()));
        assert_eq!(
            stacks.line(stacks.line_of(&Call { stack: 7, ..Call::default() })).map(Frame::place).as_deref(),
            Some("copy in libtorch_cuda.so")
        );
        let listed = ["copy in libtorch_cuda.so", "item (/x/site-packages/torch/_tensor.py:30)"];
        assert_eq!(stacks.listed(7).unwrap(), listed);
    }
}
