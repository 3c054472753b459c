"""The comparisons. Pure: they take what was read and return rows of the result."""
import math
import statistics
from collections import Counter, defaultdict

# So far ahead a launch is looked for that only one side has.
LOOK_AHEAD = 64
MOST_DIFFERENCES = 20
# Of a report's account of its own cost, what is kept.
COSTS = ("agent_ns", "poller_ns", "hooks_percent", "poller_percent", "events_percent", "cost_percent", "wall_ns", "calls")


def slack(duration):
    """ns by which a duration may differ on two good clocks: their rates (50 ppm), and roundings."""
    return 2 + duration / 20_000


def quantile(ordered, share):
    """Nearest rank, of a sorted list."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(errors):
    """Of signed errors: median, 5 % and 95 %, and the same of their size."""
    ordered, sizes = sorted(errors), sorted(abs(error) for error in errors)
    return {
        "median_ns": round(statistics.median(ordered)),
        "p5_ns": quantile(ordered, 0.05),
        "p95_ns": quantile(ordered, 0.95),
        "abs_median_ns": round(statistics.median(sizes)),
        "abs_p95_ns": quantile(sizes, 0.95),
    }


def counts(ours, ours_in_graphs, theirs, theirs_in_graphs=None):
    """Are launches equal, in number and by name? Each side is a Counter by name, or a plain number where names are not
    known; kernels in graphs are a number, None where they are not known."""
    total = lambda side: sum(side.values()) if isinstance(side, Counter) else side  # noqa: E731
    row = {
        "ours": {"launches": total(ours), "in_graphs": ours_in_graphs},
        "theirs": {"launches": total(theirs), "in_graphs": theirs_in_graphs},
    }
    differences = []
    if isinstance(ours, Counter) and isinstance(theirs, Counter):
        names = sorted(name for name in ours | theirs if ours[name] != theirs[name])
        differences = [{"name": name, "ours": ours[name], "theirs": theirs[name]} for name in names]
    same_in_graphs = theirs_in_graphs is None or theirs_in_graphs == ours_in_graphs
    row["equal"] = total(ours) == total(theirs) and not differences and same_in_graphs
    row["differences"] = differences[:MOST_DIFFERENCES]
    return row


def match_streams(ours, theirs):
    """Pairs streams of both sides: whoever numbers them, the same launches in the same order are the same stream. Each
    side is a dict from stream to names."""
    left, pairs = dict(ours), []
    for stream, names in sorted(theirs.items(), key=lambda item: -len(item[1])):
        if not left:
            break
        likeness = lambda mine: (  # noqa: E731
            sum(map(str.__eq__, left[mine], names)),
            -abs(len(left[mine]) - len(names)),
        )
        best = max(left, key=likeness)
        if likeness(best)[0] > 0:
            pairs.append((best, stream))
            del left[best]
    return pairs


def align(ours, theirs):
    """Pairs of places in two lists of names that are the same but for some that only one side has."""
    pairs, i, j = [], 0, 0
    while i < len(ours) and j < len(theirs):
        if ours[i] == theirs[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
            continue
        for ahead in range(1, LOOK_AHEAD):
            if i + ahead < len(ours) and ours[i + ahead] == theirs[j]:
                i += ahead
                break
            if j + ahead < len(theirs) and ours[i] == theirs[j + ahead]:
                j += ahead
                break
        else:
            i, j = i + 1, j + 1
    return pairs


def pair(ours, theirs):
    """The same launches on both sides, by their order on each stream: pairs of a line and a Ran, and how many are in
    none."""
    our_streams, their_streams = defaultdict(list), defaultdict(list)
    for line in ours:
        our_streams[line["context"], line["stream"]].append(line)
    for ran in theirs:
        their_streams[ran.stream].append(ran)
    our_names = {stream: [line["normal"] for line in lines] for stream, lines in our_streams.items()}
    their_names = {stream: [ran.name for ran in rans] for stream, rans in their_streams.items()}
    pairs = []
    for mine, yours in match_streams(our_names, their_names):
        places = align(our_names[mine], their_names[yours])
        pairs.extend((our_streams[mine][i], their_streams[yours][j]) for i, j in places)
    return pairs, len(ours) + len(theirs) - 2 * len(pairs)


def durations(pairs, unpaired):
    """Our durations against CUPTI's, launch by launch; None when nothing is timed."""
    timed = [(line["duration_ns"], ran.duration) for line, ran in pairs if line["duration_ns"]]
    if not timed:
        return None
    below = sum(theirs < ours["lo"] - slack(theirs) for ours, theirs in timed)
    above = sum(theirs > ours["hi"] + slack(theirs) for ours, theirs in timed)
    return {
        "pairs": len(timed),
        "unpaired": unpaired,
        **spread([ours["value"] - theirs for ours, theirs in timed]),
        "inside": round(1 - (below + above) / len(timed), 4),
        "below": round(below / len(timed), 4),
        "above": round(above / len(timed), 4),
    }


