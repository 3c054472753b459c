-- The hundred longest steps of each job, with what the rank launched in them and how long it waited.
-- Steps are from call to call on the host; times_median is the step's length divided by the median of its process. Times in ns.
-- kernel_ns is of the launches that were timed, alone or together with others (the setup's view timed_launch): timed says how many of
-- the launches that are. graph_ns is of graphs_timed of the graphs that were launched. Both are NULL where none was timed.
WITH lasting AS (
    SELECT s.job, s.host, s.rank, s.pid, s.process, s.step, s.start, s.end - s.start AS dur FROM step s WHERE s.end IS NOT NULL
), median AS (
    SELECT l.job, l.process, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY l.dur) AS dur
    FROM lasting l GROUP BY l.job, l.process
), placed AS (
    SELECT l.*, ROW_NUMBER() OVER (PARTITION BY l.job ORDER BY l.dur DESC, l.rank NULLS LAST, l.host, l.pid, l.process, l.step) AS place
    FROM lasting l
), slow AS (
    SELECT p.* FROM placed p WHERE p.place <= 100
), kernels AS (
    SELECT k.job, k.process, k.step, COUNT(*) AS launches FROM kernel k GROUP BY k.job, k.process, k.step
), ran AS (
    SELECT t.job, t.process, t.step, COUNT(*) AS timed, CAST(SUM(t.end - t.start) AS BIGINT) AS ns
    FROM timed_launch t GROUP BY t.job, t.process, t.step
), graphs AS (
    SELECT g.job, g.process, g.step, COUNT(*) AS launches, COUNT(g.dur) AS timed, CAST(SUM(g.dur) AS BIGINT) AS ns
    FROM graph g GROUP BY g.job, g.process, g.step
), waits AS (
    SELECT w.job, w.process, w.step, CAST(SUM(w.end - w.start) AS BIGINT) AS ns
    FROM sync w GROUP BY w.job, w.process, w.step
)
SELECT s.job, s.place, s.host, s.rank, s.pid, s.process, s.step, s.start, s.dur, s.dur / m.dur AS times_median,
       COALESCE(k.launches, 0) AS launches, COALESCE(r.timed, 0) AS timed, CASE WHEN k.launches IS NULL THEN 0 ELSE r.ns END AS kernel_ns,
       COALESCE(g.launches, 0) AS graphs, COALESCE(g.timed, 0) AS graphs_timed,
       CASE WHEN g.launches IS NULL THEN 0 ELSE g.ns END AS graph_ns, COALESCE(w.ns, 0) AS wait_ns
FROM slow s
JOIN median m ON m.job = s.job AND m.process = s.process
LEFT JOIN kernels k ON k.job = s.job AND k.process = s.process AND k.step = s.step
LEFT JOIN ran r ON r.job = s.job AND r.process = s.process AND r.step = s.step
LEFT JOIN graphs g ON g.job = s.job AND g.process = s.process AND g.step = s.step
LEFT JOIN waits w ON w.job = s.job AND w.process = s.process AND w.step = s.step
ORDER BY s.job, s.place
