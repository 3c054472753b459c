-- Why the GPUs of each process were idle, as `report` has it: idle time by cause, ns, and how many gaps it is.
-- total_ns is the best estimate, between total_ns_lo and total_ns_hi.
SELECT i.job, i.host, i.rank, i.pid, i.process, i.row AS place, i.cause, i.count AS gaps, i.total_ns, i.total_ns_lo, i.total_ns_hi
FROM report_idle_by_cause i
ORDER BY i.job, i.rank NULLS LAST, i.host, i.pid, i.process, i.row
