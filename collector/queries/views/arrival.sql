-- How ranks came to their collectives: a row for each rank of each collective whose kernels were compared, of those that at least two ranks
-- and half of all ranks of the same start of the job (the view started) have a time of. All kernels of a collective end together, so the
-- shortest is that of the rank that came last; clocks are not compared. The ends of successive kernels must be equally far apart on all ranks
-- within their bounds, or at least closer than the ranks came: others are of different communicators.
-- late_ns: by how much it came later than half of the ranks; is_last: whether it certainly came last of all; waited_ns: how long only it
-- was missing.
WITH members AS (
    SELECT c.job, b.start_number, c.mangledName AS symbol, COUNT(DISTINCT b.rank) AS ranks
    FROM communication c JOIN started b ON b.job = c.job AND b.process = c.process WHERE c.collective
    GROUP BY c.job, b.start_number, c.mangledName
), launched AS (
    SELECT k.job, b.start_number, k.host, k.rank, k.pid, k.process, k.mangledName AS symbol, k.communicationNumber AS number,
           k.dur, k.dur_least, k.dur_most, k.end AS ended, CASE WHEN k.clock = 'host' THEN k.end_least END AS ended_least,
           CASE WHEN k.clock = 'host' THEN k.end_most END AS ended_most, m.ranks
    FROM kernel k JOIN started b ON b.job = k.job AND b.process = k.process
    JOIN members m ON m.job = k.job AND m.start_number = b.start_number AND m.symbol = k.mangledName
    WHERE k.communication AND k.dur IS NOT NULL
), came AS (
    SELECT l.*, COUNT(*) OVER (PARTITION BY l.job, l.start_number, l.symbol, l.number) AS came,
           ROW_NUMBER() OVER (PARTITION BY l.job, l.start_number, l.symbol, l.number ORDER BY l.dur, l.rank DESC, l.process) AS place
    FROM launched l
), common AS (
    SELECT c.*, DENSE_RANK() OVER (PARTITION BY c.job, c.start_number, c.symbol ORDER BY c.number) AS nth
    FROM came c WHERE c.came >= 2 AND 2 * c.came >= c.ranks
), beside AS (
    SELECT c.*, LAG(c.nth) OVER w AS nth_before, LAG(c.ended) OVER w AS ended_before, LAG(c.ended_least) OVER w AS least_before,
           LAG(c.ended_most) OVER w AS most_before, LEAD(c.nth) OVER w AS nth_after, LEAD(c.ended) OVER w AS ended_after,
           LEAD(c.ended_least) OVER w AS least_after, LEAD(c.ended_most) OVER w AS most_after
    FROM common c
    WINDOW w AS (PARTITION BY c.job, c.process, c.symbol ORDER BY c.number)
), matched AS (
    SELECT b.job, b.start_number, b.symbol, b.number, MAX(b.ranks) AS ranks, MAX(b.came) AS came,
           -- The time at which half of the ranks had come, and its bound: minus the lengths.
           PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY -b.dur) AS half,
           PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY -b.dur_least) AS half_most,
           MIN(CASE WHEN b.place > 1 THEN b.dur END) AS others,
           MIN(CASE WHEN b.place > 1 THEN b.dur_least END) AS others_least,
           FLOOR((MAX(b.dur) - MIN(b.dur)) / 2) AS spread,
           -- By how much ranks differ in the time since the end of the collective before, and until that of the one after.
           MIN(CASE WHEN b.nth_before = b.nth - 1 THEN 1 ELSE 0 END) AS has_before,
           MAX(b.ended_least - b.most_before) - MIN(b.ended_most - b.least_before)
               - MAX(FLOOR(ABS(b.ended - b.ended_before) / 10000)) AS off_before,
           MIN(CASE WHEN b.nth_after = b.nth + 1 THEN 1 ELSE 0 END) AS has_after,
           MAX(b.ended_least - b.most_after) - MIN(b.ended_most - b.least_after)
               - MAX(FLOOR(ABS(b.ended - b.ended_after) / 10000)) AS off_after
    FROM beside b
    GROUP BY b.job, b.start_number, b.symbol, b.number
), collective AS (
    SELECT m.* FROM matched m
    WHERE CASE WHEN m.has_before = 1 THEN COALESCE(m.off_before, 0) <= m.spread
               WHEN m.has_after = 1 THEN COALESCE(m.off_after, 0) <= m.spread ELSE FALSE END
)
SELECT c.job, c.start_number, c.host, c.rank, c.pid, c.process, c.symbol, c.number,
       CASE WHEN -c.dur_most > o.half_most AND -c.dur > o.half THEN -c.dur - o.half ELSE 0 END AS late_ns,
       CASE WHEN c.place = 1 AND o.came = o.ranks AND c.dur_most < o.others_least THEN 1 ELSE 0 END AS is_last,
       CASE WHEN c.place = 1 AND o.came = o.ranks AND c.dur_most < o.others_least THEN o.others - c.dur ELSE 0 END AS waited_ns
FROM came c JOIN collective o ON o.job = c.job AND o.start_number = c.start_number AND o.symbol = c.symbol AND o.number = c.number
