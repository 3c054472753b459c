//! Which texts does `--capture-range` accept?

use gpuspy_wire::capture_range::CaptureRange::{self, *};
use gpuspy_wire::capture_range::Domain;

const SECOND: u64 = 1_000_000_000;

#[test]
fn every_form_is_accepted() {
    let nvtx = |name, domain| Nvtx { name, domain };
    for (text, expected) in [
        ("profiler-api", ProfilerApi),
        ("nvtx:step", nvtx("step", Domain::Default)),
        ("nvtx:step 7, warm", nvtx("step 7, warm", Domain::Default)),
        ("nvtx:step@loader", nvtx("step", Domain::Named("loader"))),
        ("nvtx:step@*", nvtx("step", Domain::Any)),
        ("nvtx:a@b@", nvtx("a@b", Domain::Default)),
        ("delay=0", Delay { delay: 0, duration: None }),
        ("delay=1.5", Delay { delay: 3 * SECOND / 2, duration: None }),
        ("delay=200ms", Delay { delay: SECOND / 5, duration: None }),
        ("delay=2 min,duration=1.5us", Delay { delay: 120 * SECOND, duration: Some(1500) }),
        ("delay=1h,duration=3m", Delay { delay: 3600 * SECOND, duration: Some(180 * SECOND) }),
        ("delay=60,duration=.25", Delay { delay: 60 * SECOND, duration: Some(SECOND / 4) }),
    ] {
        assert_eq!(CaptureRange::parse(text), Some(expected), "{text}");
    }
}

#[test]
fn other_texts_are_rejected() {
    for text in [
        "",
        "profiler",
        "Profiler-Api",
        "nvtx",
        "nvtx:",
        "nvtx:@loader",
        "delay",
        "delay=",
        "delay=-1",
        "delay=1d",
        "delay=s",
        "delay=1e3ms",
        "delay=1 m s",
        "delay=2000000000s",
        "delay=1e3",
        "delay=inf",
        "delay=nan",
        "delay=2000000000",
        "delay=1,",
        "delay=1,duration=",
        "delay=1,duration=0",
        "duration=1",
        "delay=1,duration=2,",
        "duration=1,delay=2",
        "delay=1 ",
    ] {
        assert_eq!(CaptureRange::parse(text), None, "{text}");
    }
}
