"""Prints the result for people."""


def table(head, rows, texts=1):
    """Formats columns as wide as needed; the first `texts` columns are aligned left, the others right."""
    cells = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    place = lambda at, cell: cell.ljust(widths[at]) if at < texts else cell.rjust(widths[at])  # noqa: E731
    return ["  ".join(place(at, cell) for at, cell in enumerate(row)).rstrip() for row in cells]


def ns(value):
    """Formats a duration with its unit, in three digits."""
    for unit, factor in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.0f} ns"


def share(value):
    return f"{100 * value:.1f} %"


def header(result):
    facts, gpuspy = result["machine"], result["gpuspy"]
    gpus = [f"{gpu['name']}, driver {gpu['driver_version']}" for gpu in facts["gpus"]] or [facts["gpu"] or "unknown GPU"]
    versions = {}
    for program in result["programs"]:
        versions.update(program["versions"])
    lines = [
        f"gpu-check  {result['date']}, {result.get('seconds', 0):.0f} s of {result['budget_s']:.0f} s",
        f"           {'; '.join(gpus)}",
        f"           {facts['cpu']}, {facts['cores']} cores, Linux {facts['kernel']}, Python {facts['python']}",
        f"           {gpuspy['version']}, commit {gpuspy['commit'] or 'unknown'}",
        f"           {', '.join(f'{name} {version}' for name, version in sorted(versions.items()))}",
    ]
    return [line for line in lines if line.strip()]


def counts(programs):
    rows, differences = [], []
    for program in programs:
        for row in program["counts"]:
            ours, theirs = row["ours"], row["theirs"]
            in_graphs = "-" if theirs["in_graphs"] is None else theirs["in_graphs"]
            untimed = ", ".join(f"{reason} {count}" for reason, count in row["untimed"].items()) or "-"
            equal = "yes" if row["equal"] else "NO"
            who = (program["name"], row["mode"], row["against"])
            numbers = (ours["launches"], theirs["launches"], ours["in_graphs"], in_graphs, equal, row["dropped"])
            rows.append((*who, *numbers, untimed))
            for difference in row["differences"]:
                words = f"ours {difference['ours']}, theirs {difference['theirs']}: {difference['name']}"
                differences.append(f"  {program['name']}, {row['mode']}: {words}")
    who, numbers = ("program", "mode", "against"), ("launches", "theirs", "in graphs", "theirs", "equal", "dropped")
    head = (*who, *numbers, "untimed, whole run")
    return [*table(head, rows, texts=3), *differences] if rows else []


def durations(programs):
    rows = []
    for program in programs:
        for row in program["durations"]:
            shares = [share(row[key]) if key in row else "-" for key in ("inside", "below", "above")]
            errors = [ns(row[key]) for key in ("median_ns", "p5_ns", "p95_ns", "abs_median_ns")]
            rows.append((program["name"], row["against"], row["pairs"], row["unpaired"], *errors, *shares))
    head = ("program", "against", "pairs", "unpaired", "median", "p5", "p95", "|median|", "inside", "below", "above")
    return table(head, rows, texts=2) if rows else []


def starts(programs):
    rows = []
    for program in programs:
        for row in program["starts"]:
            errors = [ns(row[key]) for key in ("median_ns", "p5_ns", "p95_ns")]
            inside = share(row["inside"]) if "inside" in row else "-"
            known_to = "-" if row["uncertainty_ns"] is None else ns(row["uncertainty_ns"])
            rows.append((program["name"], row["clock"], row["pairs"], *errors, inside, known_to))
    head = ("program", "clock", "pairs", "median", "p5", "p95", "inside", "clock known to +/-")
    return table(head, rows, texts=2) if rows else []


def slowdown(programs):
    modes = ("off", "auto", "exact", "profiler")
    rows = []
    for program in programs:
        steps = [run["step_ns"] for run in program["runs"] if run["mode"] == "plain" and "step_ns" in run]
        if not steps:
            continue
        cells = []
        for mode in modes:
            found = program["slowdown"].get(mode)
            own = program["own_cost"].get(mode, {}).get("cost_percent")
            own_words = "" if own is None else f" reports {own:.1f} %"
            cells.append(f"{found['median']:.3f} [{found['q1']:.3f}, {found['q3']:.3f}]{own_words}" if found else "-")
        rows.append((program["name"], len(steps), ns(sorted(steps)[len(steps) // 2]), *cells))
    return table(("program", "rounds", "step", "off", "auto", "exact", "torch.profiler"), rows) if rows else []


def expected(programs):
    return [
        f"{'yes' if row['met'] else 'NO'}: {program['name']}, {row['mode']}: {row['what']} {row['found']}, required {row['least']}"
        for program in programs
        for row in program["expected"]
    ]


def failures(programs):
    lines = []
    for program in programs:
        for run in program["runs"]:
            if "error" in run:
                lines.append(f"{program['name']}, {run['mode']}, round {run['round']}: {run['error']}")
        lines.extend(f"{program['name']}: {error}" for error in program["errors"])
    return lines


def no_time(programs):
    hurried = (program for program in programs if program["no_time_for"])
    return [f"{program['name']}, {', '.join(program['no_time_for'])}: no time left" for program in hurried]


def page(result):
    programs = result["programs"]
    sections = (
        ("Kernel launches in the measured part: are they equal?", counts(programs)),
        ("Are the required minimums reached?", expected(programs)),
        ("Durations: gpuspy's minus the other's. CUPTI measures execution, gpuspy GPU intervals", durations(programs)),
        ("Starts: gpuspy's minus CUPTI's, for the same launches", starts(programs)),
        (
            "Time of a step as a multiple of that without tracing: median [quartiles], and the cost by the report's own account",
            slowdown(programs),
        ),
        ("Failed", failures(programs)),
        ("Skipped", [f"{skipped['what']}: {skipped['why']}" for skipped in result["skipped"]] + no_time(programs)),
    )
    lines = header(result)
    for title, body in sections:
        if body:
            lines += ["", title, *(f"  {line}" for line in body)]
    return "\n".join(line.rstrip() for line in lines) + "\n"
