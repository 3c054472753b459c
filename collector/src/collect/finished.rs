//! Which operations are known to be over, although their GPU times have not come? Times can be lost; without this, the trace of each
//! later window would say that such an operation may still be running when the window begins.

use crate::hash::HashMap;
use crate::trace::record::{Body, Record, Synchronize};
use gpuspy_wire::record::SyncScope;

/// Limit on the streams and contexts that are followed: more than a process has alive.
const MOST: usize = 1 << 14;

/// What a wait was for: the stream of a context, or with `None` all of it. `None` if it was for an event or a green context, because
/// which operation an event follows is not kept, nor which streams a green context has.
pub fn waited_for(sync: &Synchronize) -> Option<(u32, Option<u64>)> {
    match sync.scope {
        SyncScope::Device | SyncScope::Context => Some((sync.call.context, None)),
        SyncScope::Stream => Some((sync.call.context, Some(sync.stream))),
        SyncScope::GreenContext | SyncScope::Event => None,
    }
}

/// What is known to be over.
#[derive(Debug, Default)]
pub struct Finished {
    /// By context and stream, or with `None` for all of the context: what had been called before is over. Host ns.
    before: HashMap<(u32, Option<u64>), u64>,
}

impl Finished {
    /// Takes a record: a wait that has returned, the end of a context, or an operation with its GPU time, which those before it
    /// on its stream preceded.
    pub fn observe(&mut self, record: &Record) {
        let (of, before) = match &record.body {
            Body::Synchronize(sync) => match waited_for(sync) {
                Some(of) => (of, sync.call.begin),
                None => return,
            },
            Body::Context(context) if context.destroyed => ((context.context, None), record.at),
            Body::Work(work) if work.gpu.is_some() => {
                ((work.call.context, Some(work.stream)), work.call.begin)
            }
            _ => return,
        };
        if self.before.len() < MOST || self.before.contains_key(&of) {
            let latest = self.before.entry(of).or_default();
            *latest = before.max(*latest);
        }
    }

    /// Whether the operation of a record is certainly over.
    pub fn has(&self, record: &Record) -> bool {
        let Body::Work(work) = &record.body else { return false };
        let is_before = |stream| {
            self.before.get(&(work.call.context, stream)).is_some_and(|before| work.call.end <= *before)
        };
        is_before(None) || is_before(Some(work.stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::simulation;
    use crate::trace::record::{Call, Context, GpuTime};

    fn launch(stream: u64, begin: u64, gpu: Option<GpuTime>) -> Record {
        let mut work = simulation::work(begin, 5, 0);
        work.call = Call { begin, end: begin + 5, context: 1, ..Call::default() };
        (work.stream, work.gpu) = (stream, gpu);
        Record { thread: 1, at: begin + 5, body: Body::Work(work) }
    }

    fn wait(scope: SyncScope, stream: u64, begin: u64) -> Record {
        let call = Call { begin, end: begin + 5, context: 1, ..Call::default() };
        Record {
            thread: 1,
            at: begin + 5,
            body: Body::Synchronize(Synchronize { call, scope, stream, event: 0 }),
        }
    }

    #[test]
    fn what_was_launched_before_is_over() {
        let gone = Context { context: 1, device: 0, handle: 5, destroyed: true };
        let gone = Record { thread: 1, at: 100, body: Body::Context(gone) };
        for (seen, over) in [
            (wait(SyncScope::Stream, 7, 100), [true, false, false]),
            (wait(SyncScope::Context, 0, 100), [true, false, true]),
            (wait(SyncScope::Event, 7, 100), [false; 3]),
            (launch(7, 100, Some(GpuTime::default())), [true, false, false]),
            (launch(7, 100, None), [false; 3]),
            (gone, [true, false, true]),
        ] {
            let mut finished = Finished::default();
            finished.observe(&seen);
            let launches = [launch(7, 90, None), launch(7, 96, None), launch(8, 90, None)];
            assert_eq!(launches.map(|launch| finished.has(&launch)), over, "{seen:?}");
        }
    }
}
