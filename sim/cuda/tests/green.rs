//! Green contexts, and events of whole contexts: their resources, their ordering, and the refused calls.

mod common;

use common::{
    alone, begin, event, kernel, launch, number, of_kind, stream, synchronize, try_launch, with_truth,
};

const INVALID_VALUE: i32 = 1;
const INVALID_CONTEXT: i32 = 201;
const INVALID_HANDLE: i32 = 400;
const NOT_SUPPORTED: i32 = 801;
const CAPTURE_UNSUPPORTED: i32 = 900;
const INVALID_RESOURCE_TYPE: i32 = 914;
const INVALID_RESOURCE_CONFIGURATION: i32 = 915;
const STREAM_DETACHED: i32 = 917;

/// `CUdevResource`: 144 bytes, of which the application reads the kind and, at byte 96, the count.
type Resource = [u32; 36];

const SM: u32 = 1;

fn device_resource() -> Resource {
    let mut all: Resource = [0; 36];
    ok!(cuDeviceGetDevResource(0 => i32, &mut all => &mut Resource, SM => u32));
    all
}

/// Two halves of the device, and the rest.
fn halves() -> ([Resource; 2], Resource) {
    let (all, mut two, mut rest, mut count) = (device_resource(), [[0u32; 36]; 2], [0u32; 36], 2u32);
    ok!(cuDevSmResourceSplitByCount(
        two.as_mut_ptr() => *mut Resource, &mut count => &mut u32, &all => &Resource, &mut rest => &mut Resource,
        0 => u32, 64 => u32
    ));
    assert_eq!(count, 2);
    (two, rest)
}

fn descriptor(parts: &[Resource]) -> (i32, u64) {
    let mut known = 0;
    let result = cu!(cuDevResourceGenerateDesc(
        &mut known => &mut u64, parts.as_ptr() => *const Resource, parts.len() as u32 => u32
    ));
    (result, known)
}

fn green(part: Resource) -> u64 {
    let (result, descriptor) = descriptor(&[part]);
    assert_eq!(result, 0);
    let mut green = 0;
    ok!(cuGreenCtxCreate(&mut green => &mut u64, descriptor => u64, 0 => i32, 1 => u32));
    green
}

fn converted(green: u64) -> u64 {
    let mut context = 0;
    ok!(cuCtxFromGreenCtx(&mut context => &mut u64, green => u64));
    context
}

fn green_stream(green: u64) -> u64 {
    let mut stream = 0;
    ok!(cuGreenCtxStreamCreate(&mut stream => &mut u64, green => u64, 1 => u32, 0 => i32));
    stream
}

/// Returns a stream's contexts: the regular and the green one.
fn contexts_of(stream: u64) -> (u64, u64) {
    let (mut context, mut green) = (0, 0);
    ok!(cuStreamGetCtx_v2(stream => u64, &mut context => &mut u64, &mut green => &mut u64));
    (context, green)
}

#[test]
fn multiprocessors_are_divided_by_the_headers_rules() {
    alone("multiprocessors_are_divided_by_the_headers_rules", &[], || {
        begin();
        let ([first, second], rest) = halves();
        assert_eq!((device_resource()[24], first[24], second[24], rest[24]), (132, 64, 64, 4));
        let mut groups = 77u32;
        ok!(cuDevSmResourceSplitByCount(
            std::ptr::null_mut() => *mut Resource, &mut groups => &mut u32, &device_resource() => &Resource,
            std::ptr::null_mut() => *mut Resource, 0 => u32, 8 => u32
        ));
        assert_eq!(groups, 16, "a question makes nothing");
        let again = cu!(cuDevSmResourceSplitByCount(
            std::ptr::null_mut() => *mut Resource, &mut groups => &mut u32, &first => &Resource,
            std::ptr::null_mut() => *mut Resource, 0 => u32, 8 => u32
        ));
        assert_eq!(again, INVALID_RESOURCE_CONFIGURATION, "a part is not split again");
        assert_eq!(descriptor(&[]).0, INVALID_VALUE);
        assert_eq!(descriptor(&[[0; 36]]).0, INVALID_RESOURCE_TYPE);
        assert_eq!(descriptor(&[first, device_resource()]).0, INVALID_RESOURCE_CONFIGURATION);
        assert_eq!(descriptor(&[first, rest]).0, 0);
        // A green context's resource may be split.
        let of_green = green(first);
        let mut part: Resource = [0; 36];
        ok!(cuGreenCtxGetDevResource(of_green => u64, &mut part => &mut Resource, SM => u32));
        assert_eq!(part[24], 64);
        let wrong = cu!(cuGreenCtxGetDevResource(of_green => u64, &mut part => &mut Resource, 1000 => u32));
        assert_eq!(wrong, INVALID_RESOURCE_TYPE);
        ok!(cuDevSmResourceSplitByCount(
            std::ptr::null_mut() => *mut Resource, &mut groups => &mut u32, &part => &Resource,
            std::ptr::null_mut() => *mut Resource, 0 => u32, 8 => u32
        ));
        assert_eq!(groups, 8);
    });
}

