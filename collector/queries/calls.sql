-- The API calls of each process, as `report` has them: how many, how many failed, and the host's time in them, ns.
SELECT c.job, c.host, c.rank, c.pid, c.process, c.row AS place, c.name, c.count AS calls, c.failed, c.host_ns, c.avg_ns,
       c.median_ns, c.min_ns, c.max_ns
FROM report_apis c
ORDER BY c.job, c.rank NULLS LAST, c.host, c.pid, c.process, c.row
