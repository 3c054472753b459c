//! Semaphores of other APIs: which work waits for which value, and the refused calls.

mod common;

use common::{alone, begin, event, kernel, launch, stream, synchronize};

const INVALID_VALUE: i32 = 1;
const INVALID_HANDLE: i32 = 400;
const NOT_READY: i32 = 600;
const NOT_SUPPORTED: i32 = 801;

const BINARY: u32 = 1;
const TIMELINE: u32 = 9;

fn try_import(kind: u32) -> (i32, u64) {
    // SAFETY: a C string.
    let descriptor = unsafe { libc::memfd_create(c"semaphore".as_ptr(), 0) };
    let mut description = [0u64; 12];
    (description[0], description[1]) = (u64::from(kind), descriptor as u64);
    let mut semaphore = 0;
    let result =
        cu!(cuImportExternalSemaphore(&mut semaphore => &mut u64, description.as_ptr() => *const u64));
    (result, semaphore)
}

fn import(kind: u32) -> u64 {
    let (result, semaphore) = try_import(kind);
    assert_eq!(result, 0);
    semaphore
}

/// CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS or _WAIT_PARAMS with a fence's value.
fn fence(value: u64) -> [u64; 18] {
    let mut parameters = [0; 18];
    parameters[0] = value;
    parameters
}

fn signal(semaphore: u64, value: u64, stream: u64) -> i32 {
    cu!(cuSignalExternalSemaphoresAsync(
        &semaphore => &u64, fence(value).as_ptr() => *const u64, 1 => u32, stream => u64
    ))
}

fn wait(semaphore: u64, value: u64, stream: u64) -> i32 {
    cu!(cuWaitExternalSemaphoresAsync(
        &semaphore => &u64, fence(value).as_ptr() => *const u64, 1 => u32, stream => u64
    ))
}

#[test]
fn a_timeline_is_waited_for_by_value_and_a_binary_one_is_taken() {
    alone("a_timeline_is_waited_for_by_value_and_a_binary_one_is_taken", &[], || {
        begin();
        let (ahead, behind, spin) = (stream(1), stream(1), kernel("spin_10us"));
        let query = || cu!(cuStreamQuery(behind => u64));
        let timeline = import(TIMELINE);
        assert_eq!(wait(timeline, 2, behind), 0);
        launch(spin, behind, 0);
        assert_eq!(signal(timeline, 1, ahead), 0);
        synchronize(ahead);
        assert_eq!(query(), NOT_READY, "not far enough");
        assert_eq!(signal(timeline, 2, ahead), 0);
        synchronize(behind);
        assert_eq!(wait(timeline, 1, behind), 0);
        synchronize(behind);

        let binary = import(BINARY);
        assert_eq!((signal(binary, 0, ahead), wait(binary, 0, behind)), (0, 0));
        synchronize(behind);
        assert_eq!(wait(binary, 0, behind), 0);
        launch(spin, behind, 0);
        synchronize(ahead);
        assert_eq!(query(), NOT_READY, "it was taken");
        assert_eq!(signal(binary, 0, ahead), 0);
        synchronize(behind);
    });
}

#[test]
fn invalid_semaphores_are_refused() {
    alone("invalid_semaphores_are_refused", &[], || {
        begin();
        let (own, semaphore) = (stream(1), import(TIMELINE));
        assert_eq!(try_import(2).0, NOT_SUPPORTED, "Windows' handles");
        assert_eq!(wait(event(0), 1, own), INVALID_HANDLE);
        let none = cu!(cuSignalExternalSemaphoresAsync(
            &semaphore => &u64, fence(1).as_ptr() => *const u64, 0 => u32, own => u64
        ));
        assert_eq!(none, INVALID_VALUE);
        let mut flagged = fence(1);
        flagged[9] = 1;
        let flagged = cu!(cuSignalExternalSemaphoresAsync(
            &semaphore => &u64, flagged.as_ptr() => *const u64, 1 => u32, own => u64
        ));
        assert_eq!(flagged, INVALID_VALUE);
        ok!(cuDestroyExternalSemaphore(semaphore => u64));
        assert_eq!(signal(semaphore, 1, own), INVALID_HANDLE);
    });
}
