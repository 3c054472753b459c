//! Events that two processes share.

mod common;

use common::{Gate, begin, event, kernel, launch, number, of_kind, stream, synchronize, with_truth};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::time::Duration;

const INVALID_CONTEXT: i32 = 201;
const INVALID_HANDLE: i32 = 400;
const NOT_READY: i32 = 600;
const INTERPROCESS: u32 = 4 | 2;

#[repr(C)]
#[derive(Clone, Copy)]
struct Exported([u8; 64]);

fn export(event: u64) -> (i32, Exported) {
    let mut exported = Exported([0; 64]);
    (cu!(cuIpcGetEventHandle(&mut exported => &mut Exported, event => u64)), exported)
}

fn open(exported: Exported) -> (i32, u64) {
    let mut event = 0;
    (cu!(cuIpcOpenEventHandle(&mut event => &mut u64, exported => Exported)), event)
}

fn query(event: u64) -> i32 {
    cu!(cuEventQuery(event => u64))
}

/// The pipes from and to the other process.
struct Peer(PipeReader, PipeWriter);

impl Peer {
    fn say(&mut self, what: &[u8]) {
        self.1.write_all(what).unwrap();
    }

    fn hear<const N: usize>(&mut self) -> [u8; N] {
        let mut heard = [0; N];
        self.0.read_exact(&mut heard).unwrap();
        heard
    }
}

/// Owns the event: records it after a kernel, and again after a kernel behind a closed gate.
fn owner(mut guest: Peer) {
    begin();
    let (stream, shared) = (stream(1), event(INTERPROCESS));
    // Loading waits for what is queued.
    let (owned, gated) = (kernel("owned_1000ms"), kernel("gated_1ms"));
    assert_eq!(export(event(2)).0, INVALID_HANDLE, "cuda.h: only interprocess events can be exported");
    let (result, exported) = export(shared);
    assert_eq!(result, 0);
    assert_eq!(open(exported).0, INVALID_CONTEXT, "a process cannot open its own event");
    launch(owned, stream, 0);
    ok!(cuEventRecord(shared => u64, stream => u64));
    guest.say(&exported.0);
    guest.hear::<1>();
    let gate = Gate::close(&[stream]);
    launch(gated, stream, 0);
    ok!(cuEventRecord(shared => u64, stream => u64));
    guest.say(b"x");
    guest.hear::<1>();
    std::thread::sleep(Duration::from_millis(20));
    gate.open();
    guest.hear::<1>();
    ok!(simcudaTruthFlush());
}

/// Opens the event of the other process and waits for both of its records, on a stream and on the host.
fn guest(mut owner: Peer) {
    begin();
    let stream = stream(1);
    let [first, second, third] = ["first_1us", "second_1us", "third_500ms"].map(kernel);
    assert_eq!(open(Exported([7; 64])).0, INVALID_HANDLE, "no process exported this handle");
    let (result, shared) = open(Exported(owner.hear()));
    assert_eq!(result, 0);
    let wait_and_launch = |kernel| {
        assert_eq!(query(shared), NOT_READY);
        ok!(cuStreamWaitEvent(stream => u64, shared => u64, 0 => u32));
        launch(kernel, stream, 0);
    };
    wait_and_launch(first);
    synchronize(stream);
    owner.say(b"x");
    owner.hear::<1>();
    wait_and_launch(second);
    owner.say(b"x");
    ok!(cuEventSynchronize(shared => u64));
    assert_eq!(query(shared), 0);
    synchronize(stream);
    // After a record in this process, the event completes with the work of this stream.
    launch(third, stream, 0);
    ok!(cuEventRecord(shared => u64, stream => u64));
    assert_eq!(query(shared), NOT_READY);
    synchronize(stream);
    assert_eq!(query(shared), 0);
    owner.say(b"x");
}

#[test]
fn a_stream_waits_for_another_processs_event() {
    let both = || {
        let ((hear, say), (hear_back, say_back)) = (pipe().unwrap(), pipe().unwrap());
        // SAFETY: the child touches nothing that another thread of this process could have left locked.
        match unsafe { libc::fork() } {
            0 => {
                drop((hear_back, say));
                let done = std::panic::catch_unwind(|| owner(Peer(hear, say_back)));
                // SAFETY: ends the child, and runs nothing that the test harness has registered for its own exit.
                unsafe { libc::_exit(done.is_err().into()) }
            }
            child => {
                drop((hear, say_back));
                guest(Peer(hear_back, say));
                let mut status = -1;
                // SAFETY: `status` is valid for the call.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                assert_eq!(status, 0, "the process that owns the event failed");
            }
        }
    };
    with_truth("a_stream_waits_for_another_processs_event", &[], both, |truth| {
        let kernels = of_kind(&truth, "kernel");
        let time = |name: &str, field: &str| {
            number(
                kernels.iter().find(|line| line["name"] == name).unwrap_or_else(|| panic!("no {name} ran")),
                field,
            )
        };
        let is_after = |later: &str, earlier: &str| time(later, "start") >= time(earlier, "end");
        assert!(is_after("first_1us", "owned_1000ms"), "the end of the record was known at the wait");
        assert!(is_after("second_1us", "gated_1ms"), "the end of the record was not known at the wait");
    });
}
