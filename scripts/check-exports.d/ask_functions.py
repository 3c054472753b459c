"""ask_functions.py EXPORT SAID [TRACELENS]: has Holistic Trace Analysis, and TraceLens if its folder is given, read the export of
python_calls.py and say which functions of Python each call lies in, and compares that with what the program says that Python said
at the call (its output, SAID)."""

import contextlib
import io
import json
import logging
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

from hta.common.trace import Trace  # noqa: E402
from hta.common.trace_call_graph import CallGraph  # noqa: E402

# Of a deeper stack the trace has the innermost functions; what was open before may stand for the others.
MOST_FRAMES = 126


def functions_of_hta(export):
    """Returns for each correlation of a call the functions around it, the innermost first."""
    trace = Trace(trace_files={0: export}, trace_dir="")
    trace.parse_traces(use_multiprocessing=False)
    trace.decode_symbol_ids(use_shorten_name=False)
    events = trace.get_trace(0)
    graph = CallGraph(trace)
    found = {}
    for index in events.index[events["s_cat"] == "cuda_runtime"]:
        path = graph.get_csg_of_node(index, 0).get_path_to_root(index)
        around = [events.loc[i] for i in path if i in events.index and i != index]
        names = [event["s_name"] for event in around if event["s_cat"] == "python_function"]
        found[int(events.loc[index]["correlation"])] = names
    return found


def functions_of_tracelens(export):
    """The same from TraceLens."""
    with contextlib.redirect_stdout(io.StringIO()):
        from TraceLens import TreePerfAnalyzer

        tree = TreePerfAnalyzer.from_file(export, add_python_func=True).tree
    found = {}
    for event in tree.events:
        if event.get("cat") == "cuda_runtime":
            names, around = [], tree.get_parent_event(event)
            while around is not None:
                if around["cat"] == "python_function":
                    names.append(around["name"])
                around = tree.get_parent_event(around)
            found[event["args"]["correlation"]] = names
    return found


def check(tool, found, sizes, said):
    """Compares the functions that a tool finds around each memset with those that the program had."""
    for correlation, size in sizes.items():
        expected = said[size][:MOST_FRAMES]
        names = found[correlation] if len(said[size]) <= MOST_FRAMES else found[correlation][:MOST_FRAMES]
        if names != expected:
            sys.exit(f"{tool}: the memset of {size} bytes lies in {names}, and was called by {expected}")
    print(f"{tool} agrees: the functions of Python around {len(sizes)} calls")


def main(export, said, *tracelens):
    with open(said) as lines:
        said = {call["bytes"]: call["functions"] for call in map(json.loads, lines)}
    with open(export) as file:
        events = json.load(file)["traceEvents"]
    sets = (event["args"] for event in events if event.get("cat") == "gpu_memset")
    sizes = {args["correlation"]: args["bytes"] for args in sets}
    if len(sizes) < len(said) / 2:
        sys.exit(f"{len(sizes)} of {len(said)} memsets are in the export")
    check("HTA", functions_of_hta(export), sizes, said)
    for folder in tracelens:
        sys.path.insert(0, folder)
        check("TraceLens", functions_of_tracelens(export), sizes, said)


if __name__ == "__main__":
    main(*sys.argv[1:])
