-- Idle gaps of all ranks by the line of the program whose operation ended them, ns; NULL = the line is not known.
SELECT g.job, g.line, COUNT(*) AS gaps, CAST(SUM(g.dur) AS BIGINT) AS total_ns, MAX(g.dur) AS longest_ns,
       COUNT(DISTINCT g.rank) AS ranks
FROM gap g
GROUP BY g.job, g.line
ORDER BY g.job, total_ns DESC, g.line NULLS LAST
