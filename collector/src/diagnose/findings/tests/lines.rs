//! Findings that depend on the lines of the program.

use super::*;
use crate::analyze::gaps::KEPT;
use crate::analyze::idle::Next;
use crate::diagnose::findings::waits::is_query;
use crate::diagnose::findings::{pageable_copies, recompilation};

fn line(number: u32) -> Option<Frame> {
    Some(Frame { file: "train.py".to_owned(), line: number, ..Frame::default() })
}

fn at(number: u32) -> Source {
    Source { library: None, line: line(number) }
}

fn site_of_copies() -> CopySite {
    copies(SizeClass::UpTo4KiB, Copied::default()).into_keys().next().unwrap()
}

fn pytorch(one: Tables, parts: &[(Bucket, u64)], find: Find) -> Option<Claimed> {
    let process = ProcessInfo { framework: Framework::PyTorch, ..ProcessInfo::default() };
    found_in(&process, vec![one], parts, find)
}

/// Returns what is found in a PyTorch program whose line 27 waits by this API in each step, and that has these copies.
fn waits_at_27(api: &str, copied: &[(CopySite, u64)]) -> (String, String) {
    let found = waits_of("libtorch_cuda.so", Wait { api: api.to_owned(), line: line(27) }, copied, &[]);
    let found = found.unwrap().finding;
    (found.title, found.fix)
}

/// Returns what is found in a PyTorch program that makes a wait in each step, from this library, has these copies, and launches these
/// kernels at these lines.
fn waits_of(
    library: &str,
    wait: Wait,
    copied: &[(CopySite, u64)],
    kernels: &[(&str, u32)],
) -> Option<Claimed> {
    let api = wait.api.clone();
    let part = Part { count: STEPS, total: exactly(S) };
    let site = Site { after_wait: Some(wait.clone()), ..Site::default() };
    let source = Source { library: Some(format!("/v/torch/lib/{library}")), line: wait.line.clone() };
    let own = Site { api: Some(api.clone()), source, ..site.clone() };
    let mut one = process(1);
    one.idle = IdleReport {
        by_cause: [(Cause::OutsideCuda, part), (Cause::ExplicitSync, Part::default())].into(),
        sites: [((Cause::OutsideCuda, site), part), ((Cause::ExplicitSync, own), Part::default())].into(),
        waits: [(wait, Emptied { count: STEPS, steps: STEPS })].into(),
        ..IdleReport::default()
    };
    for (symbol, number) in kernels {
        one.kernels.push(Kernel::of_launches(symbol, STEPS, 50_000));
        one.source_lines.launches((*symbol).to_owned(), line(*number), STEPS);
    }
    one.apis.insert(api.clone(), calls(STEPS, S));
    if !is_query(&api) {
        one.syncs.insert(api, calls(STEPS, S));
    }
    let copied = copied.iter().cloned();
    one.copy_sites = copied.map(|(site, count)| (site, Copied { count, ..Copied::default() })).collect();
    let parts = [(Bucket::Idle(Cause::OutsideCuda), S), (Bucket::Compute, S)];
    pytorch(one, &parts, sync_per_step::find)
}

/// A program that timed its steps with events, and copied its model before them, was told to move batches from pinned memory.
#[test]
fn a_wait_for_an_event_is_not_that_of_copies_elsewhere() {
    let upload = CopySite { host_memory: HostMemory::Pageable, ..site_of_copies() };
    let model = CopySite { source: at(5), sets_up: true, ..upload.clone() };
    let elsewhere = CopySite { source: at(25), ..upload.clone() };
    let (title, fix) = waits_at_27("cudaEventSynchronize", &[(model, 2 * STEPS), (elsewhere, STEPS)]);
    assert_eq!(title, "The GPU idles after Event.synchronize()");
    assert!(fix.starts_with("Wait less often") && !fix.contains("pin_memory"), "{fix}");
    let batch = CopySite { source: at(27), ..upload };
    let (title, _) = waits_at_27("cudaStreamSynchronize", &[(batch, STEPS)]);
    assert_eq!(title, "The GPU idles after tensor.to(device) or the like");
}

