-- Which start of its job a rank belongs to: a job that is started again has each rank again. A row for each process that is a rank.
-- A start begins with a process that begins when all of the starts before are over. If its rank was there before, it counts that they
-- had at most half of their time left, and 0.2 s: the end of a process is noticed late, and ranks do not end at once. A process without
-- GPU work is a rank only if its rank has no other. began and ended are ns since 1970.
WITH worked AS (
    SELECT p.job, p.process FROM process p WHERE p.launches > 0
    UNION
    SELECT d.job, d.process FROM report_devices d WHERE d.span_ns > 0
), candidate AS (
    SELECT p.job, p.host, p.rank, p.pid, p.process, COALESCE(p.realtimeBegan, 0) AS began, p.hostEnded - p.hostBegan AS lasted,
           w.process AS worker, COUNT(w.process) OVER (PARTITION BY p.job, p.rank) AS workers,
           ROW_NUMBER() OVER (PARTITION BY p.job, p.rank ORDER BY p.realtimeBegan NULLS FIRST, p.process) AS place
    FROM process p LEFT JOIN worked w ON w.job = p.job AND w.process = p.process
    WHERE p.rank IS NOT NULL
), member AS (
    SELECT c.job, c.host, c.rank, c.pid, c.process, c.began, c.began + c.lasted AS ended,
           c.began + c.lasted - LEAST(200000000, CAST(FLOOR(c.lasted / 2) AS BIGINT)) AS nearly_ended,
           ROW_NUMBER() OVER (PARTITION BY c.job, c.rank ORDER BY c.began, c.process) AS nth
    FROM candidate c WHERE c.worker IS NOT NULL OR (c.workers = 0 AND c.place = 1)
), swept AS (
    SELECT m.*, MAX(m.nth) OVER (PARTITION BY m.job) AS times, MAX(m.ended) OVER w AS all_ended,
           MAX(m.nearly_ended) OVER w AS all_nearly_ended
    FROM member m
    WINDOW w AS (PARTITION BY m.job ORDER BY m.began, m.ended, m.process ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT s.job, s.host, s.rank, s.pid, s.process, s.began, s.ended,
       1 + CAST(SUM(CASE WHEN s.times > 1 AND (s.began >= s.all_ended OR (s.nth > 1 AND s.began >= s.all_nearly_ended)) THEN 1 ELSE 0 END)
                OVER (PARTITION BY s.job ORDER BY s.began, s.ended, s.process ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
                AS BIGINT) AS start_number
FROM swept s
