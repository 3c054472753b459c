//! What is a process called, unlike any other of its job, and how is a name written where folders are?

use super::job::Job;
use crate::trace::record::{Names, Status};
use crate::units::utc;
use gpuspy_wire::record::{Fact, Namespace};

/// The longest name of a job or a host, bytes.
pub const LONGEST: usize = 120;

/// ns.
const SECOND: u64 = 1_000_000_000;

/// Returns a name as a folder has it: ASCII letters, digits and what no reader takes for something else.
pub fn safe(name: &str) -> String {
    shortened(name, LONGEST)
}

/// The same in so many bytes. A name that is cut ends with a hash of all of it, so that it differs from others that
/// begin alike.
pub fn shortened(name: &str, longest: usize) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    let safe: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if safe.is_empty() {
        return "unknown".to_owned();
    }
    if safe.len() <= longest {
        return safe;
    }
    let hash = format!("-{:08x}", hash(name));
    format!("{}{hash}", &safe[..longest - hash.len()])
}

/// A hash that is the same in all versions and on all machines: FNV-1a (draft-eastlake-fnv).
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The machine's name, as a folder has it.
pub fn host(names: &Names) -> String {
    safe(names.get(Namespace::Fact, Fact::Host as u32).unwrap_or("unknown"))
}

/// Returns what a process is called in its job, unlike any other in it: its machine, its rank, its process id, and when its collection
/// began, `node7/3/4711/20261125-091000.123456789`. A process id alone may come again: after exec, or in another container. `file` is the
/// name of its files, which stands for what a trace without a status does not tell.
pub fn key(names: &Names, status: Option<&Status>, file: &str) -> String {
    let host = host(names);
    let rank = Job::of(names).rank.map_or("-".to_owned(), |rank| rank.to_string());
    let Some(status) = status else {
        return format!("{host}/{rank}/{}", file.trim_end_matches(".parquet"));
    };
    let (seconds, ns) = (status.began_realtime / SECOND, status.began_realtime % SECOND);
    format!("{host}/{rank}/{}/{}.{ns:09}", status.pid, utc(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders_are_harmless() {
        assert_eq!(safe("../x y/ü=\u{1b}[2J"), ".._x_y_____2J");
        assert_eq!((safe(""), safe(&"a".repeat(500)).len()), ("unknown".to_owned(), LONGEST));
        assert_eq!(safe(&"ü".repeat(LONGEST)), "_".repeat(LONGEST), "one byte for each character");
    }

    /// It is part of names that other versions look for.
    #[test]
    fn the_hash_is_that_of_the_published_examples() {
        assert_eq!([hash(""), hash("a"), hash("foobar")], [0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968]);
    }

    /// A program after exec, and ranks in containers, had the process id of another one, and rows of both were mixed.
    #[test]
    fn processes_with_one_pid_have_a_key_each() {
        let text = |fact: Fact, text: &str| ((Namespace::Fact, fact as u32), text.to_owned());
        let names = Names([text(Fact::Host, "node 7"), text(Fact::Environment, "RANK=3")].into());
        let at = |began_realtime| Status { pid: 4711, began_realtime, ..Status::default() };
        let began = 1_795_924_516_000_000_000;
        let file = "pid4711-00000.parquet";
        let key = |status: &Status| super::key(&names, Some(status), file);
        assert_eq!(key(&at(began + 57)), "node_7/3/4711/20261129-035516.000000057");
        assert_ne!(key(&at(began + 57)), key(&at(began + 58)));
        assert_eq!(super::key(&names, None, file), "node_7/3/pid4711-00000");
        let nothing = Names::default();
        assert_eq!(super::key(&nothing, Some(&at(began)), file), "unknown/-/4711/20261129-035516.000000000");
    }
}
