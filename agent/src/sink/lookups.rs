//! Counts the lookups of functions that the table has, and notes whether kernel launches reach the agent.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::hook::{Hook, Layer};
use crate::sink::{Live, existing};

/// Lookups before the session began, which are added to its header when it begins.
static LOOKUPS: AtomicU64 = AtomicU64::new(0);
static LOOKUPS_HOOKED: AtomicU64 = AtomicU64::new(0);
static DRIVER_HOOKED: AtomicBool = AtomicBool::new(false);

/// Copies what was counted before the session began into its header.
pub fn bring_over(session: &Live) {
    let live = &session.segment.header().live.0;
    // Relaxed: counters, copied once.
    live.lookups.store(LOOKUPS.load(Ordering::Relaxed), Ordering::Relaxed);
    live.lookups_hooked.store(LOOKUPS_HOOKED.load(Ordering::Relaxed), Ordering::Relaxed);
    live.driver_hooked.store(u64::from(DRIVER_HOOKED.load(Ordering::Relaxed)), Ordering::Relaxed);
}

/// Counts a lookup of a function that the table has. `hooked`: it returned a hook, and not the real function.
pub fn looked_up(hook: &Hook, hooked: bool) {
    // Relaxed throughout: counters for the report.
    let (lookups, lookups_hooked) = match existing() {
        Some(session) => {
            let live = &session.segment.header().live.0;
            (&live.lookups, &live.lookups_hooked)
        }
        None => (&LOOKUPS, &LOOKUPS_HOOKED),
    };
    lookups.fetch_add(1, Ordering::Relaxed);
    if hooked {
        lookups_hooked.fetch_add(1, Ordering::Relaxed);
        route_found(hook);
    }
}

/// Notes that calls of this function will reach the agent. If none of these functions launches kernels, the report
/// opens with a warning.
pub fn route_found(hook: &Hook) {
    if hook.layer == Layer::Driver && launches_kernels(hook.base.to_bytes()) {
        // Relaxed: a flag for the report.
        DRIVER_HOOKED.store(true, Ordering::Relaxed);
        if let Some(session) = existing() {
            session.segment.header().live.0.driver_hooked.store(1, Ordering::Relaxed);
        }
    }
}

/// Returns whether a function of this name launches kernels.
fn launches_kernels(base: &[u8]) -> bool {
    base.starts_with(b"cuLaunch") && base != b"cuLaunchHostFunc"
}

#[cfg(test)]
mod tests {
    use super::launches_kernels;

    #[test]
    fn a_launch_of_a_host_function_is_no_kernel_launch() {
        let names = crate::table::all().iter().map(|hook| hook.base.to_bytes());
        let mut launching: Vec<&[u8]> = names.filter(|base| launches_kernels(base)).collect();
        launching.sort_unstable();
        launching.dedup();
        let expected = [
            &b"cuLaunch"[..],
            b"cuLaunchCooperativeKernel",
            b"cuLaunchCooperativeKernelMultiDevice",
            b"cuLaunchGrid",
            b"cuLaunchGridAsync",
            b"cuLaunchKernel",
            b"cuLaunchKernelEx",
        ];
        assert_eq!(launching, expected);
    }
}
