//! `gpuspy demo`: traces a small program with typical performance problems on this machine's GPU or on a simulated one, then
//! prints its report, writes its Chrome trace, and says what to look at in them.
//!
//! The program is this binary with a hidden command, so nothing has to be built or installed. It runs under the agent like any
//! program under `gpuspy run`, and reports when each of its phases ran.

mod driver;
mod kernels;
mod look;
mod phases;
mod simulator;
mod workload;

pub(super) use workload::{COMMAND as WORKLOAD, run as run_workload};

use super::launch::PrivateDir;
use super::observe::{Observed, observe};
use super::{Failure, doctor, export, print, quoted, report, say, say_what_is_missing};
use crate::collect::{HangWatch, Session, Target};
use crate::why::why;
use clap::Args;
use phases::Window;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

#[derive(Args, Debug)]
pub(super) struct Options {
    /// The directory for gpuspy-demo.gspy and gpuspy-demo.json.gz [default: the working directory]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Do not print the report, only what to look at
    #[arg(long)]
    no_report: bool,
}

/// The files that the demo leaves.
const TRACE: &str = "gpuspy-demo.gspy";
const CHROME: &str = "gpuspy-demo.json.gz";
/// The warning that goes with a simulated GPU.
const SIMULATED: &str = "all figures are simulated";
/// The compute capability that the kernels need: Volta, the target of their PTX.
const CAPABILITY: (i32, i32) = (7, 0);

pub(super) fn demo(options: &Options) -> Result<ExitCode, Failure> {
    let (target, chrome) = places(options.output.as_deref().unwrap_or(Path::new("")))?;
    let stage = Stage::set()?;
    print(&format!("{}\n", stage.sentence))?;
    let (trace, windows) = perform(&stage, target)?;
    drop(stage);
    if !options.no_report {
        print(&format!("\n{}", report::for_stdout(&trace)?))?;
    }
    export::write_chrome(&trace, &chrome)?;
    let pictures = look::pictures(&trace, &windows).map_err(|e| super::traces::unreadable(&trace, &e))?;
    print(&format!("\n{}", look::text(&pictures, &report::stdout_style())))?;
    print(&format!(
        "\nThe report again: gpuspy report {}\nThe timeline: open {} in https://ui.perfetto.dev\n",
        quoted(&trace),
        chrome.display()
    ))
}

/// Returns where the trace and the Chrome trace go. Only files that an earlier demo can have left are replaced.
fn places(folder: &Path) -> Result<(Target, PathBuf), Failure> {
    fs::create_dir_all(folder).map_err(|e| {
        Failure::usage(format_args!("cannot create the directory {}: {}", folder.display(), why(&e)))
    })?;
    let chrome = folder.join(CHROME);
    if chrome.exists() && !export::is_chrome_trace(&chrome) {
        let chrome = chrome.display();
        return Err(Failure::usage(format_args!(
            "{chrome} exists and is not an export of gpuspy: choose another directory with -o, or remove it"
        )));
    }
    Ok((Target::from_option(&folder.join(TRACE))?, chrome))
}

/// The GPU that the workload will find, and a private directory.
struct Stage {
    /// The first sentence of the output.
    sentence: String,
    place: PrivateDir,
    /// `LD_LIBRARY_PATH` with the simulator first, if that is used.
    library_path: Option<OsString>,
}

impl Stage {
    /// Looks for a GPU. If there is none that can be used, sets up the simulator.
    fn set() -> Result<Stage, Failure> {
        let found = doctor::first_gpu(driver::VERSION, CAPABILITY)?;
        let place = PrivateDir::new()?;
        let (sentence, library_path) = match found {
            Ok(name) if name == simulator::NAME => (format!("On a simulated GPU: {SIMULATED}."), None),
            Ok(name) => (format!("On {name}, the first GPU of this machine."), None),
            Err(why) => {
                let sentence =
                    format!("On a simulated GPU, because no real one can be used ({why}): {SIMULATED}.");
                (sentence, Some(simulator::library_path(&place, &why)?))
            }
        };
        Ok(Stage { sentence, place, library_path })
    }
}

/// Runs the workload under the agent. Returns its trace, and when its phases ran.
fn perform(stage: &Stage, target: Target) -> Result<(PathBuf, Vec<Window>), Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::usage(format_args!("cannot find the path of gpuspy itself: {}", why(&e))))?;
    let windows = stage.place.path().join("phases");
    let mut command = Command::new(program);
    command
        // The report shows the command as people would type it.
        .arg0("gpuspy")
        .arg(WORKLOAD)
        .stdin(Stdio::null())
        .env(phases::FILE, &windows)
        // Every operation is timed, whatever the environment sets for other programs.
        .env("GPUSPY_TIMING", "exact")
        .env("GPUSPY_GRAPH", "launches")
        .env("GPUSPY_STACKS", "auto")
        .env("GPUSPY_NATIVE", "0")
        .env_remove("GPUSPY_CAPTURE_RANGE")
        .env("GPUSPY_QUIET", "1")
        .env_remove("GPUSPY")
        .envs(stage.library_path.iter().map(|path| ("LD_LIBRARY_PATH", path)));
    let Observed { status, collector, sessions } = observe(target, command, &[], HangWatch::default(), None)?;
    let traces = collector.traces();
    for session in &sessions {
        match session {
            Err(error) => say(error),
            Ok(session @ Session { trace, .. }) => say_what_is_missing(session, traces.path(*trace)),
        }
    }
    let status =
        status.map_err(|e| Failure::usage(format_args!("cannot start the demo's workload: {}", why(&e))))?;
    ended_well(status)?;
    let nothing = || Failure::usage("nothing was collected from the demo; run gpuspy doctor to find out why");
    let trace = traces.whole().ok_or_else(nothing)?;
    Ok((trace.to_owned(), phases::read(&windows)))
}

/// Checks the exit status of the workload, which has printed its own error on stderr.
fn ended_well(status: ExitStatus) -> Result<(), Failure> {
    match status.signal() {
        Some(signal) => {
            let code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
            Err(Failure { code, sentence: format!("the demo's workload was ended by signal {signal}") })
        }
        None if status.success() => Ok(()),
        None => {
            Err(Failure::usage("the demo failed; run gpuspy doctor to find out what is wrong with the GPU"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::fs::File;
    use std::io::Write;

    #[test]
    fn files_of_others_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let chrome = folder.path().join(CHROME);
        assert!(places(folder.path()).is_ok());
        let mut packed = GzEncoder::new(File::create(&chrome).unwrap(), Compression::fast());
        packed.write_all(export::CHROME_START).unwrap();
        packed.finish().unwrap();
        assert!(places(folder.path()).is_ok());
        fs::write(&chrome, "thesis").unwrap();
        assert!(places(folder.path()).unwrap_err().sentence.contains("not an export"));
        fs::remove_file(&chrome).unwrap();
        fs::write(folder.path().join(TRACE), "thesis").unwrap();
        assert!(places(folder.path()).unwrap_err().sentence.contains("is not a trace"));
    }

    #[test]
    fn the_exit_code_of_a_signal_is_that_of_a_shell() {
        assert_eq!(ended_well(ExitStatus::from_raw(2)).unwrap_err().code, 130);
        assert_eq!(ended_well(ExitStatus::from_raw(2 << 8)).unwrap_err().code, 2);
        assert!(ended_well(ExitStatus::from_raw(0)).is_ok());
    }
}
