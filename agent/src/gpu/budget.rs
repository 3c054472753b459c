//! Which launches are timed, and what may that cost (`--timing`)?
//!
//! With `auto`, the first phase is timed in full: the first second after the first launch, or its first
//! launches ([`gate::FIRST_LAUNCHES`]). After that an account is kept. It earns the budget's share of the
//! time that passes, and pays what the agent costs by its own measurement: the hooks' time summed over all
//! threads, the poller's CPU time, and the extra time that launches take while they are timed, for whatever
//! reason (events take time on the GPU, and the poller's queries hold driver locks that launches wait for).
//! When the account can pay for a useful window, one opens; when it is empty, the window closes. A window is
//! a contiguous interval in which every operation on all threads and streams is timed. Operations are counted
//! at all times.
//!
//! A single launch cannot show how much longer it took because it was timed. The slowdown is found by
//! comparing windows with the pauses next to them ([`gpuspy_wire::pace`]). A window that the account could
//! pay for indefinitely is therefore interrupted now and then, only to make that comparison. The collector
//! makes the same comparison from the trace, and the report prints the collector's figure; the agent
//! publishes none of its own. The account pays the least slowdown that its last few comparisons prove, while
//! a reader wants the most likely one, from all comparisons of a run. Both use one definition and read the
//! same events.
//!
//! Where events could change what they measure, because streams share hardware queues
//! (`CUDA_DEVICE_MAX_CONNECTIONS` is 1, or smaller than the number of streams in a context), windows are
//! sparse: none, including the first phase, is longer than 100 ms, and at most one starts per second.
//!
//! The hook time of several threads is compared with one wall clock. That overstates the cost and never
//! understates it.
//!
//! The poller keeps the account and can be many ms late on a busy machine. So a window opens with the number
//! of launches that the account can pay for, and the hooks count it down themselves. A late poller then
//! overspends only by the amount that a launch costs more than expected, and the pause that follows pays that
//! back.
//!
//! - [`gate`] answers the hooks' query: may this launch be timed?
//! - [`account`] decides when a window opens and closes.
//! - [`slowdown`] estimates how much longer launches take in a window.

mod account;
mod gate;
mod slowdown;

pub use account::Budget;
pub use gate::Gate;
pub use slowdown::Follower;
