"""ask_prometheus.py FILE REPORT...: has Prometheus' own parser read what `gpuspy collect --metrics` wrote, and compares its counters with
the reports of the windows (`gpuspy report --json`)."""

import json
import sys
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families


def close(one, other):
    return abs(one - other) < 1e-6 * max(1, one, other)


def main(path, *paths):
    with open(path, encoding="utf-8") as file:
        families = list(text_string_to_metric_families(file.read()))
    reports = []
    for report in paths:
        with open(report, encoding="utf-8") as file:
            reports.append(json.load(file))
    # The parser takes `_total` off the names of what is declared as a counter, and calls what is not declared unknown.
    kinds = Counter(family.type for family in families)
    assert set(kinds) == {"counter", "gauge"}, kinds
    samples = [sample for family in families for sample in family.samples]
    found = Counter()
    for sample in samples:
        found[sample.name, sample.labels.get("state") or sample.labels.get("cause")] += sample.value

    def seconds(value):
        return sum(value(report) for report in reports) / 1e9

    assert found["gpuspy_launches_total", None] == sum(report["coverage"]["launches"] for report in reports)
    for state in ("compute", "idle", "exposed_copy"):
        expected = seconds(lambda report: sum(device[f"{state}_ns"]["value"] for device in report["devices"]))
        assert close(found["gpuspy_gpu_seconds_total", state], expected), state
    idle = sum(value for (name, _), value in found.items() if name == "gpuspy_idle_seconds_total")
    assert close(idle, found["gpuspy_gpu_seconds_total", "idle"]), "the causes sum to the idle time"
    print(f"Prometheus agrees: {len(families)} metrics with {len(samples)} values, of {len(reports)} windows")


if __name__ == "__main__":
    main(*sys.argv[1:])
