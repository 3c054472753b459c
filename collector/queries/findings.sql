-- What to change in each process, the largest gain first, with the evidence and the fix, as `report` says it.
-- saves_ns is the best estimate, between saves_ns_lo and saves_ns_hi; evidence_total_ns is the time that the evidence is about.
SELECT f.job, f.host, f.rank, f.pid, f.process, f.row AS place, f.id, f.title, f.saves_ns, f.saves_ns_lo, f.saves_ns_hi,
       f.evidence_text, f.evidence_count, f.evidence_total_ns, f.evidence_kernel, f.evidence_api, f.evidence_line, f.fix
FROM report_findings f
ORDER BY f.job, f.rank NULLS LAST, f.host, f.pid, f.process, f.row
