"""Runs every query of `gpuspy queries` on an export, and compares what it returns.

    check.py GPUSPY TABLES TRACES SPARK

TABLES is an export with one job for each entry of the folder TRACES, which is a trace or a folder of traces; a job NAME.since-TIME
is a part of the entry NAME. On DuckDB, queries that state a table of the report must equal `report --json` of each trace, those from
single operations must add up to it, and stragglers must be those of the report of the whole folder. Each query must be in one of
these comparisons. Kernels of different communicators are not compared. With SPARK = yes, Spark must return the same rows.
"""

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import duckdb

gpuspy, tables, traces, with_spark = sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4] == "yes"
wrong = []


def ask(*words):
    return subprocess.run([gpuspy, *words], capture_output=True, text=True, check=True).stdout


def report(path, *options):
    return json.loads(ask("report", "--json", str(path), *options))


def same(one, other):
    """Whether two values are equal; sums of fractions depend on their order."""
    if isinstance(one, bool) or isinstance(other, bool) or one is None or other is None or isinstance(one, str):
        return one == other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def expect(where, found, expected):
    if len(found) != len(expected):
        wrong.append(f"{where}: {len(found)} rows instead of {len(expected)}")
        return
    for number, (row, truth) in enumerate(zip(found, expected)):
        if not (len(row) == len(truth) and all(map(same, row, truth))):
            wrong.append(f"{where}, row {number}: {row} instead of {truth}")
            return


def at(value, path):
    for key in path.split("."):
        value = None if value is None else value.get(key)
    return value


# Query -> the list of the report that it states, and its columns with their keys there.
ESTIMATE = {"_ns": "value", "_ns_lo": "lo", "_ns_hi": "hi", "_ns_kind": "kind"}
KERNEL = {"name": "name", "symbol": "symbol", "launches": "count", "timed": "timed", "in_graphs": "in_graphs", "line": "line",
          **{f"total{end}": f"total_ns.{key}" for end, key in ESTIMATE.items()},
          **{f"{one}_ns": f"{one}_ns.value" for one in ("avg", "median", "min", "max", "stddev")}}
TRANSFER = {"kind": "kind", "host_memory": "host_memory", "copies": "count", "timed": "timed", "bytes": "bytes", "line": "line",
            **{f"total{end}": f"total_ns.{key}" for end, key in ESTIMATE.items()}}
IDLE = {"cause": "cause", "gaps": "count", "total_ns": "total_ns.value", "total_ns_lo": "total_ns.lo", "total_ns_hi": "total_ns.hi"}
CALL = {"calls": "count", "host_ns": "host_ns", "avg_ns": "avg_ns", "median_ns": "median_ns.value", "max_ns": "max_ns"}
FINDING = {"id": "id", "title": "title", "saves_ns": "saves_ns.value", "saves_ns_lo": "saves_ns.lo", "saves_ns_hi": "saves_ns.hi",
           "evidence_text": "evidence.text", "evidence_count": "evidence.count", "evidence_total_ns": "evidence.total_ns.value",
           "evidence_kernel": "evidence.kernel", "evidence_api": "evidence.api", "evidence_line": "evidence.line", "fix": "fix"}
GPU = {"device": "id", "name": "name", "uuid": "uuid", "span_ns": "span_ns", "streams": "streams", "idle_ns_lo": "idle_ns.lo",
       "idle_ns_hi": "idle_ns.hi",
       **{f"{part}_ns": f"{part}_ns.value" for part in
          ("compute", "graph", "exposed_comm", "exposed_copy", "undecided", "unobserved", "idle")}}
MEMORY = {"peak_bytes": "peak_bytes.value", "peak_bytes_lo": "peak_bytes.lo", "peak_bytes_hi": "peak_bytes.hi",
          **{key: key for key in ("peak_ns", "live_bytes", "allocations", "allocated_bytes", "frees", "out_of_memory")}}
STEPS = {"steps": "count", **{key: key for key in ("source", "launches_per_step", "warm_up", "median_ns", "mean_ns", "std_ns",
                                                   "p95_ns", "p99_ns", "min_ns", "max_ns")}}
LINE = {"place": "place", "file": "file", "line": "line", "function": "function", "library": "library", "gpu_ns": "gpu_ns.value",
        "gpu_ns_lo": "gpu_ns.lo", "gpu_ns_hi": "gpu_ns.hi",
        **{key: key for key in ("launches", "timed", "operations", "idle_ns", "wait_ns", "bytes", "allocated_bytes")}}
