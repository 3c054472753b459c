//! The table of NVTX ranges and markers.

use super::context::Context;
use super::layout::{Cell, fitted};
use super::sheet::Entries;
use super::tables::{Rows, Table};
use crate::analyze::ranges::RangeName;
use crate::analyze::scope::Scope;
use crate::model::ranges::{Begun, Inside, Over, Ranges};
use crate::trace::record::{NvtxRange, Record};
use gpuspy_wire::record::NvtxChange;

/// Whether a range counts: it passes the filter, and it started in the selected time, as in the report.
#[derive(Debug)]
struct Counts(bool);

impl Inside for Counts {
    fn absorb(&mut self, _: &Counts) {}
}

/// What a range is: how it began, its text, its domain, its category, its color, and whether it never ended.
type Kind = (u8, u32, u32, u32, u32, bool);

/// The table.
#[derive(Debug)]
pub(super) struct Nvtx {
    open: Ranges<Counts>,
    kinds: Entries<Kind>,
    threads: Entries<u32>,
}

impl Default for Nvtx {
    fn default() -> Self {
        Nvtx { open: Ranges::new(0), kinds: Entries::default(), threads: Entries::default() }
    }
}

impl Nvtx {
    /// Takes a change of a range, or a marker.
    pub fn add(
        &mut self,
        of: &Context<'_>,
        rows: &mut Rows<'_>,
        (record, range): (&Record, &NvtxRange),
        scope: &Scope<'_>,
    ) {
        let (thread, at) = (record.thread, record.at);
        let over = match range.change {
            NvtxChange::Push | NvtxChange::Start => {
                let inside = Counts(scope.call());
                self.open.begin(Begun { thread, at, range: range.clone(), inside });
                return;
            }
            NvtxChange::Mark if scope.call() => {
                return self.row(of, rows, (thread, range), (at, None), false);
            }
            NvtxChange::Mark => return,
            NvtxChange::Pop => self.open.pop(thread, range.domain, at),
            NvtxChange::End => self.open.end(range.id, at),
        };
        if let Ok(Some(over)) = over {
            self.over(of, rows, &over, false);
        }
    }

    /// Adds the ranges that never ended; they last until `ended`.
    pub fn finish(&mut self, of: &Context<'_>, rows: &mut Rows<'_>, ended: u64) {
        let (_, open) = std::mem::replace(&mut self.open, Ranges::new(0)).finish(ended);
        open.iter().for_each(|over| self.over(of, rows, over, true));
    }

    fn over(&mut self, of: &Context<'_>, rows: &mut Rows<'_>, over: &Over<Counts>, is_open: bool) {
        let Over { begun: Begun { thread, at, range, inside }, end } = over;
        if inside.0 {
            self.row(of, rows, (*thread, range), (*at, Some(*end)), is_open);
        }
    }

    fn row(
        &mut self,
        of: &Context<'_>,
        rows: &mut Rows<'_>,
        (thread, range): (u32, &NvtxRange),
        (at, end): (u64, Option<u64>),
        is_open: bool,
    ) {
        let table = Table::Nvtx;
        // Nsight Systems' numbers of NVTX events.
        let number = match range.change {
            NvtxChange::Push | NvtxChange::Pop => 59,
            NvtxChange::Start | NvtxChange::End => 60,
            NvtxChange::Mark => 34,
        };
        let key = (number, range.text, range.domain, range.category, range.color, is_open);
        let kind = rows.entry((table, 0), &mut self.kinds, key, || {
            let RangeName { domain, text } = RangeName::of(range, of.names);
            let some = |number: u32| Cell::number((number != 0).then_some(number));
            vec![
                Cell::Number(number.into()),
                Cell::text(Some(text)),
                Cell::text(domain),
                some(range.category),
                some(range.color),
                is_open.into(),
            ]
        });
        let who = rows.entry((table, 1), &mut self.threads, thread, || of.thread(thread));
        let id = (range.id != 0).then(|| fitted(range.id));
        rows.add(table, &[Some(fitted(at)), end.map(fitted), id], &[kind, who]);
    }
}
