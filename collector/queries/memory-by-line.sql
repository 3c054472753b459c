-- Device memory by the line of the program that allocated it, over all ranks: bytes allocated, and bytes that were not freed.
-- not_freed is what the blocks of the line still hold at the end. In the tables of a window of `collect --every`, or of a part of a
-- run, that is what was not freed in that window or part.
SELECT b.job, b.line, COUNT(*) AS allocations, CAST(SUM(b.bytes) AS BIGINT) AS bytes, MAX(b.bytes) AS largest,
       CAST(SUM(CASE WHEN b.place = 1 THEN GREATEST(b.held, 0) ELSE 0 END) AS BIGINT) AS not_freed
FROM (SELECT a.job, a.line, a.bytes, a.change,
             SUM(a.delta) OVER (PARTITION BY a.job, a.process, a.block_id) AS held,
             ROW_NUMBER() OVER (PARTITION BY a.job, a.process, a.block_id, a.change ORDER BY a.start DESC) AS place
      FROM alloc a WHERE a.is_device) b
WHERE b.change = 'allocated'
GROUP BY b.job, b.line
ORDER BY b.job, bytes DESC, b.line NULLS LAST
