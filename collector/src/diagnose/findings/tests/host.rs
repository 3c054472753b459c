//! Findings about what the host does and waits for while the GPU is idle.

use super::*;

const OUTSIDE: Bucket = Bucket::Idle(Cause::OutsideCuda);

fn wait_at(api: &str, line: u32) -> Wait {
    let line = Some(Frame { file: "train.c".to_owned(), line, ..Frame::default() });
    Wait { api: api.to_owned(), line }
}

/// In each step a free waited for the kernels, and a stream was waited for directly after it. The idle time behind both, 240 ms of it, was
/// promised to who leaves out the second wait, for certain, and the free had no finding: without either of them alone, the other one
/// waits.
#[test]
fn two_waits_in_a_row_gain_nothing_but_together() {
    let (free, sync) = (wait_at("cuMemFree", 10), wait_at("cuStreamSynchronize", 20));
    let of = |then_waited: Option<Wait>| {
        let site = Site { after_wait: Some(free.clone()), then_waited, is_long: true, ..Site::default() };
        let part = Part { count: STEPS, total: exactly(240 * MS) };
        let mut one = process(1);
        one.idle.by_cause = [(Cause::OutsideCuda, part)].into();
        one.idle.sites = [((Cause::OutsideCuda, site), part)].into();
        one.idle.waits = [free.clone(), sync.clone()].map(|wait| (wait, emptied(STEPS))).into();
        one.syncs.insert(sync.api.clone(), calls(STEPS, S));
        let counts = Counts { allocations: STEPS, frees: STEPS, ..Counts::default() };
        one.memory.holders.churn = Some(Churn { counts, spread: 1.0, share: 1.0, ..Churn::default() });
        let parts = [(OUTSIDE, 240 * MS), (Bucket::Compute, S)];
        assert!(found(vec![one.clone()], &parts, sync_per_step::find).is_none(), "it waits for nothing");
        let churn = found(vec![one], &parts, allocation_churn::find).unwrap();
        (churn.claims[&OUTSIDE], churn.finding.fix)
    };
    let (alone, fix) = of(None);
    assert!(alone == exactly(240 * MS) && !fix.contains("only without both"), "{alone:?} {fix}");
    let (gain, fix) = of(Some(sync.clone()));
    assert_eq!(gain, Sum { lo: 0, ..exactly(240 * MS) });
    assert!(
        fix.contains("cuStreamSynchronize at train.c:20")
            && fix.ends_with("only without both is this gained."),
        "{fix}"
    );
}
