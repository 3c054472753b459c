-- When launches of kernels ran: a row for each that has a time, of its own or a part of that of the run or burst that it is in.
-- Launches of a run or a burst were timed together (burst_id is not NULL): from its first one on, each has the part of that time that
-- launches of its kernel usually take, by those of the process that were timed alone. All parts add up to the time that was measured,
-- and there is no gap between them; where one ends and the next one begins is an estimate. Programmatic launches may overlap.
WITH usual AS (
    SELECT k.job, k.process, k.mangledName AS symbol, GREATEST(AVG(CAST(k.dur AS DOUBLE)), 1) AS ns
    FROM kernel k WHERE k.dur IS NOT NULL GROUP BY k.job, k.process, k.mangledName
), member AS (
    SELECT k.*, b.start AS began, b.end - b.start AS lasted, b.launches, u.ns,
           ROW_NUMBER() OVER (PARTITION BY k.job, k.process, k.burst_id ORDER BY k.callStart DESC, k.operationId DESC) AS back
    FROM kernel k JOIN burst b ON b.job = k.job AND b.process = k.process AND b.burst_id = k.burst_id
    LEFT JOIN usual u ON u.job = k.job AND u.process = k.process AND u.symbol = k.mangledName
    WHERE k.start IS NULL AND b.start IS NOT NULL
), weighed AS (
    SELECT m.*, COALESCE(m.ns, AVG(m.ns) OVER (PARTITION BY m.job, m.process, m.burst_id), 1) AS weight
    FROM member m WHERE m.back <= m.launches
), summed AS (
    SELECT w.*, SUM(w.weight) OVER (PARTITION BY w.job, w.process, w.burst_id) AS whole,
           SUM(w.weight) OVER (PARTITION BY w.job, w.process, w.burst_id ORDER BY w.back DESC
                               ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS until
    FROM weighed w
), placed AS (
    SELECT s.*, s.began + CAST(ROUND(s.lasted * (s.until / s.whole)) AS BIGINT) AS ended FROM summed s
), chained AS (
    SELECT p.*, COALESCE(LAG(p.ended) OVER (PARTITION BY p.job, p.process, p.burst_id ORDER BY p.back DESC), p.began) AS begun
    FROM placed p
)
SELECT k.job, k.host, k.rank, k.process, k.pid, k.start, k.end, k.burst_id, k.step, k.deviceId, k.contextId, k.streamId,
       k.correlationId, k.operationId, k.globalPid, k.demangledName, k.shortName, k.mangledName, k.registersPerThread, k.gridX,
       k.gridY, k.gridZ, k.blockX, k.blockY, k.blockZ, k.staticSharedMemory, k.dynamicSharedMemory, k.localMemoryPerThread
FROM kernel k WHERE k.start IS NOT NULL
UNION ALL
SELECT c.job, c.host, c.rank, c.process, c.pid, c.begun, c.ended, c.burst_id, c.step, c.deviceId, c.contextId, c.streamId,
       c.correlationId, c.operationId, c.globalPid, c.demangledName, c.shortName, c.mangledName, c.registersPerThread, c.gridX,
       c.gridY, c.gridZ, c.blockX, c.blockY, c.blockZ, c.staticSharedMemory, c.dynamicSharedMemory, c.localMemoryPerThread
FROM chained c