def medians_apart(ours, theirs):
    """Medians by kernel of different runs; both are dicts from name to median. None when no name is common."""
    common = sorted(set(ours) & set(theirs))
    if not common:
        return None
    unpaired = len(set(ours) ^ set(theirs))
    return {"pairs": len(common), "unpaired": unpaired, **spread([round(ours[n] - theirs[n]) for n in common])}


def medians(named):
    """Medians by name, of pairs (name, ns)."""
    by_name = defaultdict(list)
    for name, ns in named:
        by_name[name].append(ns)
    return {name: statistics.median(values) for name, values in by_name.items()}


def starts(pairs):
    """Our begins against CUPTI's, a row for each clock that ours are on."""
    by_clock = defaultdict(list)
    for line, ran in pairs:
        if line["start_ns"]:
            by_clock[line["clock"]].append((line["start_ns"], ran.start))
    rows = []
    for clock, both in sorted(by_clock.items()):
        errors = [ours["value"] - theirs for ours, theirs in both]
        on_host = clock == "host"
        # Of a GPU's own clock nobody tells the offset: what is left to see is how much it wanders.
        offset = 0 if on_host else round(statistics.median(errors))
        row = {"clock": clock, "pairs": len(both), **spread([error - offset for error in errors])}
        if on_host:
            inside = sum(ours["lo"] <= theirs <= ours["hi"] for ours, theirs in both)
            row["inside"] = round(inside / len(both), 4)
        rows.append(row)
    return rows


def own_cost(report):
    """What a report says that watching cost, and how much it timed: to be held against the measured slowdown."""
    coverage, timing = report["coverage"], report["coverage"]["timing"]
    return {
        **{key: report["overhead"][key] for key in COSTS},
        "gpu_slowdown": timing["gpu_slowdown"],
        "launches": coverage["launches"],
        "timed": coverage["timed"],
        "in_runs": coverage["runs"]["launches"],
        "in_bursts": coverage["bursts"]["launches"],
        "extrapolated_from_windows": timing["windows"],
    }


def shares(report):
    """The shares that a program may expect something of: what was timed of all launches, alone or with others, and how much of
    the time from the first operation to the last the GPU was busy."""
    coverage, device = report["coverage"], (report["devices"] or [None])[0]
    timed = coverage["timed"] + coverage["runs"]["launches"] + coverage["bursts"]["launches"]
    return {
        "timed_share": timed / coverage["launches"] if coverage["launches"] else 0.0,
        "busy_share": device["compute_ns"]["value"] / device["span_ns"] if device and device["span_ns"] else 0.0,
    }


def expected(mode, least, report):
    """A row for each thing that the report of a run must say at least."""
    found = shares(report) if least else {}
    return [
        {"mode": mode, "what": what, "least": share, "found": round(found[what], 4), "met": found[what] >= share}
        for what, share in least.items()
    ]


def same(said):
    """A row for each number of a program that must be the same in every mode as in the plain one; `said` by mode. Of what a mode
    does beside gpuspy nothing is asked."""
    plain = said.get("plain", {}).get("same", {})
    return [
        {"mode": mode, "what": what, "least": number, "found": words["same"].get(what), "met": words["same"].get(what) == number}
        for mode, words in said.items()
        for what, number in plain.items()
        if mode != "plain"
    ]


def slowdown(runs):
    """By mode: ratios of step times to the plain one's of the same round."""
    by_round = defaultdict(dict)
    for run in runs:
        if run.get("step_ns"):
            by_round[run["round"]][run["mode"]] = run["step_ns"]
    ratios = defaultdict(list)
    for times in by_round.values():
        for mode, step in times.items():
            if mode != "plain" and "plain" in times:
                ratios[mode].append(step / times["plain"])
    found = {}
    for mode, values in ratios.items():
        q1, _, q3 = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        middle = statistics.median(values)
        found[mode] = {"rounds": len(values), "median": round(middle, 4), "q1": round(q1, 4), "q3": round(q3, 4)}
    return found
