//! Streams that only events order.

use super::*;

const MS: u64 = 1_000_000;
const RECORD: u16 = 20;
const STREAM_WAIT: u16 = 21;
const EVENT_SYNC: u16 = 22;
/// A stream beside the program's own, 7.
const SIDE: u64 = 8;
const EVENT: u64 = 0xe0;

fn event_op(app: &mut App, api: u16, stream: u64) -> EventOp {
    EventOp { call: app.call(api, 1_000), stream, event: EVENT, event_flags: 0 }
}

/// Launches a kernel without a time on the other stream, and records an event behind it.
fn launch_beside(app: &mut App, untimed: Untimed) {
    let work = Work { stream: SIDE, ..app.work(LAUNCH, kernel(ADD), untimed) };
    app.push(Body::Work(work));
    let op = event_op(app, RECORD, SIDE);
    app.push(Body::EventRecord(op));
}

/// Returns the GPU's row of a program of 50 steps: a kernel, a wait for it, and 2 ms outside CUDA. Before the
/// eleventh it does what `act` does.
fn device(act: &dyn Fn(&mut App)) -> Value {
    let mut app = App::new();
    for step in 0..50 {
        if step == 10 {
            act(&mut app);
        }
        app.timed(LAUNCH, kernel(GEMM), 0, 100_000);
        app.sync(150_000);
        app.idle(2 * MS);
    }
    let mut names = names();
    for (api, name) in
        [(RECORD, "cuEventRecord"), (STREAM_WAIT, "cuStreamWaitEvent"), (EVENT_SYNC, "cuEventSynchronize")]
    {
        names.0.insert((Namespace::Api, api.into()), name.to_owned());
    }
    let status = Status { ended: app.now + MS, ..status() };
    let report = json(&reports_of(vec![(app, names, status)], &Filter::default()));
    assert_valid(&report);
    report["devices"][0].clone()
}

/// From the kernel on the other stream to the end of the program, 86 of 107 ms, nothing was known of the GPU.
#[test]
fn work_is_over_when_a_wait_for_an_event_behind_it_is() {
    let number = |value: &Value| value.as_u64().unwrap();
    let idle = |device: &Value| number(&device["idle_ns"]["value"]);
    let alone = device(&|_| ());
    for untimed in [Untimed::Budget, Untimed::Contended] {
        let stream_waits = device(&|app| {
            launch_beside(app, untimed);
            let op = event_op(app, STREAM_WAIT, 7);
            app.push(Body::EventWait(op));
        });
        let host_waits = device(&|app| {
            launch_beside(app, untimed);
            let (call, scope) = (app.call(EVENT_SYNC, 20_000), SyncScope::Event);
            app.push(Body::Synchronize(Synchronize { call, scope, stream: 0, event: EVENT }));
        });
        for device in [stream_waits, host_waits] {
            let unobserved = number(&device["span_ns"]) - number(&device["observed_ns"]);
            assert!(unobserved + number(&device["undecided_ns"]["value"]) < MS / 5, "{untimed:?}: {device}");
            assert!(idle(&device).abs_diff(idle(&alone)) < MS / 5, "{untimed:?}: {device}");
        }
    }
}
