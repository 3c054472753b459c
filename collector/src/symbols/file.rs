//! What does one file say about addresses in it, if it is still the file that ran?

use super::debug_info::{self, At};
use super::elf::Elf;
use super::separate;
use super::symbol_table::{ALL, DYNAMIC, functions};
use crate::model::callers::WhyUnread;
use crate::model::stacks::Frame;
use gpuspy_wire::build_id::BuildId;
use std::path::Path;
use std::time::SystemTime;

/// What a file says.
#[derive(Debug)]
pub(super) enum Answer {
    /// The frames of each address, the innermost first; none of an address that nothing is known of.
    Frames(Vec<Vec<Frame>>),
    /// Nothing of it is believed.
    Unread(WhyUnread),
}

/// Looks up addresses, which are sorted. `build_id` is that of the file that ran, and `began` when it ran.
pub(super) fn look_up(
    path: &Path,
    build_id: BuildId,
    began: Option<SystemTime>,
    addresses: &[u64],
) -> Answer {
    let Some(elf) = Some(path).filter(|path| path.is_absolute()).and_then(Elf::open) else {
        // A relative path is one of a trace whose program alone knew what it means.
        let is_missing = path.is_absolute() && matches!(path.try_exists(), Ok(false));
        return Answer::Unread(if is_missing { WhyUnread::Missing } else { WhyUnread::Unreadable });
    };
    const NONE: BuildId = [0; 20];
    match (build_id, elf.build_id()) {
        (NONE, NONE) => match began.zip(elf.changed()) {
            Some((began, changed)) if changed <= began => {}
            Some(_) => return Answer::Unread(WhyUnread::Changed),
            None => return Answer::Unread(WhyUnread::Untold),
        },
        // The trace is older than build ids in traces, or the file was made anew in another way.
        (NONE, _) => return Answer::Unread(WhyUnread::Untold),
        (ran, now) if ran == now => {}
        _ => return Answer::Unread(WhyUnread::Changed),
    }
    Answer::Frames(frames(&elf, path, addresses))
}

fn frames(elf: &Elf, path: &Path, addresses: &[u64]) -> Vec<Vec<Frame>> {
    let debug = if elf.section(".debug_info").is_some() { None } else { separate::debug_file(elf, path) };
    let all = functions(elf, ALL, addresses);
    let separate = debug.as_ref().map(|debug| functions(debug, ALL, addresses));
    let dynamic = functions(elf, DYNAMIC, addresses);
    let separate = separate.unwrap_or_else(|| vec![None; addresses.len()]);
    let symbols = all.into_iter().zip(separate).zip(dynamic);
    let symbols = symbols.map(|((all, separate), dynamic)| all.or(separate).or(dynamic));
    let lines = debug_info::look_up(debug.as_ref().unwrap_or(elf), addresses);
    let path = path.to_string_lossy();
    lines.into_iter().zip(symbols).map(|(at, symbol)| of_address(at, symbol, &path)).collect()
}

/// Puts together what debug information and the table of symbols say.
fn of_address(at: Vec<At>, symbol: Option<String>, library: &str) -> Vec<Frame> {
    let at = if at.is_empty() && symbol.is_some() { vec![At::default()] } else { at };
    let last = at.len().saturating_sub(1);
    let frame = |(number, at): (usize, At)| {
        // The table of symbols knows the function that others were inlined into.
        let symbol = symbol.as_deref().filter(|_| number == last);
        let function = at.function.as_deref().or(symbol).unwrap_or("?");
        let place = at.place.map(|place| (place.file, place.line));
        let is_without_line = place.is_none();
        let mut frame = Frame::native(function, place, library);
        if is_without_line && number != last {
            // It may be in a header, so that it is not the one to show.
            frame.file.clear();
        }
        frame
    };
    at.into_iter().enumerate().map(frame).collect()
}
