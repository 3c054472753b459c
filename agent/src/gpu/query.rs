//! Has an event completed, or is the driver shutting down?

use crate::cuda::{CUDA_ERROR_DEINITIALIZED, CUresult};
use crate::driver::Driver;
use crate::gpu::budget::Gate;
use crate::gpu::context::Context;
use crate::sink::Session;

/// Stops querying and timing after the driver has reported that it is shutting down.
pub fn shut_down(session: Session) {
    session.poller.stop();
    session.get::<Gate>().stop();
}

/// Queries an event of a context that was recorded; `None` if it cannot be queried. If it was read and reused meanwhile, it is simply
/// not ready. The thread has to be RELAXED if a capture may begin meanwhile.
pub fn query_event(session: Session, driver: &Driver, context: &Context, event: u32) -> Option<CUresult> {
    let (query, event) = driver.event_query.zip(context.pool.event(event))?;
    // SAFETY: an event that the pool of this context has made and not destroyed.
    let answer = unsafe { query(event) };
    if answer == CUDA_ERROR_DEINITIALIZED {
        shut_down(session);
    }
    Some(answer)
}
