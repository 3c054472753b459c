-- Which rank do the others wait for, and how fast is each by itself?
-- All kernels of a collective end together, so the shortest is that of the rank that came last; clocks are not compared.
-- late_ns: by how much it came later than half of the ranks; last_arrivals: how often it certainly came last; waited_ns: how long only
-- it was missing; own_ns: its mean time between two communication kernels; vs_best: the best rank's own_ns divided by its own.
WITH launched AS (
    SELECT k.job, k.host, k.rank, k.pid, k.mangledName AS symbol, k.dur, k.dur_least, k.dur_most,
           ROW_NUMBER() OVER (PARTITION BY k.job, k.host, k.rank, k.pid, k.mangledName
                              ORDER BY k.callEnd, k.operationId) AS number
    FROM kernel k
    WHERE k.rank IS NOT NULL AND k.communication AND k.mangledName NOT LIKE '%SendRecv%'
      AND (k.mangledName LIKE 'nccl%' OR k.mangledName LIKE '%ncclKernel%' OR k.mangledName LIKE '%ncclDevKernel%')
), members AS (
    SELECT l.job, l.symbol, COUNT(DISTINCT l.rank) AS ranks FROM launched l GROUP BY l.job, l.symbol
), came AS (
    SELECT l.job, l.host, l.rank, l.pid, l.symbol, l.number, l.dur, l.dur_least, l.dur_most, m.ranks,
           COUNT(*) OVER (PARTITION BY l.job, l.symbol, l.number) AS came,
           ROW_NUMBER() OVER (PARTITION BY l.job, l.symbol, l.number ORDER BY l.dur, l.rank DESC) AS place
    FROM launched l JOIN members m ON m.job = l.job AND m.symbol = l.symbol
    WHERE l.dur IS NOT NULL
), collective AS (
    SELECT c.job, c.symbol, c.number, MAX(c.ranks) AS ranks, MAX(c.came) AS came,
           -- The time at which half of the ranks had come, and its bound: minus the lengths.
           PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY -c.dur) AS half,
           PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY -c.dur_least) AS half_most,
           MIN(CASE WHEN c.place > 1 THEN c.dur END) AS others,
           MIN(CASE WHEN c.place > 1 THEN c.dur_least END) AS others_least
    FROM came c
    WHERE c.came >= 2 AND 2 * c.came >= c.ranks
    GROUP BY c.job, c.symbol, c.number
), arrival AS (
    SELECT c.job, c.host, c.rank, c.pid, c.symbol, c.number,
           CASE WHEN -c.dur_most > o.half_most AND -c.dur > o.half THEN -c.dur - o.half ELSE 0 END AS late_ns,
           CASE WHEN c.place = 1 AND o.came = o.ranks AND c.dur_most < o.others_least THEN 1 ELSE 0 END AS is_last,
           CASE WHEN c.place = 1 AND o.came = o.ranks AND c.dur_most < o.others_least THEN o.others - c.dur ELSE 0 END AS waited_ns
    FROM came c JOIN collective o ON o.job = c.job AND o.symbol = c.symbol AND o.number = c.number
), communicated AS (
    SELECT k.job, k.host, k.rank, k.pid, k.start, k.end AS ended,
           ROW_NUMBER() OVER (PARTITION BY k.job, k.host, k.rank, k.pid ORDER BY k.callEnd, k.operationId) AS place
    FROM kernel k WHERE k.rank IS NOT NULL AND k.communication
), followed AS (
    SELECT c.job, c.host, c.rank, c.pid, c.start, c.ended, c.place,
           LAG(c.place) OVER (PARTITION BY c.job, c.host, c.rank, c.pid ORDER BY c.place) AS before,
           MAX(c.ended) OVER (PARTITION BY c.job, c.host, c.rank, c.pid ORDER BY c.place
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS free_from
    FROM communicated c WHERE c.start IS NOT NULL
), own AS (
    SELECT f.job, f.host, f.rank, f.pid,
           AVG(CAST(CASE WHEN f.start > f.free_from THEN f.start - f.free_from ELSE 0 END AS DOUBLE)) AS own_ns
    FROM followed f WHERE f.before + 1 = f.place
    GROUP BY f.job, f.host, f.rank, f.pid
), fastest AS (
    SELECT w.job, MIN(w.own_ns) AS own_ns, COUNT(*) AS ranks FROM own w GROUP BY w.job
)
SELECT a.job, a.host, a.rank, a.pid, COUNT(*) AS collectives, CAST(SUM(a.is_last) AS BIGINT) AS last_arrivals,
       CAST(SUM(a.late_ns) AS BIGINT) AS late_ns, CAST(SUM(a.waited_ns) AS BIGINT) AS waited_ns, MAX(w.own_ns) AS own_ns,
       MAX(CASE WHEN f.ranks < 2 THEN NULL WHEN w.own_ns <= f.own_ns THEN 1.0E0 ELSE f.own_ns / w.own_ns END) AS vs_best
FROM arrival a
LEFT JOIN own w ON w.job = a.job AND w.host = a.host AND w.rank = a.rank AND w.pid = a.pid
LEFT JOIN fastest f ON f.job = a.job
GROUP BY a.job, a.host, a.rank, a.pid
ORDER BY a.job, late_ns DESC, a.rank, a.pid
