-- The processes beside each other: launches, busy and idle time of their GPUs, steps and memory.
-- Times in ns; idle_share is of the span; start_number says to which start of its job a rank belongs, from 1 (the setup's view started).
SELECT p.job, p.host, p.rank, p.pid, p.process, b.start_number, p.launches, p.timed, d.span_ns, d.busy_ns, d.idle_ns, d.exposed_comm_ns,
       CASE WHEN d.span_ns > 0 THEN d.idle_ns / d.span_ns END AS idle_share,
       s.count AS steps, s.median_ns AS step_median_ns, m.peak_bytes, p.dropped
FROM process p
LEFT JOIN (SELECT e.job, e.process, CAST(SUM(e.span_ns) AS BIGINT) AS span_ns,
                  SUM(e.compute_ns + e.graph_ns + e.exposed_comm_ns + e.exposed_copy_ns) AS busy_ns,
                  SUM(e.idle_ns) AS idle_ns, SUM(e.exposed_comm_ns) AS exposed_comm_ns
           FROM report_devices e GROUP BY e.job, e.process) d ON d.job = p.job AND d.process = p.process
LEFT JOIN report_steps s ON s.job = p.job AND s.process = p.process
LEFT JOIN report_memory m ON m.job = p.job AND m.process = p.process
LEFT JOIN started b ON b.job = p.job AND b.process = p.process
ORDER BY p.job, p.rank NULLS LAST, p.host, p.pid, p.process