#[test]
fn a_stream_of_a_green_context_reports_both_its_contexts() {
    let body = |is_13: bool| {
        let primary = begin();
        let ([first, _], _) = halves();
        let of_first = green(first);
        let own = green_stream(of_first);
        assert_eq!((contexts_of(own), contexts_of(stream(1))), ((primary, of_first), (primary, 0)));
        let mut context = 0;
        let requested = cu!(cuStreamGetCtx(own => u64, &mut context => &mut u64));
        let expected = if is_13 { (0, converted(of_first)) } else { (NOT_SUPPORTED, 0) };
        assert_eq!((requested, context), expected);
        assert_ne!(converted(of_first), primary);
        let blocking =
            cu!(cuGreenCtxStreamCreate(&mut context => &mut u64, of_first => u64, 0 => u32, 0 => i32));
        assert_eq!(blocking, INVALID_VALUE);
        // Only the context that it is converted to can be made current.
        assert_eq!(cu!(cuCtxSetCurrent(of_first => u64)), INVALID_CONTEXT);
        ok!(cuCtxSetCurrent(converted(of_first) => u64));
        assert_eq!((contexts_of(0), contexts_of(1)), ((primary, of_first), (primary, of_first)));
        let (mut other, mut of) = (0, 0);
        let per_thread = cu!(cuStreamGetCtx_v2(2 => u64, &mut other => &mut u64, &mut of => &mut u64));
        assert_eq!(per_thread, INVALID_HANDLE);
        assert_eq!(contexts_of(stream(0)), (primary, of_first), "made while it is current");
        assert_eq!(cu!(cuCtxDestroy_v2(converted(of_first) => u64)), INVALID_CONTEXT);
    };
    let name = "a_stream_of_a_green_context_reports_both_its_contexts";
    let is_13 = std::env::var("SIMCUDA_DRIVER_VERSION").is_ok_and(|version| version == "13000");
    for version in ["12090", "13000"] {
        alone(name, &[("SIMCUDA_DRIVER_VERSION", version)], || body(is_13));
    }
}

#[test]
fn two_green_contexts_run_at_once_and_events_of_the_primary_one_time_them() {
    let name = "two_green_contexts_run_at_once_and_events_of_the_primary_one_time_them";
    let body = || {
        begin();
        let ([first, second], _) = halves();
        let streams = [green_stream(green(first)), green_stream(green(second))];
        let spin = kernel("spin_2ms");
        let (start, end) = (event(0), event(0));
        launch(spin, streams[0], 0);
        synchronize(streams[0]);
        ok!(cuEventRecord(start => u64, streams[0] => u64));
        streams.iter().for_each(|stream| launch(spin, *stream, 0));
        ok!(cuEventRecord(end => u64, streams[0] => u64));
        ok!(cuCtxSynchronize());
        let mut ms = 0f32;
        ok!(cuEventElapsedTime(&mut ms => &mut f32, start => u64, end => u64));
        assert!((2.0..3.0).contains(&ms), "{ms}");
    };
    with_truth(name, &[], body, |truth| {
        let kernels = of_kind(&truth, "kernel");
        let [_, one, two] = kernels[..] else { panic!("{kernels:?}") };
        let context = number(of_kind(&truth, "context")[0], "context");
        assert_eq!((number(one, "context"), number(two, "context")), (context, context));
        assert!(number(two, "start") < number(one, "end"), "beside each other");
        let streams = of_kind(&truth, "stream");
        let greens = streams.iter().filter(|s| number(s, "green") != 0 && s["default"] == false);
        assert_eq!((greens.count(), of_kind(&truth, "failed").len()), (2, 0));
    });
}

#[test]
fn an_event_is_of_the_primary_context_or_if_assumed_of_the_one_it_was_made_in() {
    let name = "an_event_is_of_the_primary_context_or_if_assumed_of_the_one_it_was_made_in";
    alone(name, &[("SIMCUDA_ASSUME", "green_events=own")], || {
        begin();
        let ([first, _], _) = halves();
        let of_first = green(first);
        let (own, of_primary) = (green_stream(of_first), event(0));
        assert_eq!(cu!(cuEventRecord(of_primary => u64, own => u64)), INVALID_HANDLE);
        ok!(cuCtxPushCurrent_v2(converted(of_first) => u64));
        let of_green = event(0);
        ok!(cuEventRecord(of_green => u64, own => u64));
        assert_eq!(cu!(cuGreenCtxRecordEvent(of_first => u64, of_primary => u64)), 0, "by its own rule");
    });
}