BUSY = ("compute_ns", "graph_ns", "exposed_comm_ns", "exposed_copy_ns")
RANK = {key: key for key in ("launches", "timed", "span_ns", "busy_ns", "idle_ns", "exposed_comm_ns", "idle_share", "steps",
                             "step_median_ns", "peak_bytes", "dropped")}
COVERAGE = {key: key for key in ("launches", "timed", "timed_in_runs", "captured", "in_graphs", "unattributed", "never_timed", "dropped")}
DAMAGE = ("records_lost", "times_lost", "chunks_lost", "chunks_refused", "cut", "unfinished")


def rank_of(one):
    """The row of a process beside the others."""
    def total(*parts):
        return sum(row[part]["value"] for row in one["devices"] for part in parts) if one["devices"] else None

    span = sum(row["span_ns"] for row in one["devices"]) if one["devices"] else None
    return {**one["coverage"], "span_ns": span, "busy_ns": total(*BUSY), "idle_ns": total("idle_ns"),
            "exposed_comm_ns": total("exposed_comm_ns"), "idle_share": total("idle_ns") / span if span else None,
            "steps": one["steps"]["count"], "step_median_ns": one["steps"]["median_ns"],
            "peak_bytes": one["memory"]["peak_bytes"]["value"]}


STATED = {
    "kernels": (lambda r: r["kernels"], KERNEL), "transfers": (lambda r: r["transfers"], TRANSFER),
    "idle": (lambda r: r["idle"]["by_cause"], IDLE), "waits": (lambda r: r["syncs"], {"api": "api", "line": "line", **CALL}),
    "calls": (lambda r: r["apis"], {"name": "name", "failed": "failed", "min_ns": "min_ns", **CALL}),
    "findings": (lambda r: r["findings"], FINDING), "gpus": (lambda r: r["devices"], GPU),
    "memory": (lambda r: [r["memory"]], MEMORY), "steps": (lambda r: [r["steps"]], STEPS),
    "ranks": (lambda r: [rank_of(r)], RANK),
    "lines": (lambda r: [{**row, "place": place} for place, row in enumerate(r["lines"])], LINE),
    "coverage": (lambda r: [{**r["processes"][0], **r["coverage"], **r["processes"][0]["damage"]}], {**COVERAGE, **{key: key for key in DAMAGE}}),
}


class Answer:
    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows

    def of(self, keys, columns):
        """The values of columns in the rows that have these values."""
        places = [self.columns.index(column) for column in columns]
        keyed = [(self.columns.index(column), value) for column, value in keys.items()]
        return [[row[at] for at in places] for row in self.rows if all(row[at] == value for at, value in keyed)]


class Answers(dict):
    """What the queries returned, and which were asked for."""

    def __init__(self):
        self.compared = set()

    def __getitem__(self, name):
        self.compared.add(name)
        return super().__getitem__(name)


class Duck:
    def __init__(self):
        self.db = duckdb.connect()
        self.db.execute(ask("queries", "--setup", "duckdb", tables))

    def run(self, sql):
        done = self.db.execute(sql)
        return Answer([column[0] for column in done.description], [list(row) for row in done.fetchall()])


class Spark:
    def __init__(self):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4")
        self.spark = builder.config("spark.log.level", "ERROR").config("spark.driver.memory", "2g").getOrCreate()
        for statement in ask("queries", "--setup", "spark", tables).split(";\n"):
            if statement.strip():
                self.spark.sql(statement)

    def run(self, sql):
        frame = self.spark.sql(sql)
        return Answer(frame.columns, [list(row) for row in frame.collect()])


def states_the_report(answers, keyed, job, one):
    """Compares the queries that state a table of one process's report."""
    process = one["processes"][0]
    keys = {"job": job, "rank": process["rank"], "pid": process["pid"] or 0, "process": keyed[job, process["path"]]}
    for name, (rows, columns) in STATED.items():
        truth = [[at(row, path) for path in columns.values()] for row in rows(one)]
        expect(f"{job}: {name} of pid {keys['pid']}", answers[name].of(keys, columns), truth)
    (missing,) = answers["coverage"].of(keys, ["missing"])
    complete = one["coverage"]["dropped"] == 0 and not any(process["damage"][key] for key in DAMAGE)
    untimed = one["coverage"]["launches"] - one["coverage"]["timed"] - process["timed_in_runs"]
    complete = complete and untimed == 0
    if (missing[0] == "") != complete:
        wrong.append(f"{job}: coverage says {missing[0]!r} of pid {keys['pid']}")
    # Records of a damaged trace are lost there, and were not dropped by the agent.
    dropped = one["coverage"]["dropped"] - one["coverage"]["dropped_by"].get("damaged_trace", 0)
    if (f"{dropped} records dropped" in missing[0]) != (dropped > 0) or missing[0].count("records dropped") != (dropped > 0):
        wrong.append(f"{job}: coverage says {missing[0]!r} of {dropped} dropped records")


