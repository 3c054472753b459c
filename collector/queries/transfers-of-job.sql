-- Copies and memsets of all ranks together by kind and host memory, from each operation.
-- How many, bytes, and the time of those that were timed, ns; bytes_timed / total_ns is their rate in GB/s.
SELECT o.job, o.kind, o.host_memory, COUNT(*) AS copies, COUNT(o.dur) AS timed, CAST(SUM(o.bytes) AS BIGINT) AS bytes,
       CAST(SUM(CASE WHEN o.dur IS NOT NULL THEN o.bytes ELSE 0 END) AS BIGINT) AS bytes_timed,
       CAST(SUM(o.dur) AS BIGINT) AS total_ns, CAST(SUM(o.dur_least) AS BIGINT) AS total_least_ns,
       CAST(SUM(o.dur_most) AS BIGINT) AS total_most_ns
FROM (SELECT c.job, c.kind, c.host_memory, c.bytes, c.dur, c.dur_least, c.dur_most FROM memcpy c
      UNION ALL
      SELECT s.job, s.kind, s.host_memory, s.bytes, s.dur, s.dur_least, s.dur_most FROM memset s) o
GROUP BY o.job, o.kind, o.host_memory
ORDER BY o.job, bytes DESC, o.kind, o.host_memory
