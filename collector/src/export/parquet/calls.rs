//! The tables of the host's calls: all of them, and those that synchronize.

use super::context::{Context, Site};
use super::layout::{Cell, fitted};
use super::sheet::Entries;
use super::tables::{Rows, Table};
use crate::model::{CountedCall, Event, When};
use crate::trace::record::{Body, Call, Synchronize};
use gpuspy_wire::record::{SyncScope, flag};

/// How a call ended: what it returned, whether it failed, how many queries in a row it stands for, whether it was captured,
/// and its context.
type Ended = (Option<i32>, bool, u32, bool, u32);

/// The tables.
#[derive(Debug, Default)]
pub(super) struct Calls {
    sites: Entries<Site>,
    threads: Entries<u32>,
    ends: Entries<Ended>,
    sync_kinds: Entries<SyncScope>,
    /// By context, stream and thread.
    sync_places: Entries<(u32, Option<u64>, u32)>,
    sync_sites: Entries<Site>,
}

impl Calls {
    /// Adds a call that ended.
    pub fn add(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        event: &Event<'_>,
        (call, counted): (&Call, CountedCall),
    ) {
        let (table, thread, body) = (Table::Runtime, event.record.thread, &event.record.body);
        let correlation = of.correlation(thread, call);
        let result = match body {
            Body::Api(api) => Some(api.result),
            _ => (!counted.failed).then_some(0),
        };
        let is_captured = call.flags & flag::CAPTURED != 0
            || event.operation.is_some_and(|operation| operation.when == When::Captured);
        let site = of.site(call);
        let called = rows.entry((table, 0), &mut self.sites, site, || of.called(site));
        let by = rows.entry((table, 1), &mut self.threads, thread, || of.thread(thread));
        let end = (result, counted.failed, counted.calls, is_captured, call.context);
        let ended = rows.entry((table, 2), &mut self.ends, end, || {
            let (result, failed, calls, is_captured, context) = end;
            vec![
                Cell::number(result),
                failed.into(),
                Cell::number(Some(calls)),
                is_captured.into(),
                Cell::number((context != 0).then_some(context)),
            ]
        });
        let own = [
            Some(fitted(call.begin)),
            Some(fitted(call.end)),
            Some(correlation),
            Some(fitted(counted.host_ns)),
            event.step.map(fitted),
        ];
        rows.add(table, &own, &[called, by, ended]);
        if let Body::Synchronize(sync) = body {
            self.sync(of, rows, event, (sync, correlation));
        }
    }

    fn sync(
        &mut self,
        of: &mut Context<'_>,
        rows: &mut Rows<'_>,
        event: &Event<'_>,
        (sync, correlation): (&Synchronize, i64),
    ) {
        let (table, thread, context) = (Table::Sync, event.record.thread, sync.call.context);
        let kind = rows.entry((table, 0), &mut self.sync_kinds, sync.scope, || {
            // CUPTI's numbers (cupti_activity.h: CUpti_ActivitySynchronizationType), which has none for a device.
            let number = match sync.scope {
                SyncScope::Event => 1,
                SyncScope::Stream => 3,
                SyncScope::Context | SyncScope::GreenContext | SyncScope::Device => 4,
            };
            vec![Cell::Number(number), Cell::text(Some(sync.scope.name()))]
        });
        let stream = (sync.scope == SyncScope::Stream).then_some(sync.stream);
        let place = rows.entry((table, 1), &mut self.sync_places, (context, stream, thread), || {
            let device = Cell::number(of.devices.get(&context).copied());
            let stream = Cell::number(stream.map(|stream| of.filter.number_of(context, stream)));
            let context = Cell::number((context != 0).then_some(context));
            let [process, pid] = of.whose();
            vec![device, context, stream, of.global_pid(), process, pid, of.tid(thread)]
        });
        let site = of.site(&sync.call);
        let called = rows.entry((table, 2), &mut self.sync_sites, site, || of.called(site));
        let own = [
            Some(fitted(sync.call.begin)),
            Some(fitted(sync.call.end)),
            Some(correlation),
            event.step.map(fitted),
        ];
        rows.add(table, &own, &[kind, place, called]);
    }
}
