-- Who came last to each collective, by the kernel's name: how often each rank did, and how long all others waited for it, ns.
-- Only what is certain within the bounds of the lengths counts, of collectives in which all ranks have a time.
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
)
SELECT a.job, a.symbol, a.host, a.rank, a.pid, CAST(SUM(a.is_last) AS BIGINT) AS last_arrivals,
       CAST(SUM(a.waited_ns) AS BIGINT) AS waited_ns, CAST(MAX(a.waited_ns) AS BIGINT) AS longest_ns
FROM arrival a
WHERE a.is_last = 1
GROUP BY a.job, a.symbol, a.host, a.rank, a.pid
ORDER BY a.job, a.symbol, last_arrivals DESC, a.rank, a.pid
