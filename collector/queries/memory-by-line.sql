-- Device memory by the line of the program that allocated it, over all ranks: bytes allocated, and bytes never freed.
SELECT a.job, a.line, COUNT(*) AS allocations, CAST(SUM(a.bytes) AS BIGINT) AS bytes, MAX(a.bytes) AS largest,
       CAST(SUM(CASE WHEN f.block_id IS NULL THEN a.bytes ELSE 0 END) AS BIGINT) AS never_freed
FROM alloc a
LEFT JOIN (SELECT DISTINCT d.job, d.host, d.rank, d.pid, d.block_id, d.address FROM alloc d
           WHERE d.change IN ('freed', 'vanished') AND d.block_id > 0) f
    ON f.job = a.job AND f.host = a.host AND COALESCE(f.rank, -1) = COALESCE(a.rank, -1) AND f.pid = a.pid
    AND f.block_id = a.correlationId AND f.address = a.address
WHERE a.change = 'allocated' AND a.is_device
GROUP BY a.job, a.line
ORDER BY a.job, bytes DESC, a.line NULLS LAST
