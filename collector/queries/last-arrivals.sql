-- Who came last to each collective, by the kernel's name: how often each rank did, and how long all others waited for it, ns.
-- Only what is certain within the bounds of the lengths counts, of collectives in which all ranks have a time (the setup's view arrival).
SELECT a.job, a.symbol, a.host, a.rank, a.pid, a.process, a.start_number, CAST(SUM(a.is_last) AS BIGINT) AS last_arrivals,
       CAST(SUM(a.waited_ns) AS BIGINT) AS waited_ns, CAST(MAX(a.waited_ns) AS BIGINT) AS longest_ns
FROM arrival a
WHERE a.is_last = 1
GROUP BY a.job, a.symbol, a.host, a.rank, a.pid, a.process, a.start_number
ORDER BY a.job, a.start_number, a.symbol, last_arrivals DESC, a.rank, a.pid, a.process
