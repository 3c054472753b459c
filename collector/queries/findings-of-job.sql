-- Which faults how many ranks have, and what they cost all of them together.
-- processes counts those with the fault; saves_ns is summed over them, most_ns is the largest of one process.
SELECT f.job, f.id, COUNT(*) AS processes, CAST(SUM(f.saves_ns) AS DOUBLE) AS saves_ns, MAX(f.saves_ns) AS most_ns,
       CAST(SUM(f.evidence_count) AS BIGINT) AS times
FROM report_findings f
GROUP BY f.job, f.id
ORDER BY f.job, saves_ns DESC NULLS LAST, f.id
