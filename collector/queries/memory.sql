-- Device memory of each process, as `report` has it: the most that it held at once, what it holds at the end, and its allocations.
-- peak_bytes lies between peak_bytes_lo and peak_bytes_hi, and was reached peak_ns after the collection began.
SELECT m.job, m.host, m.rank, m.pid, m.process, m.peak_bytes, m.peak_bytes_lo, m.peak_bytes_hi, m.peak_ns, m.live_bytes,
       m.allocations, m.allocated_bytes, m.frees, m.out_of_memory
FROM report_memory m
ORDER BY m.job, m.rank NULLS LAST, m.host, m.pid, m.process
