-- The processes beside each other: launches, busy and idle time of their GPUs, steps and memory.
-- Times in ns; idle_share is of the span.
SELECT p.job, p.host, p.rank, p.pid, p.launches, p.timed, d.span_ns, d.busy_ns, d.idle_ns, d.exposed_comm_ns,
       CASE WHEN d.span_ns > 0 THEN d.idle_ns / d.span_ns END AS idle_share,
       s.count AS steps, s.median_ns AS step_median_ns, m.peak_bytes, p.dropped
FROM process p
LEFT JOIN (SELECT e.job, e.host, e.rank, e.pid, CAST(SUM(e.span_ns) AS BIGINT) AS span_ns,
                  SUM(e.compute_ns + e.graph_ns + e.exposed_comm_ns + e.exposed_copy_ns) AS busy_ns,
                  SUM(e.idle_ns) AS idle_ns, SUM(e.exposed_comm_ns) AS exposed_comm_ns
           FROM report_devices e GROUP BY e.job, e.host, e.rank, e.pid) d
    ON d.job = p.job AND d.host = p.host AND COALESCE(d.rank, -1) = COALESCE(p.rank, -1) AND d.pid = p.pid
LEFT JOIN report_steps s
    ON s.job = p.job AND s.host = p.host AND COALESCE(s.rank, -1) = COALESCE(p.rank, -1) AND s.pid = p.pid
LEFT JOIN report_memory m
    ON m.job = p.job AND m.host = p.host AND COALESCE(m.rank, -1) = COALESCE(p.rank, -1) AND m.pid = p.pid
ORDER BY p.job, p.rank NULLS LAST, p.host, p.pid
