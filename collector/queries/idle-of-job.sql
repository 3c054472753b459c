-- Why the GPUs were idle over all ranks: idle time by cause, ns, and the rank that has most of it.
-- share is of all idle time of the job.
WITH cause AS (
    SELECT i.job, i.rank, i.cause, CAST(SUM(i.count) AS BIGINT) AS gaps, SUM(i.total_ns) AS ns
    FROM report_idle_by_cause i
    GROUP BY i.job, i.rank, i.cause
), placed AS (
    SELECT c.*, ROW_NUMBER() OVER (PARTITION BY c.job, c.cause ORDER BY c.ns DESC, c.rank NULLS LAST) AS place
    FROM cause c
), whole AS (
    SELECT c.job, SUM(c.ns) AS ns FROM cause c GROUP BY c.job
)
SELECT p.job, p.cause, CAST(SUM(p.gaps) AS BIGINT) AS gaps, SUM(p.ns) AS total_ns,
       CASE WHEN MAX(w.ns) > 0 THEN SUM(p.ns) / MAX(w.ns) END AS share,
       MAX(CASE WHEN p.place = 1 THEN p.rank END) AS most_rank, MAX(p.ns) AS most_ns
FROM placed p JOIN whole w ON w.job = p.job
GROUP BY p.job, p.cause
ORDER BY p.job, total_ns DESC, p.cause
