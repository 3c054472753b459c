-- What was recorded of each process and what is missing: read this first.
-- Counts are those of `report --json` (coverage, processes): timed launches have a time of their own, those of timed_in_runs were timed
-- together on deep streams. `missing` says in words what is missing, as the terminal does;
-- empty = nothing. clock_uncertainty_ns is the median distance of a GPU time from its bounds.
SELECT p.job, p.host, p.rank, p.pid, p.process, p.launches, p.timed, p.timed_in_runs, p.captured, p.in_graphs, p.unattributed, p.never_timed,
       p.dropped, p.records_lost, p.times_lost, p.chunks_lost, p.chunks_refused, p.cut, p.unfinished, p.ending,
       p.clock_uncertainty_ns,
       CONCAT_WS('; ',
           CASE WHEN p.dropped > p.dropped_damaged_trace
                THEN CONCAT(CAST(p.dropped - p.dropped_damaged_trace AS VARCHAR(20)), ' records dropped') END,
           CASE WHEN p.cut THEN 'the file ends inside a chunk' END,
           CASE WHEN p.unfinished THEN 'its writer did not come to the end' END,
           CASE WHEN p.chunks_lost > 0 OR p.records_lost > 0 OR p.times_lost > 0
                THEN CONCAT(CAST(p.records_lost AS VARCHAR(20)), ' records and ', CAST(p.times_lost AS VARCHAR(20)),
                            ' GPU times lost in ', CAST(p.chunks_lost AS VARCHAR(20)), ' damaged chunks') END,
           CASE WHEN p.chunks_refused > 0 THEN CONCAT(CAST(p.chunks_refused AS VARCHAR(20)), ' chunks refused') END,
           CASE WHEN p.write_error IS NOT NULL THEN CONCAT('not all was written: ', p.write_error) END,
           CASE WHEN p.timed + p.timed_in_runs < p.launches
                THEN CONCAT(CAST(p.launches - p.timed - p.timed_in_runs AS VARCHAR(20)), ' launches without a GPU time, alone or in a run') END
       ) AS missing
FROM process p
ORDER BY p.job, p.rank NULLS LAST, p.host, p.pid, p.process