#[test]
fn waiting_for_a_context_includes_its_green_contexts() {
    let name = "waiting_for_a_context_includes_its_green_contexts";
    let body = || {
        let primary = begin();
        let ([first, second], _) = halves();
        let (one, two) = (green(first), green(second));
        let (on_one, on_two, plain) = (green_stream(one), green_stream(two), stream(1));
        let (long, after, free) = (kernel("long_20ms"), kernel("after_1us"), kernel("free_1us"));
        // The first launch of each module costs time.
        [long, after, free].iter().for_each(|kernel| launch(*kernel, plain, 0));
        ok!(cuCtxSynchronize());
        let mark = event(2);
        launch(long, on_one, 0);
        ok!(cuGreenCtxRecordEvent(one => u64, mark => u64));
        assert_eq!(cu!(cuEventQuery(mark => u64)), 600);
        ok!(cuGreenCtxWaitEvent(two => u64, mark => u64));
        launch(after, on_two, 0);
        launch(free, plain, 0);
        ok!(cuCtxWaitEvent(primary => u64, mark => u64));
        launch(after, plain, 0);
        launch(after, stream(1), 0);
        ok!(cuCtxSynchronize());
        assert_eq!(cu!(cuEventQuery(mark => u64)), 0);
    };
    with_truth(name, &[], body, |truth| {
        let named = |name: &str| {
            let kernels = of_kind(&truth, "kernel").into_iter().filter(|k| k["name"] == name);
            kernels.skip(1).collect::<Vec<_>>()
        };
        let end = number(named("long_20ms")[0], "end");
        let after = named("after_1us");
        assert_eq!(after.len(), 3);
        assert!(after.iter().all(|kernel| number(kernel, "start") >= end), "{after:?} {end}");
        assert!(number(named("free_1us")[0], "end") < end, "before the wait");
        assert_eq!(of_kind(&truth, "context_wait").len(), 2);
    });
}

#[test]
fn waits_for_whole_contexts_and_captures_exclude_each_other() {
    alone("waits_for_whole_contexts_and_captures_exclude_each_other", &[], || {
        let primary = begin();
        let ([first, _], _) = halves();
        let of_first = green(first);
        let (own, mark) = (green_stream(of_first), event(2));
        let capture = || ok!(cuStreamBeginCapture_v2(own => u64, 2 => u32));
        let end = || {
            let mut graph = 0;
            cu!(cuStreamEndCapture(own => u64, &mut graph => &mut u64))
        };
        for context in [primary, converted(of_first)] {
            capture();
            assert_eq!(cu!(cuCtxRecordEvent(context => u64, mark => u64)), CAPTURE_UNSUPPORTED);
            assert_eq!(end(), 901, "invalidated");
        }
        capture();
        ok!(cuEventRecord(mark => u64, own => u64));
        assert_eq!(cu!(cuCtxWaitEvent(primary => u64, mark => u64)), CAPTURE_UNSUPPORTED);
        assert_eq!(end(), 901);
        assert_eq!(cu!(cuCtxRecordEvent(of_first => u64, mark => u64)), INVALID_CONTEXT, "not converted");
    });
}

#[test]
fn streams_outlive_their_green_context_and_can_only_be_destroyed() {
    let name = "streams_outlive_their_green_context_and_can_only_be_destroyed";
    let version = std::env::var("SIMCUDA_DRIVER_VERSION").unwrap_or_default();
    let refusal = if version == "13000" { STREAM_DETACHED } else { INVALID_HANDLE };
    let body = || {
        begin();
        let ([first, _], _) = halves();
        let of_first = green(first);
        let (own, mark, spin) = (green_stream(of_first), event(0), kernel("spin_5ms"));
        launch(spin, own, 0);
        ok!(cuEventRecord(mark => u64, own => u64));
        ok!(cuGreenCtxDestroy(of_first => u64));
        assert_eq!(try_launch(spin, own, 0), refusal);
        assert_eq!(cu!(cuStreamSynchronize(own => u64)), refusal);
        ok!(cuEventSynchronize(mark => u64));
        ok!(cuStreamDestroy_v2(own => u64));
        assert_eq!(cu!(cuGreenCtxDestroy(of_first => u64)), INVALID_CONTEXT);
        // It had retained the primary context.
        let (mut flags, mut active) = (0u32, 0i32);
        ok!(cuDevicePrimaryCtxRelease_v2(0 => i32));
        ok!(cuDevicePrimaryCtxGetState(0 => i32, &mut flags => &mut u32, &mut active => &mut i32));
        assert_eq!(active, 0);
    };
    for version in ["12090", "13000"] {
        alone(name, &[("SIMCUDA_DRIVER_VERSION", version)], body);
    }
}