/// An optimizer of sparse gradients, whose operators wait, was told to read the times of events less often: it had none.
#[test]
fn a_wait_in_an_operator_is_not_one_of_the_program_for_a_stream() {
    let of = |library| {
        let wait = Wait { api: "cudaStreamSynchronize".to_owned(), line: line(27) };
        let found = waits_of(library, wait, &[], &[]).unwrap().finding;
        (found.title, found.fix)
    };
    let (title, fix) = of("libtorch_cuda.so");
    assert_eq!(title, "The GPU idles after an operator that waits for it");
    assert!(fix.contains("sparse gradients") && !fix.contains("elapsed_time"), "{fix}");
    let (title, fix) = of("libtorch_python.so");
    assert_eq!(title, "The GPU idles after Stream.synchronize()");
    assert!(fix.starts_with("Wait less often"), "{fix}");
    assert_eq!(of("my_extension.so").0, "The GPU idles after cudaStreamSynchronize");
}

/// A loop that asks for an event was told to call `.item()` every 100 steps; and so was a program for which PyTorch's allocator asks
/// whether memory that was recorded on another stream is free again.
#[test]
fn a_loop_of_queries_reads_nothing_and_those_of_the_allocator_are_no_waits() {
    let of = |library: &str, function: &str| {
        let (library, function) = (format!("/v/torch/lib/{library}"), function.to_owned());
        let frame = Frame { file: library.clone(), function, library, ..Frame::default() };
        let wait = Wait { api: "cudaEventQuery".to_owned(), line: Some(frame) };
        waits_of("libtorch_python.so", wait, &[], &[]).map(|found| found.finding)
    };
    let asks = of("libtorch_python.so", "THCPEvent_query").unwrap();
    assert_eq!(asks.title, "The GPU idles after cudaEventQuery");
    assert!(asks.fix.starts_with("Do not ask in a loop") && !asks.fix.contains(".item()"), "{}", asks.fix);
    assert!(of("libc10_cuda.so", "process_events").is_none());
    let pinned =
        "at::CachingHostAllocatorImpl<c10::cuda::CUDAStream>::process_events_for_specific_size(long)";
    assert!(of("libtorch_cuda.so", pinned).is_none());
}

/// What GradScaler.step() reads was `loss.item()`, and adding up `loss.detach()` was to help.
#[test]
fn what_the_scaler_of_mixed_precision_reads_is_no_loss() {
    let read = CopySite { kind: TransferKind::DtoH, source: at(27), ..site_of_copies() };
    let of = |kernels: &[(&str, u32)]| {
        let wait = Wait { api: "cudaStreamSynchronize".to_owned(), line: line(27) };
        waits_of("libtorch_cuda.so", wait, &[(read.clone(), STEPS)], kernels).unwrap().finding
    };
    let update = ("amp_update_scale_cuda_kernel", 28);
    let unscales = ("multi_tensor_apply_kernel<_amp_foreach_non_finite_check_and_unscale_cuda_>", 27);
    let optimizer = ("multi_tensor_apply_kernel<sgd>", 27);
    for kernels in [[update, unscales], [update, optimizer]] {
        let scales = of(&kernels);
        assert_eq!(scales.title, "The GPU idles after GradScaler.step()");
        assert!(scales.fix.contains("fused=True") && !scales.fix.contains(".item()"), "{}", scales.fix);
    }
    let elsewhere = [update, (unscales.0, 26), (optimizer.0, 26)];
    for kernels in [&elsewhere[..], &[optimizer]] {
        assert_eq!(of(kernels).title, "The GPU idles after loss.item() or the like");
    }
}

