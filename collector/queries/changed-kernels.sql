-- Which kernels changed between two jobs, the largest change first?
-- `before` is the job in the folder that began first, `after` the one that began last.
-- launches are counts; avg_ns is of the launches that were timed; change_ns is what the new average costs or saves over all launches
-- of `after`, and NULL where a kernel is only in one of the jobs.
WITH jobs AS (
    SELECT p.job, MIN(p.realtimeBegan) AS began FROM process p GROUP BY p.job
), ordered AS (
    SELECT j.job, ROW_NUMBER() OVER (ORDER BY j.began, j.job) AS first, ROW_NUMBER() OVER (ORDER BY j.began DESC, j.job DESC) AS last
    FROM jobs j
), pair AS (
    SELECT a.job AS before_job, b.job AS after_job FROM ordered a CROSS JOIN ordered b
    WHERE a.first = 1 AND b.last = 1 AND a.job <> b.job
), kernels AS (
    SELECT k.job, k.mangledName AS symbol, COUNT(*) AS launches, AVG(CAST(k.dur AS DOUBLE)) AS avg_ns
    FROM kernel k GROUP BY k.job, k.mangledName
), side AS (
    SELECT k.symbol, CASE WHEN k.job = p.before_job THEN k.launches END AS before_launches,
           CASE WHEN k.job = p.after_job THEN k.launches END AS after_launches,
           CASE WHEN k.job = p.before_job THEN k.avg_ns END AS before_ns,
           CASE WHEN k.job = p.after_job THEN k.avg_ns END AS after_ns
    FROM kernels k CROSS JOIN pair p WHERE k.job = p.before_job OR k.job = p.after_job
), joined AS (
    SELECT s.symbol, COALESCE(MAX(s.before_launches), 0) AS before_launches, COALESCE(MAX(s.after_launches), 0) AS after_launches,
           MAX(s.before_ns) AS before_ns, MAX(s.after_ns) AS after_ns
    FROM side s GROUP BY s.symbol
)
SELECT b.symbol, b.before_launches, b.after_launches, b.before_ns AS before_avg_ns, b.after_ns AS after_avg_ns,
       (b.after_ns - b.before_ns) * b.after_launches AS change_ns
FROM joined b
ORDER BY ABS((b.after_ns - b.before_ns) * b.after_launches) DESC NULLS LAST, b.symbol
