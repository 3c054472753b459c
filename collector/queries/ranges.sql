-- NVTX ranges of all ranks by name: how many, and the host's time in them, ns.
SELECT n.job, n.domain, n.text, COUNT(*) AS ranges, CAST(SUM(n.end - n.start) AS BIGINT) AS total_ns,
       MIN(n.end - n.start) AS shortest_ns, MAX(n.end - n.start) AS longest_ns, COUNT(DISTINCT n.rank) AS ranks
FROM nvtx n
WHERE n.eventType <> 34
GROUP BY n.job, n.domain, n.text
ORDER BY n.job, total_ns DESC NULLS LAST, n.domain NULLS LAST, n.text
