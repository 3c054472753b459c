//! What hung, in a sentence: for the terminal while the process runs, and for the report.

use super::names::{library, shorten};
use super::units::{bytes, count, duration};
use crate::model::hangs::{Blocked, Hang, Named};

/// The most columns of a kernel's name.
const KERNEL: usize = 60;

/// Returns the sentence, without its full stop.
pub fn sentence(hang: &Hang) -> String {
    if hang.is_over {
        return over(hang);
    }
    let mut parts = if hang.is_pending { pending(hang) } else { unknown(hang) };
    parts.extend(hang.behind.as_ref().map(|api| format!("{api} made the stream wait before that")));
    if let Some(last) = &hang.last {
        let (what, ago) = (in_words(&last.operation), duration(last.ago));
        parts.push(format!("the last operation that completed on the stream was {what}, {ago} ago"));
    } else if hang.is_pending {
        parts.push("nothing is known to have completed on the stream before".to_owned());
    }
    if hang.others_complete {
        parts.push("other streams of the GPU go on".to_owned());
    }
    match &hang.call {
        Some(call) if hang.is_pending => parts.push(blocked(call)),
        None => parts.push("no thread is blocked in a CUDA call".to_owned()),
        Some(_) => {}
    }
    parts.join("; ")
}

/// Returns what is known of a stream that hangs.
fn pending(hang: &Hang) -> Vec<String> {
    let operation = hang.operation.as_ref().map_or("an operation".to_owned(), in_words);
    let mut parts = vec![format!("{}{operation} has been pending for {}", place(hang), duration(hang.age))];
    if hang.untimed_before > 0 {
        let before = count(hang.untimed_before);
        let which = if hang.untimed_before == 1 { "may be the one" } else { "may include the one" };
        parts.push(format!("{before} launched before it without a GPU time {which} that hangs"));
    }
    parts
}

/// Returns what is known where only a call is known to block.
fn unknown(hang: &Hang) -> Vec<String> {
    let mut parts: Vec<String> = hang.call.iter().map(blocked).collect();
    parts.push(match &hang.operation {
        Some(operation) => format!(
            "whether the GPU goes on is not known, since the last launches have no GPU time; the last one is {}{}",
            in_words(operation),
            hang.stream.map_or(String::new(), |stream| format!(" on stream {stream}"))
        ),
        None => "no operation is known to be pending on the GPU".to_owned(),
    });
    parts
}

fn over(hang: &Hang) -> String {
    let age = duration(hang.age);
    match (&hang.operation, &hang.call) {
        (Some(operation), _) if hang.is_pending => {
            format!("{}{} completed after {age}", place(hang), in_words(operation))
        }
        (_, Some(call)) => format!("thread {}: {} returned after {age}", call.tid, api(call)),
        _ => format!("it ended after {age}"),
    }
}

/// Returns `GPU 0, stream 7: `, as far as that is known.
fn place(hang: &Hang) -> String {
    let device = hang.device.map(|device| format!("GPU {device}"));
    let stream = hang.stream.map(|stream| format!("stream {stream}"));
    let parts: Vec<String> = device.into_iter().chain(stream).collect();
    if parts.is_empty() { String::new() } else { format!("{}: ", parts.join(", ")) }
}

fn blocked(call: &Blocked) -> String {
    let by =
        call.library.as_deref().map_or(String::new(), |path| format!(", called by {}", library(Some(path))));
    format!("thread {} has been in {} for {}{by}", call.tid, api(call), duration(call.age))
}

fn api(call: &Blocked) -> &str {
    call.api.as_deref().unwrap_or("a CUDA call")
}

fn in_words(operation: &Named) -> String {
    let kernel = || operation.kernel.as_deref().map(|name| shorten(name, KERNEL));
    match (operation.bytes, operation.launches) {
        (Some(size), _) => {
            let direction = operation.direction.map_or(String::new(), |direction| format!("{direction} "));
            format!("a {direction}{} of {}", operation.what, bytes(size))
        }
        (None, Some(launches)) => {
            let last = kernel().map_or(String::new(), |name| format!(" up to {name}"));
            format!("a run of {} launches{last}", count(launches))
        }
        (None, None) => kernel().unwrap_or_else(|| format!("a {}", operation.what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::hangs::Completed;

    fn kernel(name: &str) -> Named {
        let kernel = Some(name.to_owned());
        Named { what: "kernel", kernel, launches: None, bytes: None, direction: None }
    }

    fn hang() -> Hang {
        Hang {
            age: 61_000_000_000,
            is_pending: true,
            device: Some(0),
            stream: Some(7),
            operation: Some(kernel("flash_fwd_kernel")),
            last: Some(Completed { operation: kernel("add"), ago: 62_000_000_000 }),
            call: Some(Blocked {
                tid: 4242,
                api: Some("cudaStreamSynchronize".to_owned()),
                library: Some("/opt/lib/libtorch_cuda.so".to_owned()),
                age: 60_900_000_000,
            }),
            ..Hang::default()
        }
    }

    #[test]
    fn a_hang_is_reported_in_a_sentence() {
        assert_eq!(
            sentence(&hang()),
            "GPU 0, stream 7: flash_fwd_kernel has been pending for 61.0 s; the last operation that completed on the \
             stream was add, 62.0 s ago; thread 4242 has been in cudaStreamSynchronize for 60.9 s, called by \
             libtorch_cuda.so"
        );
        assert_eq!(
            sentence(&Hang { is_over: true, ..hang() }),
            "GPU 0, stream 7: flash_fwd_kernel completed after 61.0 s"
        );
    }

    #[test]
    fn what_is_not_known_is_not_claimed() {
        let untimed = Hang { untimed_before: 3, last: None, call: None, ..hang() };
        assert_eq!(
            sentence(&untimed),
            "GPU 0, stream 7: flash_fwd_kernel has been pending for 61.0 s; 3 launched before it without a GPU time may \
             include the one that hangs; nothing is known to have completed on the stream before; no thread is blocked \
             in a CUDA call"
        );
        let nothing = Hang { is_pending: false, operation: None, last: None, ..hang() };
        assert_eq!(
            sentence(&nothing),
            "thread 4242 has been in cudaStreamSynchronize for 60.9 s, called by libtorch_cuda.so; no operation is known \
             to be pending on the GPU"
        );
        let returned = Hang { is_over: true, ..nothing };
        assert_eq!(sentence(&returned), "thread 4242: cudaStreamSynchronize returned after 61.0 s");
    }
}