def sums(rows, keys, values):
    """Adds the values of rows with the same keys."""
    added = {}
    for row in rows:
        mine = added.setdefault(tuple(row[key] for key in keys), [0] * len(values))
        for place, value in enumerate(values):
            mine[place] += row[value]
    return [[*key, *value] for key, value in sorted(added.items(), key=str)]


def adds_up(duck, answers, job, reports):
    """Compares what single operations add up to with the reports of all processes."""
    def ordered(rows):
        return sorted(rows, key=lambda row: str(tuple(row[:-2])))

    def total(path):
        return sum(at(one, path) or 0 for one in reports)

    kernels = answers["kernels-of-job"].of({"job": job}, ["launches", "timed"])
    expect(f"{job}: launches", [[sum(row[0] for row in kernels)]], [[total("coverage.launches")]])
    transfers = [row for one in reports for row in one["transfers"]]
    expect(f"{job}: transfers", ordered(answers["transfers-of-job"].of({"job": job}, ["kind", "host_memory", "copies", "bytes"])),
           ordered(sums(transfers, ["kind", "host_memory"], ["count", "bytes"])))
    where = f"WHERE t.job = '{job}'"
    calls = duck.run(f"SELECT t.name, CAST(SUM(t.calls) AS BIGINT), CAST(SUM(t.host_ns) AS BIGINT) FROM runtime t {where} GROUP BY t.name")
    expect(f"{job}: calls", ordered(calls.rows), ordered(sums([row for one in reports for row in one["apis"]], ["name"], ["count", "host_ns"])))
    syncs = duck.run(f'SELECT t.name, COUNT(*), CAST(SUM(t."end" - t.start) AS BIGINT) FROM sync t {where} GROUP BY t.name')
    expect(f"{job}: waits", ordered(syncs.rows), ordered(sums([row for one in reports for row in one["syncs"]], ["api"], ["count", "host_ns"])))
    expect(f"{job}: gaps", duck.run(f"SELECT COUNT(*) FROM gap t {where}").rows, [[total("gaps.count")]])
    expect(f"{job}: steps", duck.run(f"SELECT COUNT(*) FROM step t {where}").rows, [[total("steps.count")]])

    def added(query, *columns):
        """The sums of columns over the rows of a query."""
        rows = answers[query].of({"job": job}, columns)
        return [[sum(row[at] or 0 for row in rows) for at in range(len(columns))]]

    # What a graph allocates and frees itself is one row.
    live = duck.run(f"SELECT COUNT(*) FROM alloc t {where} AND t.is_device AND t.change = 'allocated' AND t.kind <> 'graph'")
    expect(f"{job}: allocations", live.rows, [[total("memory.allocations") - total("memory.by_kind.graph.allocations")]])
    expect(f"{job}: memory-by-line", added("memory-by-line", "not_freed"), [[total("memory.live_bytes")]])
    expect(f"{job}: gaps-by-line", added("gaps-by-line", "gaps", "total_ns"), [[total("gaps.count"), total("gaps.total_ns.value")]])
    causes = [{**row, "ns": row["total_ns"]["value"]} for one in reports for row in one["idle"]["by_cause"]]
    expect(f"{job}: idle-of-job", ordered(answers["idle-of-job"].of({"job": job}, ["cause", "gaps", "total_ns"])),
           ordered(sums(causes, ["cause"], ["count", "ns"])))
    domains = [dict(zip(("domain", "count", "ns"), row)) for row in answers["ranges"].of({"job": job}, ["domain", "ranges", "total_ns"])]
    ranges = [row for one in reports for row in one["ranges"]]
    expect(f"{job}: ranges", ordered(sums(domains, ["domain"], ["count", "ns"])), ordered(sums(ranges, ["domain"], ["count", "host_ns"])))
    # A report lists the longest gaps only, each as many as there are at most.
    longest = [[row["duration_ns"]["value"] for row in one["gaps"]["largest"]] for one in reports]
    most = max(map(len, longest), default=0)
    listed = sorted((ns for one in longest for ns in one), reverse=True)[:most]
    expect(f"{job}: gaps", answers["gaps"].of({"job": job}, ["dur"])[:most], [[ns] for ns in listed])
    # The last step of a process has no end. How long the others took is told by the GPU's time in the report.
    ended = sum(max(one["steps"]["count"] - 1, 0) for one in reports)
    expect(f"{job}: slow-steps", answers["slow-steps"].of({"job": job}, []), [[]] * min(ended, 100))
    hosts = added("slowest-hosts", "processes", "launches")
    expect(f"{job}: slowest-hosts", hosts, [[len(reports), total("coverage.launches")]])
    findings = [{**row, "one": 1, "ns": at(row, "saves_ns.value") or 0} for one in reports for row in one["findings"]]
    found = answers["findings-of-job"].of({"job": job}, ["id", "processes", "saves_ns"])
    expect(f"{job}: findings-of-job", ordered([[*row[:2], row[2] or 0] for row in found]), ordered(sums(findings, ["id"], ["one", "ns"])))
    kinds_of_nsight(duck, job)
    views_of_nsight_add_up(duck, job)


