-- The steps of each process, as `report` has them: how many, how they were found, and how long they take, ns.
SELECT s.job, s.host, s.rank, s.pid, s.process, s.count AS steps, s.source, s.launches_per_step, s.warm_up, s.median_ns, s.mean_ns, s.std_ns,
       s.p95_ns, s.p99_ns, s.min_ns, s.max_ns
FROM report_steps s
ORDER BY s.job, s.rank NULLS LAST, s.host, s.pid, s.process
