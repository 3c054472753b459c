//! Functions of Python, as torch.profiler would have recorded them with `with_stack=True`.

use super::*;

/// The launches of [`operators`], of which those of the main thread have stacks.
fn with_stacks() -> Given {
    let (status, mut names, mut records) = operators();
    let texts = [
        (Namespace::Thread, 2, "pt_autograd_0"),
        (
            Namespace::Frame,
            1,
            "Linear.forward\n/x/lib/python3.11/site-packages/torch/nn/modules/linear.py\n125\n\n124",
        ),
        (Namespace::Frame, 2, "train.<locals>.step\n/home/u/train.py\n12\n\n10"),
        (Namespace::Frame, 3, "train.<locals>.step\n/home/u/train.py\n14\n\n10"),
        (Namespace::Frame, 4, "<module>\n/home/u/train.py\n30\n\n1"),
        (Namespace::Frame, 5, "launch\n/x/kernel.cu\n3\n/x/libkernel.so"),
        (Namespace::Stack, 7, "1 2 4"),
        (Namespace::Stack, 8, "5 3 4"),
        (Namespace::Stack, 9, "3 …"),
    ];
    names.0.extend(texts.map(|(space, id, text)| ((space, id), text.to_owned())));
    let stacks = [7, 7, 8, 9];
    // Between a call and the next range there is time.
    records.iter_mut().filter(|record| record.at == 15_000).for_each(|record| {
        if matches!(record.body, Body::NvtxRange(_)) {
            record.at = 15_100;
        }
    });
    let calls = records.iter_mut().filter_map(|record| record.body.call_mut());
    calls.zip(stacks).for_each(|(call, stack)| call.stack = stack);
    (status, names, records)
}

fn functions(trace: &Value) -> Vec<(&str, &Value, (i64, i64))> {
    let mut found: Vec<_> = of_category(trace, "python_function")
        .into_iter()
        .map(|event| (event["name"].as_str().unwrap(), event, span(event)))
        .collect();
    found.sort_by_key(|(_, _, span)| *span);
    found
}

#[test]
fn functions_are_named_as_torch_profiler_names_them_and_lie_around_what_they_call() {
    let trace = exported(&[with_stacks()]);
    let found = functions(&trace);
    let named: Vec<&str> = found.iter().map(|(name, ..)| *name).collect();
    assert_eq!(
        named,
        ["train.py(1): <module>", "train.py(10): step", "torch/nn/modules/linear.py(124): forward"]
    );
    assert!(found.iter().all(|(_, event, _)| event["tid"] == 77), "autograd's thread has none: {found:?}");
    let ids: BTreeSet<u64> =
        found.iter().map(|(_, event, _)| event["args"]["Python id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), found.len());
    let args = &found[1].1["args"];
    assert_eq!(
        (&args["function"], &args["file"]),
        (&json!("train.<locals>.step"), &json!("/home/u/train.py"))
    );

    // All three lie around aten::linear, which forward() called; the last launch was made by step() in a range.
    let linear =
        of_category(&trace, "cpu_op").into_iter().find(|event| event["name"] == "aten::linear").unwrap();
    let around = |inner: (i64, i64), outer: (i64, i64)| outer.0 < inner.0 && inner.1 < outer.1;
    assert!(found.iter().all(|(_, _, function)| around(span(linear), *function)), "{found:?}");
    let last = of_category(&trace, "cuda_driver").into_iter().map(span).max().unwrap();
    assert!(around(last, found[1].2) && !around(last, found[2].2), "{found:?}");
}

#[test]
fn without_functions_all_else_is_the_same() {
    let given = with_stacks();
    let export = |with: bool| {
        let mut sources = [source(&given)];
        lay_out(&mut sources.iter_mut().collect::<Vec<_>>(), &Filter::default());
        let mut export = Export::begin(Chrome::new(Vec::new()), &sources).unwrap();
        if !with {
            export = export.without_functions();
        }
        export.process(0, &sources[0], given.2.iter().cloned()).unwrap();
        let trace: Value = serde_json::from_slice(&export.finish().unwrap().0).unwrap();
        events(&trace)
            .iter()
            .filter(|event| event["cat"] != "python_function")
            .cloned()
            .collect::<Vec<Value>>()
    };
    for (with, without) in export(true).iter().zip(&export(false)) {
        assert_eq!(with, without);
    }
}
