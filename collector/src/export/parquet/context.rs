//! What the rows of all tables need to know of their process.

use super::layout::{Cell, fitted};
use crate::analyze::calls::api_name;
use crate::hash::HashMap;
use crate::model::clocks::Clocks;
use crate::model::facts::Facts;
use crate::model::filter::Filter;
use crate::model::modules::Modules;
use crate::model::names::demangle;
use crate::model::period::Period;
use crate::model::short_names::function;
use crate::model::stacks::{Frame, Stacks};
use crate::trace::record::{Body, Call, Names, Record, Status};
use gpuspy_wire::record::Namespace;
use std::sync::Arc;

/// What a process is, as Nsight Systems writes it: the pid above these bits, and a thread's id in them.
const PID_SHIFT: u32 = 24;

/// A call's place in the program: its API, its return address, its line and its stack.
pub(super) type Site = (u16, u64, u32, u32);

/// A process whose trace is read.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub names: &'a Names,
    pub status: Option<&'a Status>,
    /// What the process is called in its job.
    pub process: Cell,
    pub filter: &'a Filter,
    pub period: Period,
    /// The devices of contexts.
    pub devices: &'a HashMap<u32, u32>,
    pub stacks: Stacks,
    pub facts: Facts,
    modules: &'a Modules,
    kernels: HashMap<u32, [Cell; 3]>,
    /// By thread: the start of its last call, and the correlation of that call's first record.
    calls: HashMap<u32, (u64, u64)>,
}

impl<'a> Context<'a> {
    pub fn new(
        names: &'a Names,
        status: Option<&'a Status>,
        clocks: &'a Clocks,
        filter: &'a Filter,
        process: &str,
    ) -> Context<'a> {
        Context {
            names,
            status,
            process: Cell::text(Some(process)),
            filter,
            devices: &clocks.devices,
            period: Period::default(),
            stacks: Stacks::of(names),
            facts: Facts::new(names),
            modules: clocks.callers.modules(),
            kernels: HashMap::default(),
            calls: HashMap::default(),
        }
    }

    /// Takes what a record says about the process.
    pub fn observe(&mut self, record: &Record) {
        if let Body::KernelFacts(facts) = &record.body {
            self.facts.add(facts);
        }
    }

    /// The process's id.
    pub fn pid(&self) -> Cell {
        Cell::number(self.status.map(|status| status.pid))
    }

    /// The process as Nsight Systems numbers it.
    pub fn global_pid(&self) -> Cell {
        self.status.map_or(Cell::Null, |status| Cell::Number(i64::from(status.pid) << PID_SHIFT))
    }

    /// A thread's id in the system.
    pub fn tid(&self, thread: u32) -> Cell {
        Cell::number(self.tid_of(thread))
    }

    fn tid_of(&self, thread: u32) -> Option<u32> {
        self.status?.threads.get(&thread).copied()
    }

    /// What all tables say of the process: what it is called, and its id.
    pub fn whose(&self) -> [Cell; 2] {
        [self.process.clone(), self.pid()]
    }

    /// A thread as Nsight Systems numbers it, its process, and its own id.
    pub fn thread(&self, thread: u32) -> Vec<Cell> {
        let within = self.tid_of(thread).map_or(0, |tid| i64::from(tid & ((1 << PID_SHIFT) - 1)));
        let global = match self.global_pid() {
            Cell::Number(pid) => Cell::Number(pid | within),
            other => other,
        };
        let [process, pid] = self.whose();
        vec![global, process, pid, self.tid(thread)]
    }

    /// The name that identifies a call's place in the program.
    pub fn site(&self, call: &Call) -> Site {
        (call.api, call.caller, self.stacks.line_of(call), call.stack)
    }

    /// The API of a call, its line, its stack and its library.
    pub fn called(&self, (api, caller, line, stack): Site) -> Vec<Cell> {
        let name = if api == 0 { Cell::Null } else { Cell::text(Some(api_name(self.names, api))) };
        vec![name, self.line(line), Cell::number((stack != 0).then_some(stack)), self.library(caller)]
    }

    /// A line of the program, by its number.
    pub fn line(&self, line: u32) -> Cell {
        Cell::text(self.stacks.line(line).map(Frame::place))
    }

    fn library(&self, caller: u64) -> Cell {
        Cell::text(self.modules.resolve(caller, self.names).map(|site| site.path))
    }

    /// The names of a kernel: demangled, short, and as the program's binary has it.
    pub fn kernel(&mut self, kernel: u32) -> [Cell; 3] {
        let names = self.names;
        let known = self.kernels.entry(kernel).or_insert_with(|| {
            let symbol = names.get(Namespace::Kernel, kernel);
            let demangled = symbol.map(demangle);
            let short = demangled.as_deref().map(|name| Cell::Text(Arc::from(function(name))));
            [Cell::text(demangled.as_deref()), short.unwrap_or_default(), Cell::text(symbol)]
        });
        known.clone()
    }

    /// The correlation that all records of a call share: that of its first. An operation that is not a call of the
    /// program's (a burst) has its own.
    pub fn correlation(&mut self, thread: u32, call: &Call) -> i64 {
        if call.api == 0 {
            return fitted(call.correlation);
        }
        let known = self.calls.entry(thread).or_insert((call.begin, call.correlation));
        if known.0 != call.begin {
            *known = (call.begin, call.correlation);
        }
        fitted(known.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::survey::Survey;
    use crate::trace::record::{Api, Module};

    #[test]
    fn a_call_whose_library_is_sent_after_it_has_that_library() {
        let call = Call { api: 1, begin: 10, end: 20, caller: 0x1500, ..Call::default() };
        let api = Body::Api(Api { call, result: 0, subject: 0, calls: 1, inside: 0, entered: 0 });
        let module = Body::Module(Module { start: 0x1000, end: 0x2000, path: 3, ..Module::default() });
        let records = [api, module].map(|body| Record { thread: 1, at: 20, body });
        let names = Names([((Namespace::Path, 3), "/lib/libx.so".to_owned())].into());
        let (clocks, filter) = (Survey::of(records.clone()), Filter::default());
        let mut of = Context::new(&names, None, &clocks, &filter, "");
        of.observe(&records[0]);
        let called = of.called(of.site(records[0].body.call().unwrap()));
        assert_eq!(called.last(), Some(&Cell::text(Some("/lib/libx.so"))));
    }
}
