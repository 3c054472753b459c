-- The kernels of all ranks together, from each launch: how many, and the time of those that were timed.
-- Times in ns are of launches that were timed by themselves; total_ns lies between total_least_ns and total_most_ns. Launches inside graphs are not among them; processes counts
-- those that launch it.
SELECT k.job, k.mangledName AS symbol, MIN(k.demangledName) AS name, COUNT(*) AS launches, COUNT(k.dur) AS timed,
       COUNT(DISTINCT k.process) AS processes,
       CAST(SUM(k.dur) AS BIGINT) AS total_ns, CAST(SUM(k.dur_least) AS BIGINT) AS total_least_ns,
       CAST(SUM(k.dur_most) AS BIGINT) AS total_most_ns, AVG(CAST(k.dur AS DOUBLE)) AS avg_ns,
       MIN(k.dur) AS min_ns, MAX(k.dur) AS max_ns
FROM kernel k
GROUP BY k.job, k.mangledName
ORDER BY k.job, total_ns DESC NULLS LAST, k.mangledName
