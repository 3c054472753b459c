-- Which machines are slower than the others: the time of the same kernels on each, and how idle their GPUs are.
-- compute_ns: timed kernels for each process, without communication; vs_median: that divided by the median of the job's machines;
-- vs_same_kernels: its mean time of a launch relative to the same kernel on all machines, weighted by the launches: 1.1 = 10 % slower.
WITH of_kernel AS (
    SELECT k.job, k.host, k.mangledName AS symbol, COUNT(k.dur) AS timed, AVG(CAST(k.dur AS DOUBLE)) AS ns
    FROM kernel k WHERE NOT k.communication AND k.dur IS NOT NULL
    GROUP BY k.job, k.host, k.mangledName
), usual AS (
    SELECT o.job, o.symbol, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY o.ns) AS ns FROM of_kernel o GROUP BY o.job, o.symbol
), relative AS (
    SELECT o.job, o.host, SUM(o.timed * o.ns) AS ns, SUM(o.timed * u.ns) AS usual_ns
    FROM of_kernel o JOIN usual u ON u.job = o.job AND u.symbol = o.symbol
    GROUP BY o.job, o.host
), machine AS (
    SELECT p.job, p.host, COUNT(*) AS processes, CAST(SUM(p.launches) AS BIGINT) AS launches FROM process p GROUP BY p.job, p.host
), idle AS (
    SELECT d.job, d.host, SUM(d.idle_ns) AS idle_ns, SUM(d.span_ns) AS span_ns FROM report_devices d GROUP BY d.job, d.host
), measured AS (
    SELECT m.job, m.host, m.processes, m.launches, r.ns / m.processes AS compute_ns, r.ns / r.usual_ns AS vs_same_kernels,
           CASE WHEN i.span_ns > 0 THEN i.idle_ns / i.span_ns END AS idle_share
    FROM machine m
    LEFT JOIN relative r ON r.job = m.job AND r.host = m.host
    LEFT JOIN idle i ON i.job = m.job AND i.host = m.host
), median AS (
    SELECT m.job, PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY m.compute_ns) AS compute_ns FROM measured m GROUP BY m.job
)
SELECT m.job, m.host, m.processes, m.launches, m.compute_ns, m.compute_ns / d.compute_ns AS vs_median, m.vs_same_kernels, m.idle_share
FROM measured m JOIN median d ON d.job = m.job
ORDER BY m.job, m.vs_same_kernels DESC NULLS LAST, m.host
