//! What the GPU itself does: its queue, its kernels, its speed and its errors.

use super::*;

/// The launches of eight ranks were blocked for 480 % of the wall time.
#[test]
fn launches_are_blocked_for_a_share_of_the_time_of_all_processes() {
    let mut rank = process(1);
    rank.apis.insert("cuLaunchKernel".to_owned(), calls(1_000, 60 * S));
    let parts = [(Bucket::Compute, 100 * S)];
    let said = text(found(vec![rank.clone(); RANKS], &parts, queue_full::find));
    assert!(said.contains("60.0 % of the wall time"), "{said}");
    let mut ranks = vec![process(1); RANKS];
    ranks[0] = rank;
    assert!(found(ranks, &parts, queue_full::find).is_none(), "one of eight is");
}

/// Of a program with one launch, which loaded its code, it was said that the GPU waited for the next launch in 0 gaps, and that a CUDA
/// graph saves 79 % of the time.
#[test]
fn few_launches_and_the_first_of_a_kernel_are_no_tiny_kernels() {
    let of = |launches: u64, gaps: u64, first: u64| {
        let site = Site { api: Some("cuLaunchKernel".to_owned()), ..Site::default() };
        let part = |count, ms: u64| Part { count, total: exactly(ms * MS) };
        let mut one = process(1);
        let causes = [(Cause::Launching, part(gaps, 20 - first)), (Cause::Loading, part(1, first))];
        one.idle.by_cause = causes.into();
        one.idle.sites = causes.map(|(cause, part)| ((cause, site.clone()), part)).into();
        one.kernels = vec![Kernel::of_launches("add", launches, 2_000)];
        let idle = causes.map(|(cause, part)| (Bucket::Idle(cause), part.total.value));
        let parts = [idle[0], idle[1], (Bucket::Compute, 5 * MS)];
        let found = found(vec![one], &parts, tiny_kernels::find)?;
        assert_eq!(found.claims.len(), 1);
        Some(found.claims[&Bucket::Idle(Cause::Launching)].value / MS)
    };
    assert_eq!((of(1, 0, 20), of(10, 9, 0)), (None, None));
    assert_eq!((of(11, 10, 0), of(11, 10, 15)), (Some(20), Some(5)));
}

/// A kernel with one launch, of which nothing was known but that it took at most 12 ms, was the evidence of 38 906 gaps: "1 of 61 801
/// launches (<0.1 %) are of kernels that run for less than 10 µs".
#[test]
fn a_launch_whose_time_is_not_known_is_no_tiny_kernel() {
    let site = Site { api: Some("cuLaunchKernel".to_owned()), ..Site::default() };
    let part = Part { count: 100, total: exactly(20 * MS) };
    let mut one = process(1);
    one.idle.by_cause = [(Cause::Launching, part)].into();
    one.idle.sites = [((Cause::Launching, site), part)].into();
    let mut unknown = Kernel::of_launches("first", 1, 5_000);
    unknown.durations = Durations::default();
    unknown.durations.add(Length { lo: 0, value: 5_000, hi: 12 * MS });
    one.kernels = vec![unknown, Kernel::of_launches("gemm", 100, 50_000)];
    let parts = [(Bucket::Idle(Cause::Launching), 20 * MS), (Bucket::Compute, 5 * MS)];
    let found = found(vec![one], &parts, tiny_kernels::find).unwrap().finding;
    let said = "In 100 gaps, 20.0 ms in all, the GPU waited for the next launch; the commonest kernel runs for 50.0 µs.";
    assert_eq!((found.evidence.text.as_str(), found.evidence.kernel.as_deref()), (said, Some("gemm")));
}

/// The first launch of a program, which loads its code, was said to wait for the GPU, and so were slow launches without GPU times.
#[test]
fn launches_wait_for_the_gpu_only_where_it_is_busy_and_they_fill_its_queue() {
    let of = |launches: u64, parts: &[(Bucket, u64)]| {
        let mut one = process(1);
        one.apis.insert("cudaLaunchKernel".to_owned(), calls(launches, 900 * MS));
        found(vec![one], parts, queue_full::find).is_some()
    };
    let busy = [(Bucket::Compute, 950 * MS), (Bucket::Idle(Cause::Launching), 50 * MS)];
    assert!(of(2_000, &busy));
    assert!(!of(1, &busy), "one call waits for something else");
    let start = [(Bucket::StartUp, 900 * MS), (Bucket::Tail, 100 * MS)];
    assert!(!of(2_000, &start) && !of(2_000, &[(Bucket::Undecided, 1_000 * MS)]));
}

