-- What changed between two jobs, the first and the last one in the folder?
-- `before` is the job that began first, `after` the one that began last.
-- One row for each figure, summed over the processes; change is after - before. Times in ns. No rows if there is only one job.
WITH jobs AS (
    SELECT p.job, MIN(p.realtimeBegan) AS began FROM process p GROUP BY p.job
), ordered AS (
    SELECT j.job, ROW_NUMBER() OVER (ORDER BY j.began, j.job) AS first, ROW_NUMBER() OVER (ORDER BY j.began DESC, j.job DESC) AS last
    FROM jobs j
), pair AS (
    SELECT a.job AS before_job, b.job AS after_job FROM ordered a CROSS JOIN ordered b
    WHERE a.first = 1 AND b.last = 1 AND a.job <> b.job
), figure AS (
    SELECT p.job, 1 AS place, 'processes' AS figure, CAST(COUNT(*) AS DOUBLE) AS value FROM process p GROUP BY p.job
    UNION ALL
    SELECT p.job, 2, 'longest wall_ns', CAST(MAX(p.wall_ns) AS DOUBLE) FROM process p GROUP BY p.job
    UNION ALL
    SELECT p.job, 3, 'launches', CAST(SUM(p.launches) AS DOUBLE) FROM process p GROUP BY p.job
    UNION ALL
    SELECT s.job, 4, 'steps', CAST(SUM(s.count) AS DOUBLE) FROM report_steps s GROUP BY s.job
    UNION ALL
    SELECT s.job, 5, 'step median_ns, mean of the processes', AVG(CAST(s.median_ns AS DOUBLE)) FROM report_steps s GROUP BY s.job
    UNION ALL
    SELECT d.job, 6, 'compute_ns', SUM(d.compute_ns) FROM report_devices d GROUP BY d.job
    UNION ALL
    SELECT d.job, 7, 'graph_ns', SUM(d.graph_ns) FROM report_devices d GROUP BY d.job
    UNION ALL
    SELECT d.job, 8, 'exposed_comm_ns', SUM(d.exposed_comm_ns) FROM report_devices d GROUP BY d.job
    UNION ALL
    SELECT d.job, 9, 'exposed_copy_ns', SUM(d.exposed_copy_ns) FROM report_devices d GROUP BY d.job
    UNION ALL
    SELECT d.job, 10, 'idle_ns', SUM(d.idle_ns) FROM report_devices d GROUP BY d.job
    UNION ALL
    SELECT i.job, 11, CONCAT('idle_ns: ', i.cause), SUM(i.total_ns) FROM report_idle_by_cause i GROUP BY i.job, i.cause
    UNION ALL
    SELECT t.job, 12, CONCAT('bytes: ', t.kind, ' ', t.host_memory), CAST(SUM(t.bytes) AS DOUBLE)
    FROM report_transfers t GROUP BY t.job, t.kind, t.host_memory
    UNION ALL
    SELECT m.job, 13, 'largest peak_bytes', MAX(m.peak_bytes) FROM report_memory m GROUP BY m.job
), side AS (
    SELECT p.before_job, p.after_job, f.place, f.figure, CASE WHEN f.job = p.before_job THEN f.value END AS before_value,
           CASE WHEN f.job = p.after_job THEN f.value END AS after_value
    FROM figure f CROSS JOIN pair p WHERE f.job = p.before_job OR f.job = p.after_job
)
SELECT s.before_job, s.after_job, s.figure, COALESCE(MAX(s.before_value), 0) AS before_value,
       COALESCE(MAX(s.after_value), 0) AS after_value,
       COALESCE(MAX(s.after_value), 0) - COALESCE(MAX(s.before_value), 0) AS change
FROM side s
GROUP BY s.before_job, s.after_job, s.place, s.figure
ORDER BY s.place, s.figure
