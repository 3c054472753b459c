-- Copies and memsets of each process by kind and host memory, as `report` has them: counts, bytes, times with bounds (ns).
SELECT t.job, t.host, t.rank, t.pid, t.process, t.row AS place, t.kind, t.host_memory, t.count AS copies, t.timed, t.bytes,
       t.total_ns, t.total_ns_lo, t.total_ns_hi, t.total_ns_kind, t.line
FROM report_transfers t
ORDER BY t.job, t.rank NULLS LAST, t.host, t.pid, t.process, t.row