/// A kernel that takes longer on one rank than on the others was said to take a different time at each launch.
#[test]
fn a_kernel_that_is_slower_on_one_rank_than_on_others_is_not_unstable() {
    let rank = |ns: &dyn Fn(u64) -> u64| {
        let mut kernel = Kernel { count: 100, ..Kernel::default() };
        let blocks = Some((7, 7));
        let (threads, dynamic_shared_bytes, launches, captured, said) = (128, 0, 100, 0, None);
        let launched = Launched { threads, dynamic_shared_bytes, launches, captured, blocks, said };
        kernel.shapes.list = vec![launched];
        (0..100).map(ns).for_each(|ns| {
            kernel.durations.add(Length { value: ns, lo: ns, hi: ns });
            kernel.strata.add(Shaped::default(), 1, Some(ns));
        });
        kernel.judge();
        Tables { kernels: vec![kernel], ..process(1) }
    };
    let found = |ranks| found(ranks, &[(Bucket::Compute, 10 * MS)], unstable_kernel::find);
    assert!(found(vec![rank(&|_| 300_000), rank(&|_| 300_000), rank(&|_| 1_200_000)]).is_none());
    let varies = |n: u64| if n.is_multiple_of(5) { 200_000 } else { 2_000 };
    let said = text(found(vec![rank(&|_| 2_000), rank(&varies)]));
    let expected = "Median 2.00 µs, mean 41.6 µs, longest 200 µs, in 100 timed launches of one shape on one GPU of one process.";
    assert_eq!(said, expected);
}

/// A kernel that works on tensors of two sizes, with two grids, was said to take a different time at each launch.
#[test]
fn a_kernel_is_unstable_only_with_one_number_of_blocks() {
    let of = |blocks: Option<(u64, u64)>| {
        let mut kernel = Kernel { count: 100, ..Kernel::default() };
        let launched = Launched {
            threads: 128,
            dynamic_shared_bytes: 0,
            launches: 100,
            captured: 0,
            blocks,
            said: None,
        };
        kernel.shapes.list = vec![launched];
        (0..100u64).for_each(|n| {
            let ns = if n % 5 == 0 { 200_000 } else { 2_000 };
            kernel.durations.add(Length { value: ns, lo: ns, hi: ns });
            kernel.strata.add(Shaped::default(), 1, Some(ns));
        });
        kernel.judge();
        let one = Tables { kernels: vec![kernel].into_iter().collect(), ..process(1) };
        found(vec![one], &[(Bucket::Compute, 10 * MS)], unstable_kernel::find).is_some()
    };
    assert!(of(Some((7, 7))));
    assert!(!of(Some((1, 400))) && !of(None));
}

/// A launch that waits for its own kernel, because it is told to, was said to wait for room in the queue.
#[test]
fn launches_that_are_told_to_wait_do_not_wait_for_the_queue() {
    let mut one = process(1);
    one.apis.insert("cudaLaunchKernel".to_owned(), calls(2_000, 900 * MS));
    let parts = [(Bucket::Compute, 950 * MS), (Bucket::Idle(Cause::Launching), 50 * MS)];
    let of = |launch_blocking| {
        let process = ProcessInfo { launch_blocking, ..ProcessInfo::default() };
        found_in(&process, vec![one.clone()], &parts, queue_full::find).is_some()
    };
    assert!(of(false) && !of(true));
}

/// Returns what is found in processes of which the first ones got these errors at these times.
fn stopped(errors: &[(i32, u64)], processes: usize) -> Claimed {
    let mut all = vec![process(1); processes];
    for ((result, at), of) in errors.iter().zip(&mut all) {
        let suspect = |symbol: &str, count| Suspect {
            symbol: Some(symbol.to_owned()),
            line: Some(Frame { file: "train.py".to_owned(), line: 40, ..Frame::default() }),
            count,
            ..Suspect::default()
        };
        let first = Stopped {
            result: *result,
            at: *at,
            since_began: *at,
            api: "cudaStreamSynchronize".to_owned(),
            suspects: vec![suspect("fill", 2), suspect("scatter", 1)],
            others: 7,
            ..Stopped::default()
        };
        of.gpu_errors = GpuErrors { processes: 1, calls: 12, first: Some(first) };
    }
    found(all, &[], gpu_error::find).unwrap()
}

