"""The comparisons. They are pure functions from what was read to rows of the result."""
import math
import statistics
from collections import Counter, defaultdict

# How far ahead a launch is searched for that only one side has.
LOOK_AHEAD = 64
MOST_DIFFERENCES = 20
# The parts of a report's account of its own cost that are kept.
COSTS = ("agent_ns", "poller_ns", "hooks_percent", "poller_percent", "events_percent", "cost_percent", "wall_ns", "calls")


def slack(duration):
    """Returns the ns by which a duration may differ on two good clocks, because of their rates (50 ppm) and
    rounding."""
    return 2 + duration / 20_000


def quantile(ordered, share):
    """Returns the quantile of a sorted list, by nearest rank."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(errors):
    """Returns median, 5 % and 95 % quantile of signed errors, and the same of their sizes."""
    ordered, sizes = sorted(errors), sorted(abs(error) for error in errors)
    return {
        "median_ns": round(statistics.median(ordered)),
        "p5_ns": quantile(ordered, 0.05),
        "p95_ns": quantile(ordered, 0.95),
        "abs_median_ns": round(statistics.median(sizes)),
        "abs_p95_ns": quantile(sizes, 0.95),
    }


def counts(ours, ours_in_graphs, theirs, theirs_in_graphs=None):
    """Compares launches by number and by name. Each side is a Counter by name, or a plain number if names are not
    known; kernels in graphs are a number, or None if not known."""
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
    """Pairs the streams of both sides, which number them differently: the same launches in the same order are the same
    stream. Each side is a dict from stream to names."""
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
    """Pairs the positions of two lists of names that are the same except for names that only one side has."""
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
    """Pairs the launches of both sides by their order on each stream. Returns pairs of a line and a Ran, and how many
    have no counterpart."""
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
    """Compares gpuspy's durations with CUPTI's, launch by launch; None if nothing is timed."""
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
    """Compares medians by kernel from different runs; both are dicts from name to median. None if they have no name in
    common."""
    common = sorted(set(ours) & set(theirs))
    if not common:
        return None
    unpaired = len(set(ours) ^ set(theirs))
    return {"pairs": len(common), "unpaired": unpaired, **spread([round(ours[n] - theirs[n]) for n in common])}


def medians(named):
    """Returns medians by name, from pairs (name, ns)."""
    by_name = defaultdict(list)
    for name, ns in named:
        by_name[name].append(ns)
    return {name: statistics.median(values) for name, values in by_name.items()}


def starts(pairs):
    """Compares gpuspy's starts with CUPTI's, with a row for each clock that gpuspy's are on."""
    by_clock = defaultdict(list)
    for line, ran in pairs:
        if line["start_ns"]:
            by_clock[line["clock"]].append((line["start_ns"], ran.start))
    rows = []
    for clock, both in sorted(by_clock.items()):
        errors = [ours["value"] - theirs for ours, theirs in both]
        on_host = clock == "host"
        # The offset of a GPU's own clock is unknown; only how much it wanders can be compared.
        offset = 0 if on_host else round(statistics.median(errors))
        row = {"clock": clock, "pairs": len(both), **spread([error - offset for error in errors])}
        if on_host:
            inside = sum(ours["lo"] <= theirs <= ours["hi"] for ours, theirs in both)
            row["inside"] = round(inside / len(both), 4)
        rows.append(row)
    return rows


def own_cost(report):
    """Returns what a report says about its own cost and how much it timed, for comparison with the measured
    slowdown."""
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
    """Returns the shares for which a program may state a minimum: how many of all launches were timed, alone or with
    others, and how much of the time from the first operation to the last the GPU was busy."""
    coverage, device = report["coverage"], (report["devices"] or [None])[0]
    timed = coverage["timed"] + coverage["runs"]["launches"] + coverage["bursts"]["launches"]
    return {
        "timed_share": timed / coverage["launches"] if coverage["launches"] else 0.0,
        "busy_share": device["compute_ns"]["value"] / device["span_ns"] if device and device["span_ns"] else 0.0,
    }


def expected(mode, least, report):
    """Returns a row for each minimum that the report of a run must reach."""
    found = shares(report) if least else {}
    return [
        {"mode": mode, "what": what, "least": share, "found": round(found[what], 4), "met": found[what] >= share}
        for what, share in least.items()
    ]


def same(said):
    """Returns a row for each number of a program that must be the same in every mode as in the plain one; `said` is by
    mode. Modes without gpuspy are not checked."""
    plain = said.get("plain", {}).get("same", {})
    return [
        {"mode": mode, "what": what, "least": number, "found": words["same"].get(what), "met": words["same"].get(what) == number}
        for mode, words in said.items()
        for what, number in plain.items()
        if mode != "plain"
    ]


def slowdown(runs):
    """Returns, by mode, the ratios of step times to the plain mode's of the same round."""
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
