//! `gpuspy demo`: a small program of several faults, traced on this machine's GPU or on a simulated one, then its report, its
//! Chrome trace, and what to look at in them.
//!
//! The program is this very binary with a hidden command, so nothing has to be built or installed. It runs under the agent
//! as any program under `gpuspy run`, and tells us when each of its phases ran.

mod driver;
mod kernels;
mod look;
mod phases;
mod simulator;
mod workload;

pub(super) use workload::{COMMAND as WORKLOAD, run as run_workload};

use super::launch::PrivateDir;
use super::run::{Observed, observe};
use super::{Failure, doctor, export, print, quoted, report, say, say_what_is_missing};
use crate::collect::{Session, Target};
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
    /// The folder for gpuspy-demo.gspy and gpuspy-demo.json.gz [default: the working directory]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Do not print the report, only what to look at
    #[arg(long)]
    no_report: bool,
}

/// What the demo leaves.
const TRACE: &str = "gpuspy-demo.gspy";
const CHROME: &str = "gpuspy-demo.json.gz";
/// What has to be known of a simulated GPU.
const SIMULATED: &str = "figures are of the simulation";
/// What the kernels need: Volta, the first GPU that their PTX is for.
const CAPABILITY: (i32, i32) = (7, 0);

pub(super) fn demo(options: &Options) -> Result<ExitCode, Failure> {
    let (target, chrome) = places(options.output.as_deref().unwrap_or(Path::new("")))?;
    let stage = Stage::set()?;
    print(&format!("{}\n", stage.told))?;
    let (trace, windows) = perform(&stage, target)?;
    drop(stage);
    if !options.no_report {
        print(&format!("\n{}", report::for_stdout(&trace)?))?;
    }
    export::write_chrome(&trace, &chrome)?;
    let pictures = look::pictures(&trace, &windows).map_err(|e| super::traces::unreadable(&trace, &e))?;
    print(&format!("\n{}", look::text(&pictures, report::stdout_width())))?;
    print(&format!(
        "\nThe report again: gpuspy report {}\nThe timeline: open {} in https://ui.perfetto.dev\n",
        quoted(&trace),
        chrome.display()
    ))
}

/// Where trace and Chrome trace go. Only what a demo can have left before is replaced.
fn places(folder: &Path) -> Result<(Target, PathBuf), Failure> {
    fs::create_dir_all(folder).map_err(|e| {
        Failure::usage(format_args!("cannot make the folder {}: {}", folder.display(), why(&e)))
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

/// Which GPU the workload will find, and a folder of its own.
struct Stage {
    /// The sentence that the output begins with.
    told: String,
    place: PrivateDir,
    /// With the simulator in front.
    library_path: Option<OsString>,
}

impl Stage {
    /// Looks for a GPU; where there is none that can be used, sets up the simulator.
    fn set() -> Result<Stage, Failure> {
        let found = doctor::first_gpu(driver::VERSION, CAPABILITY)?;
        let place = PrivateDir::new()?;
        let (told, library_path) = match found {
            Ok(name) if name == simulator::NAME => (format!("On a simulated GPU: {SIMULATED}."), None),
            Ok(name) => (format!("On {name}, the first GPU of this machine."), None),
            Err(why) => {
                let told = format!("On a simulated GPU, since no real one can be used ({why}): {SIMULATED}.");
                (told, Some(simulator::library_path(&place, &why)?))
            }
        };
        Ok(Stage { told, place, library_path })
    }
}

/// Runs the workload under the agent. Returns its trace, and when its phases were.
fn perform(stage: &Stage, target: Target) -> Result<(PathBuf, Vec<Window>), Failure> {
    let program = std::env::current_exe()
        .map_err(|e| Failure::usage(format_args!("cannot find out where gpuspy itself lies: {}", why(&e))))?;
    let told = stage.place.path().join("phases");
    let mut command = Command::new(program);
    command
        // Reports show it as people would type it.
        .arg0("gpuspy")
        .arg(WORKLOAD)
        .stdin(Stdio::null())
        .env(phases::FILE, &told)
        // Each operation's time is wanted, whatever is set for other programs.
        .env("GPUSPY_TIMING", "exact")
        .env("GPUSPY_GRAPH", "launches")
        .env_remove("GPUSPY_CAPTURE_RANGE")
        .env("GPUSPY_QUIET", "1")
        .env_remove("GPUSPY")
        .envs(stage.library_path.iter().map(|path| ("LD_LIBRARY_PATH", path)));
    let Observed { status, collector, sessions } = observe(target, command, false)?;
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
    let nothing =
        || Failure::usage("nothing was collected from the demo: gpuspy doctor says what is in the way");
    let trace = traces.whole().ok_or_else(nothing)?;
    Ok((trace.to_owned(), phases::read(&told)))
}

/// The workload has said on stderr what it could not do.
fn ended_well(status: ExitStatus) -> Result<(), Failure> {
    match status.signal() {
        Some(signal) => {
            let code = u8::try_from(128 + signal).unwrap_or(u8::MAX);
            Err(Failure { code, sentence: format!("the demo's workload was ended by signal {signal}") })
        }
        None if status.success() => Ok(()),
        None => Err(Failure::usage("the demo ends here: gpuspy doctor says what is wrong with the GPU")),
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
    fn what_no_demo_wrote_is_not_replaced() {
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
    fn a_signal_is_told_as_a_shell_does() {
        assert_eq!(ended_well(ExitStatus::from_raw(2)).unwrap_err().code, 130);
        assert_eq!(ended_well(ExitStatus::from_raw(2 << 8)).unwrap_err().code, 2);
        assert!(ended_well(ExitStatus::from_raw(0)).is_ok());
    }
}