/// Of a batch that was moved tensor by tensor, the host's time between two of the copies was to be gained with torch.compile.
#[test]
fn the_time_before_copies_to_the_gpu_is_not_that_before_tiny_kernels() {
    let of = |next| {
        let site = Site { next, source: at(27), ..Site::default() };
        let part = Part { count: 64 * STEPS, total: exactly(S) };
        let mut one = process(1);
        one.idle.by_cause = [(Cause::OutsideCuda, part)].into();
        one.idle.sites = [((Cause::OutsideCuda, site), part)].into();
        one.kernels = vec![Kernel::of_launches("gemm", 10 * STEPS, 100_000)];
        let parts = [(Bucket::Idle(Cause::OutsideCuda), S), (Bucket::Compute, S)];
        pytorch(one, &parts, tiny_kernels::find).is_some()
    };
    assert_eq!([Next::MoreInput, Next::Input, Next::Other].map(of), [false, false, true]);
}

/// `out[keep]` and `nonzero()` read how many elements there are, and the program was told to call `.item()` every 100 steps.
#[test]
fn indexing_by_a_mask_is_not_taken_for_an_item() {
    let read = CopySite { kind: TransferKind::DtoH, source: at(27), ..site_of_copies() };
    let selects = CopySite { of_selection: true, ..read.clone() };
    let (title, fix) = waits_at_27("cudaStreamSynchronize", &[(selects.clone(), STEPS)]);
    assert_eq!(title, "The GPU idles after indexing by a mask, nonzero() or the like");
    assert!(fix.contains("torch.where") && !fix.contains(".item()"), "{fix}");
    let (title, _) = waits_at_27("cudaStreamSynchronize", &[(selects, STEPS / 10), (read, STEPS)]);
    assert!(title.contains(".item()"), "{title}");
}

/// torch.save after every 100 steps waited for each of 24 tensors, and the program was told to call `.item()` every 100 steps.
#[test]
fn waits_in_few_of_the_steps_are_no_habit_of_theirs() {
    let of = |steps, wall| {
        let wait = Wait { api: "cudaMemcpyAsync".to_owned(), line: line(27) };
        let part = Part { count: 144, total: exactly(S) };
        let owed = Site { after_wait: Some(wait.clone()), ..Site::default() };
        let inside = Site { api: Some(wait.api.clone()), source: at(27), ..Site::default() };
        let mut one = process(1);
        let sites = [((Cause::OutsideCuda, owed), part), ((Cause::Copying, inside), part)].into();
        let waits = [(wait, Emptied { count: 144, steps })].into();
        one.idle = IdleReport { sites, waits, ..IdleReport::default() };
        let read = CopySite { kind: TransferKind::DtoH, blocks: true, source: at(27), ..site_of_copies() };
        one.copy_sites = [(read, Copied { count: 144, ..Copied::default() })].into();
        pytorch(one, &[(Bucket::Compute, wall)], sync_per_step::find).is_some()
    };
    assert_eq!([of(4, S), of(5, S)], [false, true], "of 100 steps");
    assert!(
        of(4, 1_000 * S),
        "the steps are a part of the program, and the demo waits in each step of another one"
    );
}

/// What torch.save copied to the host was to come from a DataLoader with pinned memory.
#[test]
fn copies_to_the_host_are_no_batches_of_a_data_loader() {
    let fix = |kind| {
        let site =
            CopySite { kind, host_memory: HostMemory::Pageable, size: SizeClass::Larger, ..site_of_copies() };
        let copied = Copied { count: 100, timed: 100, time: exactly(S), ..Copied::default() };
        let one = Tables { copy_sites: [(site, copied)].into(), ..process(1) };
        pytorch(one, &[(Bucket::ExposedCopies, S)], pageable_copies::find).unwrap().finding.fix
    };
    let saves = fix(TransferKind::DtoH);
    assert!(saves.contains("async_save") && !saves.contains("DataLoader"), "{saves}");
    assert!(fix(TransferKind::HtoD).contains("DataLoader"));
}

/// 300 weights that were copied before the steps were to come from a DataLoader with pinned memory.
#[test]
fn copies_of_the_set_up_are_no_finding() {
    let is_found = |sets_up| {
        let site = CopySite {
            host_memory: HostMemory::Pageable,
            size: SizeClass::Larger,
            sets_up,
            ..site_of_copies()
        };
        let copied = Copied { count: 300, timed: 300, time: exactly(S), ..Copied::default() };
        let one = Tables { copy_sites: [(site, copied)].into(), ..process(1) };
        pytorch(one, &[(Bucket::ExposedCopies, S)], pageable_copies::find).is_some()
    };
    assert_eq!([true, false].map(is_found), [false, true]);
}

