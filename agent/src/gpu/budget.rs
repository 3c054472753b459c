//! `--timing`: what is timed, and what that may cost.
//!
//! With `auto`, the first phase is timed in full: the first second after the first launch, or its first launches
//! ([`gate::FIRST_LAUNCHES`]). From then on an account is kept. It earns the budget's share of the time that passes, and pays
//! what we cost by our own measurement: the hooks' time, of all threads together, the poller's CPU time, and what launches
//! take longer while they are timed, for whatever reason: events take time of the GPU, and the poller's questions hold locks
//! of the driver that launches wait for. When it can pay for a useful window, a contiguous stretch in which everything on all
//! threads and streams is timed, one opens; when it is empty, the window closes. Everything is counted always.
//!
//! What launches take longer nobody can measure on himself. It is found by comparing windows with the pauses beside them
//! ([`gpuspy_wire::pace`]). A window that the account can pay for without an end is interrupted now and then, for that alone.
//! The collector makes the same comparison of what the trace holds, and it is that which a report shows: the agent tells no
//! figure of its own. It pays by the least that its last few comparisons prove, and a person wants to know the most likely
//! one, with all of a run's comparisons behind it. Both are of one definition and read the same events.
//!
//! Where events could change what they measure, because streams share hardware queues (`CUDA_DEVICE_MAX_CONNECTIONS`, which
//! is 1, or less than there are streams in a context), windows are sparse: none, the first phase included, is longer than a
//! tenth of a second, and one begins at most every second.
//!
//! Several threads' hook time is set against one wall clock: that overstates our cost, never understates it.
//!
//! The poller, which keeps the account, can be late by many ms on a busy machine. So a window opens with the number of
//! launches that the account can pay for, and the hooks count it down themselves: a late poller overspends by what a
//! launch costs more than expected, no more, and the pause that follows pays that back.
//!
//! - [`gate`]: what hooks ask;
//! - [`account`]: when a window opens and closes;
//! - [`slowdown`]: what launches take longer in one.

mod account;
mod gate;
mod slowdown;

pub use account::Budget;
pub use gate::Gate;
pub use slowdown::Follower;