#[test]
fn an_error_of_the_gpu_is_told_with_its_name_its_calls_and_its_suspects() {
    let Claimed { finding, claims, .. } = stopped(&[(700, MS)], 1);
    assert!(claims.is_empty() && finding.id == Id::GpuError, "it promises no time");
    assert_eq!(finding.title, "The GPU stopped with an error: illegal address (700)");
    let said = "CUDA_ERROR_ILLEGAL_ADDRESS (700): a kernel used an address at which it has no memory. cudaStreamSynchronize was \
                the first of 12 calls that returned it. Launched before it and not seen to complete, the latest last: 7 more, \
                fill (2 times at train.py:40), scatter (at train.py:40).";
    assert_eq!(finding.evidence.text, said);
    assert_eq!(
        (finding.evidence.count, finding.evidence.first, finding.evidence.kernel),
        (12, Some(MS), None)
    );
    assert!(finding.explanation.contains("all its later calls return the same error"));
    assert!(finding.fix.starts_with("Run compute-sanitizer ./app. "), "{}", finding.fix);
}

#[test]
fn of_errors_in_several_processes_the_earliest_is_told() {
    let said = text(Some(stopped(&[(719, 2 * MS), (710, MS)], RANKS)));
    assert!(said.starts_with("CUDA_ERROR_ASSERT (710): "), "{said}");
    assert!(said.ends_with("2 processes got such an error; this is the earliest."), "{said}");
    assert!(said.contains("cudaStreamSynchronize returned it first."), "{said}");
}

/// Of a job of two hours in which a GPU was slower for three minutes, nothing said so.
#[test]
fn a_slower_gpu_is_told_with_the_steps_in_which_it_was() {
    let stretch = |first: u64, times: f64| SlowStretch {
        steps: first..first + 20,
        start: first * S,
        duration: 26 * S,
        usual: S,
        same_kernels: Some(times),
    };
    let its = |stretches: Vec<SlowStretch>| {
        let mut tables = process(1);
        // Of a hundred steps those on a slower GPU are as much as 18 more: without that, it is busy for 0.5 s in each.
        tables.steps.contents = Contents { busy: 0.59 * S as f64, ..Contents::default() };
        tables.steps.steady = 0..100;
        tables.steps.slow_stretches = stretches;
        tables
    };
    let parts = [(Bucket::Compute, 30 * S), (Bucket::Graphs, 10 * S)];
    let Claimed { finding, claims, .. } =
        found(vec![its(vec![stretch(20, 1.4), stretch(60, 1.5)])], &parts, slower_gpu::find).unwrap();
    let said = "Steps 60..79 took 1.30 s each instead of 1.00 s: the same kernels took 1.50 times as long on the GPU. It was slower \
                1 time more.";
    assert_eq!(
        (&*finding.evidence.text, finding.evidence.count, finding.evidence.first),
        (said, 40, Some(20 * S))
    );
    // 20 × 0.5 s × 0.4 is 4 s, and 20 × 0.5 s × 0.5 is 5 s.
    let is_about = |sum: Sum, ns: u64| sum.lo == 0 && sum.value.abs_diff(ns) <= 9 && sum.hi.abs_diff(ns) <= 9;
    assert!(
        is_about(claims[&Bucket::Compute], 6_750 * MS) && is_about(claims[&Bucket::Graphs], 2_250 * MS),
        "{claims:?}"
    );
    let two = vec![its(vec![stretch(20, 1.01)]), its(vec![stretch(60, 1.5)])];
    let finding = found(two, &parts, slower_gpu::find).unwrap().finding;
    assert!(finding.title.starts_with("The GPU was slower for a part of the time"), "{}", finding.title);
    assert_eq!(finding.evidence.count, 20, "in the first, the GPU was as fast as ever");
    assert!(found(vec![its(vec![stretch(20, 1.01)])], &parts, slower_gpu::find).is_none());
}

/// NVIDIA does not say of these errors that all later calls return them.
#[test]
fn an_error_of_the_hardware_is_not_blamed_on_the_program() {
    let Claimed { finding, .. } = stopped(&[(214, MS)], 1);
    assert!(!finding.explanation.contains("later calls"), "{}", finding.explanation);
    assert!(finding.fix.contains("nvidia-smi -q") && finding.fix.contains("Xid"), "{}", finding.fix);
    let both = stopped(&[(226, MS)], 1).finding.fix;
    assert!(both.contains("compute-sanitizer") && both.contains("Xid"), "{both}");
}