def kinds_of_nsight(duck, job):
    """Compares the kinds of memory in the view that is named as in Nsight Systems with those of the table."""
    theirs = duck.run(f"""SELECT s.label, d.label, COUNT(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY c
        LEFT JOIN ENUM_CUDA_MEM_KIND s ON s.id = c.srcKind LEFT JOIN ENUM_CUDA_MEM_KIND d ON d.id = c.dstKind
        WHERE c.job = '{job}' GROUP BY s.label, d.label""")
    ours = duck.run(f"SELECT c.kind, c.host_memory, COUNT(*) FROM memcpy c WHERE c.job = '{job}' AND c.start IS NOT NULL GROUP BY ALL")
    rows = []
    for kind, host, count in ours.rows:
        sides = {"H": host.capitalize(), "D": "Device", "P": "Device"}
        rows.append({"from": sides[kind[0]], "to": sides[kind[-1]], "count": count})
    expect(f"{job}: kinds of memory", sorted(theirs.rows), sums(rows, ["from", "to"], ["count"]))


def last_arrivals(answers, job):
    """Compares who came last to the collectives of each kind with who came last to all of them."""
    keys = ["start_number", "rank", "last_arrivals", "waited_ns"]
    rows = [dict(zip(keys, row)) for row in answers["last-arrivals"].of({"job": job}, keys)]
    found = [row for row in answers["stragglers"].of({"job": job}, keys) if row[2]]
    expect(f"{job}: last-arrivals", sums(rows, keys[:2], keys[2:]), sorted(found, key=lambda row: str(tuple(row[:2]))))


def figures(reports):
    """What `changed` says of a job."""
    def whole(path):
        return [value for one in reports if (value := at(one, path)) is not None]

    of = {"processes": len(reports), "longest wall_ns": max(one["processes"][0]["wall_ns"] for one in reports),
          "launches": sum(whole("coverage.launches")), "timed": sum(whole("coverage.timed")),
          "timed_in_runs": sum(whole("coverage.runs.launches")), "steps": sum(whole("steps.count"))}
    medians = whole("steps.median_ns")
    of["step median_ns, mean of the processes"] = sum(medians) / len(medians) if medians else None
    of["largest peak_bytes"] = max(whole("memory.peak_bytes.value"))
    devices = [row for one in reports for row in one["devices"]]
    for part in ("compute_ns", "graph_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns", "undecided_ns", "unobserved_ns"):
        if devices:
            value, most = (sum(row[part][key] for row in devices) for key in ("value", "hi"))
            is_known = value > 0 or most == 0 or part.startswith("un")
            of[part] = value if is_known else None
    for one in reports:
        parts = [(f"idle_ns: {row['cause']}", row["total_ns"]["value"]) for row in one["idle"]["by_cause"]]
        parts += [(f"bytes: {row['kind']} {row['host_memory']}", row["bytes"]) for row in one["transfers"]]
        for figure, value in parts:
            of[figure] = of.get(figure, 0) + value
    return of


def changed(answers, reports):
    """Compares what changed between two jobs with the reports of both."""
    rows = answers["changed"].rows
    if not rows or rows[0][0] not in reports or rows[0][1] not in reports:
        wrong.append(f"changed: of {rows[:1]} there are no reports to compare it with")
        return
    before, after = (figures(reports[job]) for job in rows[0][:2])
    def of(job, figure):
        # Idle time that is not known may have had a cause that none of the known has.
        is_known = not figure.startswith("idle_ns: ") or not job.get("undecided_ns", 0) + job.get("unobserved_ns", 0)
        return job.get(figure, 0 if is_known else None)

    truth = [[figure, of(before, figure), of(after, figure)] for figure in {**before, **after}]
    expect("changed", sorted((row[2:5] for row in rows), key=str), sorted(truth, key=str))
    launches = answers["changed-kernels"].of({}, ["before_launches", "after_launches"])
    expect("changed-kernels", [[sum(row[at] for row in launches) for at in (0, 1)]], [[before["launches"], after["launches"]]])


