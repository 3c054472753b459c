-- The calls in which the host of each process waited for the GPU, as `report` has them: how many, and how long, ns.
SELECT s.job, s.host, s.rank, s.pid, s.process, s.row AS place, s.api, s.count AS calls, s.host_ns, s.avg_ns, s.median_ns, s.max_ns, s.line
FROM report_syncs s
ORDER BY s.job, s.rank NULLS LAST, s.host, s.pid, s.process, s.row
