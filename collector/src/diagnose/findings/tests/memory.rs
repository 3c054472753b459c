//! Findings about device memory.

use super::*;
use crate::analyze::memory::Use;

fn peak(peak_bytes: u64) -> Use {
    Use { peak_bytes, ..Use::default() }
}

/// A process that holds 70 GiB of managed memory, and some on its GPU of 80 GiB.
fn managed(on_gpu: u64) -> Tables {
    let mut one = process(1);
    one.memory.by_kind.insert("managed", peak(70 * GIB));
    one.memory.device = peak(70 * GIB + on_gpu);
    one.memory.resident = peak(on_gpu);
    one
}

/// It was said that the GPU is 87.5 % full, and that 10 GiB are left of it.
#[test]
fn untouched_managed_memory_does_not_fill_a_gpu() {
    assert_eq!(text(found(vec![managed(0)], &[], peak_memory::find)), "");
    let said = text(found(vec![managed(72 * GIB)], &[], peak_memory::find));
    let expected = "it held 72.0 GiB of 80.0 GiB (90.0 %, without managed memory). Headroom: 8.00 GiB.";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn managed_memory_makes_room_for_other_memory() {
    let mut one = managed(GIB);
    one.memory.out_of_memory = 1;
    let failure =
        Failure { requested: Some(90 * GIB), live: 71 * GIB, managed: 70 * GIB, ..Failure::default() };
    one.memory.holders.failure = Some(Failure { requested: Some(79 * GIB + 1), ..failure });
    let said = text(found(vec![one], &[], out_of_memory::find));
    assert!(said.contains("70.0 GiB was managed memory"), "{said}");
    assert!(said.ends_with("Of the GPU's 80.0 GiB it left 79.0 GiB."), "{said}");
}

/// A server took 1 MiB by cudaMallocHost for each request and freed none, and the only finding was about its waits.
#[test]
fn page_locked_memory_that_grows_is_said_to_be_the_hosts() {
    let mut one = process(1);
    let origin = Origin { kind: "pinned", api: Some("cudaMallocHost".to_owned()), ..Origin::default() };
    let origins = vec![(origin, 400 << 20)];
    let (first, last, slope) = (100 << 20, 500 << 20, (1 << 20) as f64);
    one.memory.holders.page_locked = Some(Growth { is_per_step: true, slope, first, last, origins });
    let found = found(vec![one], &[], memory_grows::find).unwrap().finding;
    assert_eq!(found.title, "Page-locked host memory grows by 1.00 MiB per step");
    assert!(found.evidence.text.contains("with cudaMallocHost") && found.fix.contains("cudaFreeHost"));
    assert!(!found.evidence.text.contains("The GPU's memory is full"));
}

#[test]
fn no_time_is_promised_until_managed_memory_fills_a_gpu() {
    let growing = |kind, first, last| {
        let mut one = managed(GIB);
        let origins = vec![(Origin { kind, ..Origin::default() }, 10 * GIB)];
        let slope = (10 << 20) as f64;
        one.memory.holders.growth = Some(Growth { is_per_step: true, slope, first, last, origins });
        text(found(vec![one], &[], memory_grows::find))
    };
    assert!(!growing("managed", 60 * GIB, 70 * GIB).contains("is full after"));
    let said = growing("device", 130 * GIB, 140 * GIB);
    assert!(said.contains(&format!("is full after {} more steps", count(1_024))), "{said}");
}