def stragglers(answers, job, whole):
    """Compares who is late in the collectives of a job on several machines."""
    columns = ["rank", "collectives", "last_arrivals", "late_ns", "vs_best"]
    found = sorted(answers["stragglers"].of({"job": job}, columns))
    truth = [(row["rank"], row["straggler"]) for row in whole["ranks"] if row["straggler"] and row["straggler"]["collectives"]]
    said = ("collectives", "last_arrivals", "late_ns", "vs_best")
    expect(f"{job}: stragglers", found, sorted([rank, *(of[key] for key in said)] for rank, of in truth))


def view(name):
    """Returns the statement of the setup that defines a view."""
    setup = ask("queries", "--setup", "duckdb", tables)
    return next(part for part in setup.split(";\n") if f" VIEW {name} AS\n" in part)


def communicators(texts):
    """Two pairs of ranks whose collectives have one name are compared only if they end at one pace: then they may be all ranks'."""
    for pace, compared in ((10, 10), (13, 0)):
        db = duckdb.connect()
        db.execute("""CREATE TABLE communication AS
            SELECT 'j' AS job, CAST(r AS VARCHAR) AS process, 'nccl' AS mangledName, true AS collective FROM range(4) t(r)""")
        db.execute("CREATE TABLE started AS SELECT c.job, c.process, CAST(c.process AS BIGINT) AS rank, 1 AS start_number FROM communication c")
        db.execute(f"""CREATE TABLE kernel AS
            SELECT 'j' AS job, 'h' AS host, r AS rank, 0 AS pid, CAST(r AS VARCHAR) AS process, 'nccl' AS mangledName, true AS communication, n AS communicationNumber,
                   n AS communicationPlace, 'host' AS clock, ns + 10000 * r AS start, ns + 60000 AS "end", ns + 59000 AS end_least,
                   ns + 61000 AS end_most, 60000 - 10000 * r AS dur, 59000 - 10000 * r AS dur_least, 61000 - 10000 * r AS dur_most
            FROM (SELECT r, n, n * 100000 * CASE WHEN r < 2 THEN 10 ELSE {pace} END AS ns FROM range(4) t(r), range(10) u(n))""")
        db.execute(view("arrival"))
        ranks = [row[6:8] for row in sorted(db.execute(texts["stragglers"]).fetchall(), key=lambda row: row[2])]
        expect(f"stragglers at the pace {pace}", ranks, [(compared, 0)] * 3 + [(compared, compared)] if compared else [])
        last = [row[3:8:4] for row in db.execute(texts["last-arrivals"]).fetchall()]
        expect(f"last-arrivals at the pace {pace}", last, [(3, compared)] if compared else [])


def starts():
    """A job that is started again has each rank again. Lives are (rank, launches, from, to) in ms, and the start that they belong to."""
    once = [((0, 5, 0, 900), 1), ((1, 5, 1000, 1900), 1)]
    again = [((0, 5, 0, 900), 1), ((1, 5, 1, 910), 1), ((0, 5, 905, 1900), 2), ((1, 5, 912, 1905), 2)]
    helped = [((0, 5, 0, 900), 1), ((0, 0, 100, 200), None), ((0, 7, 300, 400), 1), ((0, 7, 401, 500), 1), ((1, 5, 5, 900), 1)]
    grown = [((0, 5, 0, 900), 1), ((1, 5, 5, 950), 1), ((2, 5, 1000, 1900), 2), ((0, 5, 1001, 1900), 2), ((1, 5, 1002, 1900), 2)]
    for lives in (once, again, helped, grown):
        db = duckdb.connect()
        rows = ", ".join(f"('{at}', {rank}, {launches}, {began}, {ended})" for at, ((rank, launches, began, ended), _) in enumerate(lives))
        db.execute(f"""CREATE TABLE process AS SELECT 'j' AS job, 'h' AS host, l.rank, 7 AS pid, l.process, l.launches,
                1800000000000000000 + l.began * 1000000 AS realtimeBegan, 55 AS hostBegan, 55 + (l.ended - l.began) * 1000000 AS hostEnded
            FROM (VALUES {rows}) AS l(process, rank, launches, began, ended)""")
        db.execute("CREATE TABLE report_devices AS SELECT p.job, p.process, 0 AS span_ns FROM process p")
        db.execute(view("started"))
        found = dict(db.execute("SELECT s.process, s.start_number FROM started s").fetchall())
        expect(f"starts of {lives}", [[found.get(str(at)) for at in range(len(lives))]], [[start for _, start in lives]])


