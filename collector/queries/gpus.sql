-- Where the time of each process's GPUs went, as `report` has it.
-- The parts from compute_ns to idle_ns sum to span_ns, in ns. idle_ns lies between idle_ns_lo and idle_ns_hi; the table report_devices
-- has such bounds of each part. A GPU that several processes used has a row for each, which overlap.
SELECT d.job, d.host, d.rank, d.pid, d.process, d.id AS device, d.name, d.uuid, d.span_ns, d.compute_ns, d.graph_ns, d.exposed_comm_ns,
       d.exposed_copy_ns, d.undecided_ns, d.unobserved_ns, d.idle_ns, d.idle_ns_lo, d.idle_ns_hi, d.streams
FROM report_devices d
ORDER BY d.job, d.rank NULLS LAST, d.host, d.pid, d.process, d.row
