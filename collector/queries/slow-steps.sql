-- The hundred longest steps of each job, with what the rank launched in them and how long it waited.
-- Steps are from call to call on the host; times_median is the step's length divided by the median of its process. Times in ns.
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
    SELECT k.job, k.process, k.step, COUNT(*) AS launches, CAST(SUM(k.dur) AS BIGINT) AS ns
    FROM kernel k GROUP BY k.job, k.process, k.step
), waits AS (
    SELECT w.job, w.process, w.step, CAST(SUM(w.end - w.start) AS BIGINT) AS ns
    FROM sync w GROUP BY w.job, w.process, w.step
)
SELECT s.job, s.place, s.host, s.rank, s.pid, s.process, s.step, s.start, s.dur, s.dur / m.dur AS times_median,
       COALESCE(k.launches, 0) AS launches, COALESCE(k.ns, 0) AS kernel_ns, COALESCE(w.ns, 0) AS wait_ns
FROM slow s
JOIN median m ON m.job = s.job AND m.process = s.process
LEFT JOIN kernels k ON k.job = s.job AND k.process = s.process AND k.step = s.step
LEFT JOIN waits w ON w.job = s.job AND w.process = s.process AND w.step = s.step
ORDER BY s.job, s.place