JOBS = "(VALUES ('a', 1), ('b', 2)) AS j(job, began)"


def work_without_times_is_not_less_work(texts):
    """Of two runs of the same work, one is not timed: its times are not known, instead of gone."""
    db = duckdb.connect()
    db.execute(f"""CREATE TABLE process AS SELECT j.job, j.began AS realtimeBegan, 100 AS wall_ns, 8 AS launches,
        CASE j.job WHEN 'a' THEN 3 ELSE 0 END AS timed, CASE j.job WHEN 'a' THEN 5 ELSE 0 END AS timed_in_runs FROM {JOBS}""")
    parts = ("compute", "graph", "exposed_comm", "exposed_copy", "idle", "undecided", "unobserved")
    timed = {"compute": (90, 90), "idle": (10, 10)}
    untimed = {"compute": (0, 100), "idle": (0, 100), "undecided": (100, 100)}
    columns = ", ".join(
        f"CASE j.job WHEN 'a' THEN {timed.get(part, (0, 0))[end]} ELSE {untimed.get(part, (0, 0))[end]} END AS {part}_ns{('', '_hi')[end]}"
        for part in parts for end in (0, 1))
    db.execute(f"CREATE TABLE report_devices AS SELECT j.job, {columns} FROM {JOBS}")
    db.execute("CREATE TABLE report_idle_by_cause AS SELECT 'a' AS job, 'sync' AS cause, 10 AS total_ns")
    db.execute(f"CREATE TABLE report_steps AS SELECT j.job, 0 AS count, NULL AS median_ns FROM {JOBS}")
    db.execute("CREATE TABLE report_transfers AS SELECT 'b' AS job, 'HtoD' AS kind, 'pinned' AS host_memory, 64 AS bytes")
    db.execute(f"CREATE TABLE report_memory AS SELECT j.job, 7 AS peak_bytes FROM {JOBS}")
    found = {row[2]: list(row[3:]) for row in db.execute(texts["changed"]).fetchall()}
    for figure, truth in (("compute_ns", [90, None, None]), ("idle_ns", [10, None, None]), ("idle_ns: sync", [10, None, None]),
                          ("undecided_ns", [0, 100, 100]), ("unobserved_ns", [0, 0, 0]), ("graph_ns", [0, 0, 0]),
                          ("timed", [3, 0, -3]), ("timed_in_runs", [5, 0, -5]), ("bytes: HtoD pinned", [0, 64, 64]),
                          ("step median_ns, mean of the processes", [None, None, None])):
        expect(f"changed: {figure}", [found.get(figure, [])], [truth])


