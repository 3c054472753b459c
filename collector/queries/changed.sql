-- What changed between two jobs, the first and the last one in the folder?
-- `before` is the job that began first, `after` the one that began last.
-- One row for each figure, summed over the processes; change is after - before. Times in ns. No rows if there is only one job.
-- NULL = not known: nothing of it was timed, or there is none to measure, as with steps. What is not known of a GPU's time is in
-- undecided_ns and unobserved_ns: as far as these differ, the other parts of the time cannot be compared.
WITH jobs AS (
    SELECT p.job, MIN(p.realtimeBegan) AS began FROM process p GROUP BY p.job
), ordered AS (
    SELECT j.job, ROW_NUMBER() OVER (ORDER BY j.began, j.job) AS first, ROW_NUMBER() OVER (ORDER BY j.began DESC, j.job DESC) AS last
    FROM jobs j
), pair AS (
    SELECT a.job AS before_job, b.job AS after_job FROM ordered a CROSS JOIN ordered b
    WHERE a.first = 1 AND b.last = 1 AND a.job <> b.job
), gpu AS (
    -- A part of which nothing is certain, and which may have been more, is not known.
    SELECT d.job, CASE WHEN SUM(d.compute_ns) > 0 OR SUM(d.compute_ns_hi) = 0 THEN SUM(d.compute_ns) END AS compute_ns,
           CASE WHEN SUM(d.graph_ns) > 0 OR SUM(d.graph_ns_hi) = 0 THEN SUM(d.graph_ns) END AS graph_ns,
           CASE WHEN SUM(d.exposed_comm_ns) > 0 OR SUM(d.exposed_comm_ns_hi) = 0 THEN SUM(d.exposed_comm_ns) END AS exposed_comm_ns,
           CASE WHEN SUM(d.exposed_copy_ns) > 0 OR SUM(d.exposed_copy_ns_hi) = 0 THEN SUM(d.exposed_copy_ns) END AS exposed_copy_ns,
           CASE WHEN SUM(d.idle_ns) > 0 OR SUM(d.idle_ns_hi) = 0 THEN SUM(d.idle_ns) END AS idle_ns,
           SUM(d.undecided_ns) AS undecided_ns, SUM(d.unobserved_ns) AS unobserved_ns
    FROM report_devices d GROUP BY d.job
), causes AS (
    SELECT i.job, i.cause, SUM(i.total_ns) AS ns FROM report_idle_by_cause i
    JOIN pair p ON i.job = p.before_job OR i.job = p.after_job GROUP BY i.job, i.cause
), cause AS (
    -- Idle time that is not known may have had a cause that none of the known has.
    SELECT g.job, n.cause, CASE WHEN g.undecided_ns + g.unobserved_ns = 0 THEN COALESCE(c.ns, 0) ELSE c.ns END AS ns
    FROM gpu g CROSS JOIN (SELECT DISTINCT a.cause FROM causes a) n LEFT JOIN causes c ON c.job = g.job AND c.cause = n.cause
), figure AS (
    SELECT p.job, 1 AS place, 'processes' AS figure, CAST(COUNT(*) AS DOUBLE) AS value FROM process p GROUP BY p.job
    UNION ALL
    SELECT p.job, 2, 'longest wall_ns', CAST(MAX(p.wall_ns) AS DOUBLE) FROM process p GROUP BY p.job
    UNION ALL
    SELECT p.job, 3, 'launches', CAST(SUM(p.launches) AS DOUBLE) FROM process p GROUP BY p.job
    UNION ALL
    SELECT p.job, 4, 'timed', CAST(SUM(p.timed) AS DOUBLE) FROM process p GROUP BY p.job
    UNION ALL
    SELECT p.job, 5, 'timed_in_runs', CAST(SUM(p.timed_in_runs) AS DOUBLE) FROM process p GROUP BY p.job
    UNION ALL
    SELECT s.job, 6, 'steps', CAST(SUM(s.count) AS DOUBLE) FROM report_steps s GROUP BY s.job
    UNION ALL
    SELECT s.job, 7, 'step median_ns, mean of the processes', AVG(CAST(s.median_ns AS DOUBLE)) FROM report_steps s GROUP BY s.job
    UNION ALL
    SELECT g.job, 8, 'compute_ns', g.compute_ns FROM gpu g
    UNION ALL
    SELECT g.job, 9, 'graph_ns', g.graph_ns FROM gpu g
    UNION ALL
    SELECT g.job, 10, 'exposed_comm_ns', g.exposed_comm_ns FROM gpu g
    UNION ALL
    SELECT g.job, 11, 'exposed_copy_ns', g.exposed_copy_ns FROM gpu g
    UNION ALL
    SELECT g.job, 12, 'idle_ns', g.idle_ns FROM gpu g
    UNION ALL
    SELECT g.job, 13, 'undecided_ns', g.undecided_ns FROM gpu g
    UNION ALL
    SELECT g.job, 14, 'unobserved_ns', g.unobserved_ns FROM gpu g
    UNION ALL
    SELECT c.job, 15, CONCAT('idle_ns: ', c.cause), c.ns FROM cause c
    UNION ALL
    SELECT t.job, 16, CONCAT('bytes: ', t.kind, ' ', t.host_memory), CAST(SUM(t.bytes) AS DOUBLE)
    FROM report_transfers t GROUP BY t.job, t.kind, t.host_memory
    UNION ALL
    SELECT m.job, 17, 'largest peak_bytes', MAX(m.peak_bytes) FROM report_memory m GROUP BY m.job
), side AS (
    SELECT f.place, f.figure, COUNT(CASE WHEN f.job = p.before_job THEN 1 END) AS has_before,
           MAX(CASE WHEN f.job = p.before_job THEN f.value END) AS before_value,
           COUNT(CASE WHEN f.job = p.after_job THEN 1 END) AS has_after, MAX(CASE WHEN f.job = p.after_job THEN f.value END) AS after_value
    FROM figure f CROSS JOIN pair p WHERE f.job = p.before_job OR f.job = p.after_job
    GROUP BY f.place, f.figure
), known AS (
    -- What a job has none of, as a kind of copy, is 0.
    SELECT s.place, s.figure, CASE WHEN s.has_before = 0 THEN 0 ELSE s.before_value END AS before_value,
           CASE WHEN s.has_after = 0 THEN 0 ELSE s.after_value END AS after_value
    FROM side s
)
SELECT p.before_job, p.after_job, k.figure, k.before_value, k.after_value, k.after_value - k.before_value AS change
FROM known k CROSS JOIN pair p
ORDER BY k.place, k.figure