/// Of a batch that was moved tensor by tensor, the host's time between two of the copies was to be gained with torch.compile.
#[test]
fn the_time_between_two_small_copies_of_a_line_is_gained_with_them() {
    let number = 64 * STEPS;
    let between = Site { is_long: true, next: Next::MoreInput, source: at(27), ..Site::default() };
    let other = Site { is_long: true, source: at(30), ..Site::default() };
    let part = |ms| Part { count: STEPS, total: exactly(ms * MS) };
    let mut one = process(1);
    one.idle.by_cause = [(Cause::OutsideCuda, part(800))].into();
    one.idle.sites =
        [(between, 640), (other, 160)].map(|(site, ms)| ((Cause::OutsideCuda, site), part(ms))).into();
    let copied = Copied { count: number, ..Copied::default() };
    one.copy_sites = [(CopySite { source: at(27), ..site_of_copies() }, copied)].into();
    let outside = Bucket::Idle(Cause::OutsideCuda);
    let claimed = |find| {
        let found = pytorch(one.clone(), &[(outside, 800 * MS), (Bucket::Compute, S)], find).unwrap();
        found.claims[&outside].value / MS
    };
    assert_eq!((claimed(small_copies::find), claimed(host_stall::find)), (630, 160));
}

/// Python collected garbage for 200 ms after every 50 steps, and the advice was to compile the model. The line was that of the first
/// launch after each pause.
#[test]
fn a_few_long_pauses_are_not_what_python_does_between_launches() {
    let of = |pauses: u64, steps: u64| {
        let few = |count, ms| std::iter::repeat_n(ms * MS, count as usize);
        let lengths: Vec<u64> = few(pauses, 200).chain(few(75, 1)).collect();
        let total = lengths.iter().sum();
        let site = Site { is_long: true, source: at(27), ..Site::default() };
        let part = Part { count: lengths.len() as u64, total: exactly(total) };
        let mut one = process(1);
        one.steps.count = steps;
        one.idle.by_cause = [(Cause::OutsideCuda, part)].into();
        one.idle.sites = [((Cause::OutsideCuda, site), part)].into();
        one.gaps.largest = lengths
            .iter()
            .take(KEPT)
            .map(|ns| {
                let mut row = gap(*ns);
                (row.before.line, row.after.line) = (line(29), line(27));
                row
            })
            .collect();
        let parts = [(Bucket::Idle(Cause::OutsideCuda), total), (Bucket::Compute, S)];
        let found = pytorch(one, &parts, host_stall::find).unwrap().finding;
        (found.evidence.text, found.fix)
    };
    let (text, fix) = of(9, 450);
    assert!(text.contains("9 pauses of 200 ms or longer, one in about 50 steps, take 1.80 s."), "{text}");
    assert!(text.contains("The longest lie between train.py:29 and train.py:27."), "{text}");
    assert!(fix.contains("gc.freeze()") && !fix.contains("torch.compile"), "{fix}");
    let (text, fix) = of(9, 80);
    assert!(!text.contains("pauses") && fix.contains("torch.compile"), "one in 9 steps: {text} {fix}");
    let (_, fix) = of(64, 6_400);
    assert!(fix.contains("torch.compile"), "more than are known may be as long: {fix}");
}

