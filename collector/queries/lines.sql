-- The lines of each program by what they cause, as `report` has them: launches, the time of the GPU, idle time, waits, and bytes.
-- gpu_ns lies between gpu_ns_lo and gpu_ns_hi; a line of NULL is calls without one. Times in ns.
SELECT l.job, l.host, l.rank, l.pid, l.process, l.row AS place, l.file, l.line, l.function, l.library, l.launches, l.timed, l.operations,
       l.gpu_ns, l.gpu_ns_lo, l.gpu_ns_hi, l.idle_ns, l.wait_ns, l.bytes, l.allocated_bytes
FROM report_lines l
ORDER BY l.job, l.rank NULLS LAST, l.host, l.pid, l.process, l.row