def tables_of_one_process(db):
    """A process on one stream: two kernels that were timed alone, a run of four launches, a burst whose kernels were never timed
    alone, a launch without a time, and graphs: one as a whole, one whose kernels were timed, and one without a time."""
    kernels = [  # operation, kernel, its start and end, burst, when it was called, step
        (1, "short", 0, 100, None, 1, 0), (2, "long", 100, 400, None, 2, 0),
        (3, "short", None, None, 1, 3, 1), (4, "long", None, None, 1, 4, 1), (5, "short", None, None, 1, 5, 1), (6, "long", None, None, 1, 6, 2),
        (7, "other", None, None, 2, 7, 3), (8, "other", None, None, 2, 8, 3), (9, "short", None, None, None, 9, 4)]
    numbers = ("registersPerThread", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory",
               "localMemoryPerThread")
    rows = ", ".join("(" + ", ".join("NULL" if value is None else repr(value) for value in row) + ")" for row in kernels)
    whose = "'j' AS job, 'h' AS host, 0 AS rank, 'p' AS process, 7 AS pid, 7 << 24 AS globalPid, 0 AS deviceId, 1 AS contextId, 5 AS streamId"
    db.execute(f"""CREATE TABLE kernel AS SELECT {whose}, k.operation AS operationId, k.operation AS correlationId, k.name AS mangledName,
        k.name AS demangledName, k.name AS shortName, k.began AS start, k.ended AS "end", k.ended - k.began AS dur, k.burst AS burst_id,
        k.called AS callStart, k.step, {", ".join(f"1 AS {number}" for number in numbers)}
        FROM (VALUES {rows}) AS k(operation, name, began, ended, burst, called, step)""")
    db.execute(f"""CREATE TABLE burst AS SELECT {whose}, b.burst AS burst_id, b.began AS start, b.ended AS "end", b.launches
        FROM (VALUES (1, 1000, 1800, 4), (2, 2000, 2101, 2), (3, NULL, NULL, 9)) AS b(burst, began, ended, launches)""")
    db.execute(f"""CREATE TABLE graph AS SELECT {whose}, g.operation AS operationId, g.operation AS correlationId, 3 AS graphId, g.began AS start,
        g.ended AS "end", g.ended - g.began AS dur, g.step
        FROM (VALUES (20, 3000, 3500, 5), (21, 4000, 4500, 5), (22, NULL, NULL, 6)) AS g(operation, began, ended, step)""")
    db.execute(f"""CREATE TABLE graph_node AS SELECT {whose}, 21 AS operationId, n.node AS graphNodeId, n.began AS start, n.ended AS "end",
        'inside' AS mangledName, 'inside' AS demangledName, 'inside' AS shortName
        FROM (VALUES (0, 4000, 4200), (1, 4200, 4450)) AS n(node, began, ended)""")
    db.execute("""CREATE TABLE runtime AS SELECT r.began AS start, r.ended AS "end", 'cuEventQuery' AS name, 1 AS globalTid, 30 AS correlationId,
        r.result AS returnValue, r.calls, r.inside AS host_ns, 'j' AS job, 'h' AS host, 0 AS rank
        FROM (VALUES (100, 900, 0, 40, 60), (1000, 1010, 700, 1, 10)) AS r(began, ended, result, calls, inside)""")
    for table in ("sync", "alloc", "nvtx"):
        db.execute(f"CREATE TABLE {table} AS SELECT 'j' AS job, 'p' AS process, 0 AS step, 0 AS start, 0 AS \"end\", 'x' AS name, 'x' AS text WHERE FALSE")
    db.execute("CREATE TABLE step AS SELECT 'j' AS job, 'h' AS host, 0 AS rank, 7 AS pid, 'p' AS process, n AS step, n * 10000 AS start, "
               "(n + 1) * 10000 - n AS \"end\" FROM range(8) t(n)")
    db.execute("CREATE MACRO gpuspy_text(value) AS CAST(hash(value) >> 1 AS BIGINT)")


def everything_timed_is_in_the_views_of_nsight(texts):
    """Launches of runs and graphs were in none of them, and were no time of a step."""
    db = duckdb.connect()
    tables_of_one_process(db)
    for name in ("timed_launch", "StringIds", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "CUPTI_ACTIVITY_KIND_RUNTIME"):
        db.execute(view(name))
    found = db.execute("""SELECT s.value, k.start, k.end, k.burst_id, k.graphNodeId, k.correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL k
        JOIN StringIds s ON s.id = k.shortName ORDER BY k.start, k.correlationId""").fetchall()
    expect("the kernels' view", found, [
        ("short", 0, 100, None, None, 1), ("long", 100, 400, None, None, 2), ("short", 1000, 1100, 1, None, 3), ("long", 1100, 1400, 1, None, 4),
        ("short", 1400, 1500, 1, None, 5), ("long", 1500, 1800, 1, None, 6), ("other", 2000, 2051, 2, None, 7), ("other", 2051, 2101, 2, None, 8),
        ("inside", 4000, 4200, None, 0, 21), ("inside", 4200, 4450, None, 1, 21)])
    graphs = db.execute("SELECT g.start, g.end, g.graphId, g.correlationId FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE g").fetchall()
    expect("the graphs' view", graphs, [(3000, 3500, 3, 20)])
    calls = db.execute("SELECT r.start, r.end, r.calls, r.returnValue FROM CUPTI_ACTIVITY_KIND_RUNTIME r ORDER BY r.start").fetchall()
    expect("the calls' view", calls, [(100, 160, 40, 0), (1000, 1010, 1, 700)])
    done = db.execute(texts["slow-steps"])
    columns = [column[0] for column in done.description]
    keys = [columns.index(key) for key in ("step", "launches", "timed", "kernel_ns", "graphs", "graphs_timed", "graph_ns")]
    steps = sorted([row[key] for key in keys] for row in done.fetchall())
    expect("slow-steps", steps, [[0, 2, 2, 400, 0, 0, 0], [1, 3, 3, 500, 0, 0, 0], [2, 1, 1, 300, 0, 0, 0], [3, 2, 2, 101, 0, 0, 0],
                                 [4, 1, 0, None, 0, 0, 0], [5, 0, 0, 0, 2, 2, 1000], [6, 0, 0, 0, 1, 0, None], [7, 0, 0, 0, 0, 0, 0]])