/// Of what was left of the host's time, "one gap" had all: it was one of a compilation, which is another finding.
#[test]
fn the_longest_gaps_of_a_finding_are_its_own() {
    let site = |next| Site { is_long: true, source: at(27), next, ..Site::default() };
    let outside = |next| (Cause::OutsideCuda, site(next));
    let part = |count: u64, each| Part { count, total: exactly(count * each * MS) };
    let mut one = process(1);
    one.idle.by_cause = [(Cause::OutsideCuda, part(1, 20_000 + 2_700))].into();
    one.idle.sites = [(outside(Next::Code), part(10, 2_000)), (outside(Next::Other), part(900, 3))].into();
    let kept = |next, ms: u64| GapRow { largest: Some(outside(next)), ..gap(ms * MS) };
    one.gaps.largest = vec![kept(Next::Code, 2_000); 10];
    one.gaps.largest.extend(vec![kept(Next::Other, 3); KEPT - 10]);
    let parts = [(Bucket::Idle(Cause::OutsideCuda), 22_700 * MS), (Bucket::Compute, S)];
    let said = |find| text(pytorch(one.clone(), &parts, find));
    let (stall, compiled) = (said(host_stall::find), said(recompilation::find));
    assert!(stall.starts_with("900 gaps of 3.00 ms each, 2.70 s in all,"), "{stall}");
    assert!(compiled.starts_with("10 gaps of 2.00 s each, 20.0 s in all,"), "{compiled}");
}

/// Six checkpoints of 150 ms were the longest gaps by far, and the longest were said to be those of an evaluation, of 5 ms each, which
/// had more time together.
#[test]
fn the_longest_gaps_lie_between_the_lines_of_the_longest() {
    let site = |number| Site { is_long: true, source: at(number), ..Site::default() };
    let part = |count: u64, each| Part { count, total: exactly(count * each * MS) };
    let between = |ms: u64, before, after| {
        let mut row = gap(ms * MS);
        (row.before.line, row.after.line) = (line(before), line(after));
        row
    };
    let of = |others: usize| {
        let mut one = process(1);
        one.idle.by_cause = [(Cause::OutsideCuda, part(1, 6 * 150 + 240 * 5))].into();
        one.idle.sites = [(10, part(240, 5)), (6, part(6, 150))]
            .map(|(number, part)| ((Cause::OutsideCuda, site(number)), part))
            .into();
        one.gaps.largest = vec![between(150, 14, 6); 6 - others];
        one.gaps.largest.extend(vec![between(100, 20, 21); others]);
        one.gaps.largest.extend(vec![between(5, 11, 10); KEPT - 6]);
        let parts = [(Bucket::Idle(Cause::OutsideCuda), 2_100 * MS), (Bucket::Compute, S)];
        let found = pytorch(one, &parts, host_stall::find).unwrap().finding;
        assert_eq!(found.evidence.source.line, line(10));
        found.evidence.text
    };
    assert!(of(0).contains(" The longest lie between train.py:14 and train.py:6."), "{}", of(0));
    assert!(of(1).contains(" Most of the longest lie between train.py:14 and train.py:6."), "{}", of(1));
    assert!(!of(4).contains("train.py:14"), "{}", of(4));
}

/// What torch.save did between the copies of its tensors, after every 100 steps, was to be gained with torch.compile.
#[test]
fn a_line_that_is_reached_in_few_of_the_steps_pauses_now_and_then() {
    let of = |gaps, steps| {
        let site = Site { is_long: true, source: at(27), ..Site::default() };
        let part = Part { count: gaps, total: exactly(S) };
        let wait = Wait { api: "cudaMemcpyAsync".to_owned(), line: line(27) };
        let mut one = process(1);
        one.idle.by_cause = [(Cause::OutsideCuda, part)].into();
        one.idle.sites = [((Cause::OutsideCuda, site), part)].into();
        one.idle.waits = [(wait, Emptied { count: 144, steps })].into();
        let found =
            pytorch(one, &[(Bucket::Idle(Cause::OutsideCuda), S), (Bucket::Compute, S)], host_stall::find);
        let found = found.unwrap().finding;
        (found.evidence.text, found.fix)
    };
    let (text, fix) = of(144, 5);
    assert!(text.contains("Most of it is in 5 of the steps, one in about 20."), "{text}");
    assert!(fix.starts_with("Look for what stops the launches now and then"), "{fix}");
    assert!(of(144, 20).1.contains("torch.compile"), "in one of 5 steps");
    assert!(of(300, 5).1.contains("torch.compile"), "most gaps are behind no wait");
}
