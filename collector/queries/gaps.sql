-- The hundred longest idle gaps of each job: where, when, why, and between which operations.
-- start is of the machine's clock, ns; dur lies between dur_least and dur_most; cause_ns is the part of the gap that the main cause has.
WITH sizes AS (
    SELECT g.job, g.dur, ROW_NUMBER() OVER (PARTITION BY g.job ORDER BY g.dur DESC) AS place FROM gap g
), shortest AS (
    SELECT s.job, s.dur FROM sizes s WHERE s.place = 100
), longest AS (
    SELECT g.* FROM gap g LEFT JOIN shortest s ON s.job = g.job WHERE g.dur >= COALESCE(s.dur, 0)
), placed AS (
    SELECT l.*, ROW_NUMBER() OVER (PARTITION BY l.job ORDER BY l.dur DESC, l.rank NULLS LAST, l.host, l.pid, l.process, l.deviceId, l.start) AS place
    FROM longest l
)
SELECT p.job, p.place, p.host, p.rank, p.pid, p.process, p.deviceId, p.start, p.dur, p.dur_least, p.dur_most, p.cause, p.cause_ns,
       p.before_name, p.after_name, p.tid, p.line
FROM placed p
WHERE p.place <= 100
ORDER BY p.job, p.place