def views_of_nsight_add_up(duck, job):
    """The views named as in Nsight Systems have all of the time of the tables, once."""
    where = f"WHERE t.job = '{job}'"

    def one(sql):
        return duck.run(sql).rows[0][0] or 0

    alone, together = (one(f'SELECT SUM(t."end" - t.start) FROM {table} t {where}') for table in ("kernel", "burst"))
    known = one(f"""SELECT SUM(b."end" - b.start) FROM burst b WHERE b.job = '{job}' AND EXISTS (SELECT 1 FROM kernel k
        WHERE k.job = b.job AND k.process = b.process AND k.burst_id = b.burst_id)""")
    kernels = one(f'SELECT SUM(t."end" - t.start) FROM CUPTI_ACTIVITY_KIND_KERNEL t {where} AND t.graphNodeId IS NULL')
    expect(f"{job}: the kernels' time in Nsight's view", [[kernels]], [[alone + known]])
    if known > together or one(f"SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_KERNEL t {where} AND t.\"end\" < t.start"):
        wrong.append(f"{job}: the rows of Nsight's view overlap")
    calls = duck.run(f"""SELECT CAST(SUM(t.calls) AS BIGINT), CAST(SUM(t."end" - t.start) AS BIGINT) FROM CUPTI_ACTIVITY_KIND_RUNTIME t {where}""")
    truth = duck.run(f'SELECT CAST(SUM(t.calls) AS BIGINT), CAST(SUM(CASE WHEN t.calls > 1 THEN t.host_ns ELSE t."end" - t.start END) AS BIGINT) FROM runtime t {where}')
    expect(f"{job}: calls in Nsight's view", calls.rows, truth.rows)
    graphs = one(f"SELECT COUNT(*) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE t {where}")
    by_node = one(f"SELECT COUNT(DISTINCT (t.process, t.operationId)) FROM graph_node t {where}")
    expect(f"{job}: graphs in Nsight's views", [[graphs + by_node]], [[one(f"SELECT COUNT(*) FROM graph t {where} AND t.start IS NOT NULL")]])


def main():
    began = time.monotonic()
    names = [line.split()[0] for line in ask("queries").splitlines()]
    texts = {name: ask("queries", name) for name in names}
    duck, took, answers, known = Duck(), {}, Answers(), {}
    # What the tables call the process of a trace.
    keyed = {(job, trace): process for job, trace, process in duck.run("SELECT p.job, p.trace, p.process FROM process p").rows}
    for name, text in texts.items():
        start = time.monotonic()
        answers[name] = duck.run(text)
        took[name] = time.monotonic() - start
    for entry in sorted(traces.iterdir()):
        files = sorted(entry.glob("*.gspy")) if entry.is_dir() else [entry]
        # Of a thousand traces, some are enough.
        reports = [report(file) for file in (files if len(files) < 100 else files[:: len(files) // 20])]
        for one in reports:
            states_the_report(answers, keyed, entry.stem, one)
        if len(reports) == len(files):
            adds_up(duck, answers, entry.stem, reports)
            known[entry.stem] = reports
        if entry.is_dir():
            stragglers(answers, entry.stem, report(entry))
    for job in sorted({row[0] for row in answers["coverage"].of({}, ["job"])}):
        last_arrivals(answers, job)
        entry, _, since = job.partition(".since-")
        if since:
            stragglers(answers, job, report(traces / entry, "--since", since))
    changed(answers, known)
    communicators(texts)
    starts()
    work_without_times_is_not_less_work(texts)
    everything_timed_is_in_the_views_of_nsight(texts)
    for name in sorted(set(names) - answers.compared):
        wrong.append(f"{name} is in no comparison")
    rows = sum(len(answer.rows) for answer in answers.values())
    slowest = max(took, key=took.get)
    print(f"DuckDB {duckdb.__version__}: {len(names)} queries, {rows} rows, {sum(took.values()):.2f} s, the longest {slowest} with {took[slowest]:.2f} s")
    if with_spark:
        start = time.monotonic()
        spark = Spark()
        print(f"Spark {spark.spark.version}: set up in {time.monotonic() - start:.1f} s")
        start = time.monotonic()
        for name, text in texts.items():
            theirs = spark.run(text)
            if theirs.columns != answers[name].columns:
                wrong.append(f"{name}: Spark has the columns {theirs.columns}")
            expect(f"{name} on Spark", theirs.rows, answers[name].rows)
        print(f"the same {len(names)} queries in {time.monotonic() - start:.1f} s")
    for line in wrong[:40]:
        print(f"WRONG {line}")
    print(f"{len(wrong)} differences, {time.monotonic() - began:.1f} s")
    sys.exit(1 if wrong else 0)


main()
