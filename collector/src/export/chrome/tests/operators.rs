//! Ranges of `torch.autograd.profiler.emit_nvtx`, as torch.profiler would have recorded the operators.

use super::*;

fn named<'t>(trace: &'t Value, category: &str, name: &str) -> &'t Value {
    let found: Vec<&Value> =
        of_category(trace, category).into_iter().filter(|event| event["name"] == name).collect();
    assert_eq!(found.len(), 1, "{category} {name}");
    found[0]
}

#[test]
fn operators_are_cpu_ops_with_name_shapes_sequence_and_a_number_of_their_own() {
    let trace = exported(&[operators()]);
    let operators = of_category(&trace, "cpu_op");
    let ids: BTreeSet<u64> =
        operators.iter().map(|event| event["args"]["External id"].as_u64().unwrap()).collect();
    assert_eq!((operators.len(), ids.len()), (3, 3), "each has a number");

    let linear = named(&trace, "cpu_op", "aten::linear");
    let args = |event: &Value, key: &str| event["args"][key].clone();
    assert_eq!(args(linear, "Input Dims"), json!([[8, 32], [32, 32], []]));
    assert_eq!(
        (args(linear, "Record function id"), args(linear, "Sequence number")),
        (json!(41), Value::Null)
    );
    let addmm = named(&trace, "cpu_op", "aten::addmm");
    assert_eq!((args(addmm, "Sequence number"), args(addmm, "Input op ids")), (json!(7), json!([[40, 0]])));
    let backward = named(&trace, "cpu_op", "autograd::engine::evaluate_function: AddmmBackward0");
    assert_eq!((args(backward, "Sequence number"), &backward["tid"]), (json!(7), &json!(78)));
    assert_eq!(args(backward, "Input Dims"), Value::Null);
    let (outer, inner) = (span(linear), span(addmm));
    assert!(outer.0 < inner.0 && inner.1 < outer.1, "{outer:?} {inner:?}");

    // What the program recorded is no operator, and what PyTorch did not write is as it was.
    let annotated: BTreeSet<&str> = of_category(&trace, "user_annotation")
        .into_iter()
        .map(|event| event["name"].as_str().unwrap())
        .collect();
    assert_eq!(annotated, BTreeSet::from(["ProfilerStep#3", "inside", "aten::mm, seq = x"]));
    let projected = of_category(&trace, "gpu_user_annotation");
    let projected: BTreeSet<&str> = projected.iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(projected, BTreeSet::from(["inside", "aten::mm, seq = x"]), "neither operators nor steps");
    assert_eq!(trace["gpuspy"]["operators"], 3);
}

#[test]
fn calls_and_kernels_have_the_number_of_the_innermost_operator() {
    let trace = exported(&[operators()]);
    let id = |name| named(&trace, "cpu_op", name)["args"]["External id"].clone();
    let expected = [
        id("aten::linear"),
        // Through the range that the program recorded inside.
        id("aten::addmm"),
        id("autograd::engine::evaluate_function: AddmmBackward0"),
        Value::Null,
    ];
    for category in ["cuda_driver", "kernel"] {
        let mut events = of_category(&trace, category);
        events.sort_by_key(|event| event["args"]["correlation"].as_u64());
        let ids: Vec<Value> = events.iter().map(|event| event["args"]["External id"].clone()).collect();
        assert_eq!(ids, expected, "{category}");
    }
}

#[test]
fn two_processes_of_a_file_share_no_number() {
    let (status, names, records) = operators();
    let other = (status.map(|status| Status { pid: 99, ..status }), names.clone(), records.clone());
    let trace = exported(&[operators(), other]);
    let operators = of_category(&trace, "cpu_op");
    let ids: BTreeSet<u64> =
        operators.iter().map(|event| event["args"]["External id"].as_u64().unwrap()).collect();
    assert_eq!((operators.len(), ids.len()), (6, 6));
    let of = |pid: u64, category: &str| -> BTreeSet<u64> {
        let events = of_category(&trace, category).into_iter().filter(|event| event["pid"] == pid);
        events.filter_map(|event| event["args"]["External id"].as_u64()).collect()
    };
    assert_eq!(of(77, "cuda_driver"), of(77, "cpu_op"));
    assert_eq!(of(99, "cuda_driver"), of(99, "cpu_op"));
}
