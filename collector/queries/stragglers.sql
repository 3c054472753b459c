-- Which rank do the others wait for, and how fast is each by itself?
-- By the setup's view arrival: the ranks of each start of a job are compared by themselves. late_ns: by how much it came later than half
-- of the ranks; last_arrivals: how often it certainly came last; waited_ns: how long only it was missing; own_ns: its mean time between two
-- communication kernels; vs_best: the best rank's own_ns divided by its own.
WITH communicated AS (
    SELECT k.job, k.process, k.start, k.end AS ended, k.communicationPlace AS place
    FROM kernel k WHERE k.rank IS NOT NULL AND k.communication
), followed AS (
    SELECT c.job, c.process, c.start, c.ended, c.place,
           LAG(c.place) OVER (PARTITION BY c.job, c.process ORDER BY c.place) AS before,
           MAX(c.ended) OVER (PARTITION BY c.job, c.process ORDER BY c.place
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS free_from
    FROM communicated c WHERE c.start IS NOT NULL
), own AS (
    SELECT f.job, f.process,
           AVG(CAST(CASE WHEN f.start > f.free_from THEN f.start - f.free_from ELSE 0 END AS DOUBLE)) AS own_ns
    FROM followed f WHERE f.before + 1 = f.place
    GROUP BY f.job, f.process
), fastest AS (
    SELECT b.job, b.start_number, MIN(w.own_ns) AS own_ns, COUNT(*) AS ranks
    FROM own w JOIN started b ON b.job = w.job AND b.process = w.process GROUP BY b.job, b.start_number
)
SELECT a.job, a.host, a.rank, a.pid, a.process, a.start_number, COUNT(*) AS collectives, CAST(SUM(a.is_last) AS BIGINT) AS last_arrivals,
       CAST(SUM(a.late_ns) AS BIGINT) AS late_ns, CAST(SUM(a.waited_ns) AS BIGINT) AS waited_ns, MAX(w.own_ns) AS own_ns,
       MAX(CASE WHEN f.ranks < 2 THEN NULL WHEN w.own_ns <= f.own_ns THEN 1.0E0 ELSE f.own_ns / w.own_ns END) AS vs_best
FROM arrival a
LEFT JOIN own w ON w.job = a.job AND w.process = a.process
LEFT JOIN fastest f ON f.job = a.job AND f.start_number = a.start_number
GROUP BY a.job, a.host, a.rank, a.pid, a.process, a.start_number
ORDER BY a.job, a.start_number, late_ns DESC, a.rank, a.pid, a.process
