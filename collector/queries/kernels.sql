-- The kernels of each process, the longest total first, as `report` has them: counts, times with their bounds.
-- total_ns is of all launches (extrapolated where only some were timed: total_ns_kind); the others are of the timed ones, ns.
SELECT k.job, k.host, k.rank, k.pid, k.process, k.row AS place, k.name, k.symbol, k.count AS launches, k.timed, k.in_graphs,
       k.total_ns, k.total_ns_lo, k.total_ns_hi, k.total_ns_kind, k.avg_ns, k.median_ns, k.min_ns, k.max_ns, k.stddev_ns, k.line
FROM report_kernels k
ORDER BY k.job, k.rank NULLS LAST, k.host, k.pid, k.process, k.row
