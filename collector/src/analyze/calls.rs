//! Which API calls were made, and how long did the host spend in them?

use super::Analysis;
use crate::model::{CountedCall, Event};
use crate::trace::record::{Body, Names};
use gpuspy_wire::record::Namespace;
use std::collections::{BTreeMap, HashMap};

/// Calls of one API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// Of those, how many returned an error.
    pub failed: u64,
    /// Host time in them, ns, from entry to return.
    pub host_ns: u64,
}

impl Calls {
    /// Adds others.
    pub fn merge(&mut self, other: &Calls) {
        self.count += other.count;
        self.failed += other.failed;
        self.host_ns = self.host_ns.saturating_add(other.host_ns);
    }

    fn add(&mut self, call: CountedCall) {
        self.merge(&Calls {
            count: call.calls.into(),
            failed: u64::from(call.failed),
            host_ns: call.host_ns,
        });
    }
}

/// Calls by the API's name, see [`base_name`].
pub type ByApi = BTreeMap<String, Calls>;

/// The fold: all calls, and those that wait.
#[derive(Debug)]
pub struct ApiTimes<'a> {
    names: &'a Names,
    all: HashMap<u16, Calls>,
    syncs: HashMap<u16, Calls>,
}

impl<'a> ApiTimes<'a> {
    /// A fold that has seen nothing.
    pub fn new(names: &'a Names) -> Self {
        ApiTimes { names, all: HashMap::new(), syncs: HashMap::new() }
    }

    fn named(&self, calls: &HashMap<u16, Calls>) -> ByApi {
        let mut by_name = ByApi::new();
        for (api, calls) in calls {
            let name = self.names.get(Namespace::Api, u32::from(*api));
            let name = name.map_or_else(|| format!("(api {api})"), |name| base_name(name).to_owned());
            by_name.entry(name).or_default().merge(calls);
        }
        by_name
    }
}

impl Analysis for ApiTimes<'_> {
    /// All calls, and of those the synchronising ones.
    type Table = (ByApi, ByApi);

    fn observe(&mut self, event: &Event<'_>) {
        let Some(call) = event.call else { return };
        self.all.entry(call.api).or_default().add(call);
        if matches!(event.record.body, Body::Synchronize(_)) {
            self.syncs.entry(call.api).or_default().add(call);
        }
    }

    fn finish(self) -> Self::Table {
        (self.named(&self.all), self.named(&self.syncs))
    }
}

/// An API's name without the suffixes of its variants: `_v2` and later, `_ptsz`, `_ptds`.
pub fn base_name(name: &str) -> &str {
    let mut name = name;
    loop {
        let Some((base, suffix)) = name.rsplit_once('_') else { return name };
        let is_version =
            suffix.strip_prefix('v').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        if base.is_empty() || !(is_version || suffix == "ptsz" || suffix == "ptds") {
            return name;
        }
        name = base;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_an_api_are_one() {
        for (name, base) in [
            ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"),
            ("cuCtxCreate_v3", "cuCtxCreate"),
            ("cudaMemcpy_ptds", "cudaMemcpy"),
            ("__cudaLaunchKernel_ptsz", "__cudaLaunchKernel"),
            ("cudaLaunchKernelExC", "cudaLaunchKernelExC"),
            ("__cudaLaunchKernel", "__cudaLaunchKernel"),
            ("cuGraph_vx", "cuGraph_vx"),
            ("_v2", "_v2"),
        ] {
            assert_eq!(base_name(name), base);
        }
    }
}
