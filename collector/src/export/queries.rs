//! SQL for the tables of a [Parquet export](super::parquet), which `gpuspy queries` prints. The text of a query is the same for all
//! engines; only what defines the tables differs.

use super::parquet::report_tables;
use std::fmt::{self, Write};

/// A query that is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its name.
    pub name: &'static str,
    /// Its text, which begins with a comment that says what it answers.
    pub text: &'static str,
}

macro_rules! queries {
    ($($name:literal)*) => {
        /// All queries, in the order in which one reads them.
        pub const ALL: &[Query] =
            &[$(Query { name: $name, text: include_str!(concat!("../../queries/", $name, ".sql")) },)*];
    };
}

queries! {
    "coverage" "findings" "findings-of-job" "ranks" "gpus" "idle" "idle-of-job" "gaps" "gaps-by-line" "steps" "slow-steps"
    "kernels" "kernels-of-job" "transfers" "transfers-of-job" "memory" "memory-by-line" "calls" "waits" "lines" "ranges"
    "stragglers" "last-arrivals" "slowest-hosts" "changed" "changed-kernels"
}

/// The tables that queries and views read, which each folder has.
const TABLES: &[&str] = &[
    "process",
    "device",
    "communication",
    "kernel",
    "memcpy",
    "memset",
    "graph",
    "graph_node",
    "burst",
    "runtime",
    "sync",
    "alloc",
    "nvtx",
    "stack",
    "gap",
    "step",
    "report_apis",
    "report_coverage",
    "report_devices",
    "report_findings",
    "report_gaps",
    "report_graphs",
    "report_idle_by_cause",
    "report_kernels",
    "report_lines",
    "report_memory",
    "report_memory_by_kind",
    "report_steps",
    "report_syncs",
    "report_transfers",
    "report_verdict",
];

/// Views of these tables that several queries read, with the query that each is, which may read those before it.
const VIEWS: &[(&str, &str)] = &[
    ("started", include_str!("../../queries/views/started.sql")),
    ("arrival", include_str!("../../queries/views/arrival.sql")),
    ("timed_launch", include_str!("../../queries/views/timed_launch.sql")),
];

/// What runs the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// DuckDB, on one machine.
    DuckDb,
    /// Spark, on a cluster.
    Spark,
}

/// An engine would not read the tables of a directory as they are.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// The directory's name contains a character of patterns.
    Pattern(String, char),
    /// A folder on its path is called like a partition, which DuckDB would take for that of all tables in it.
    Partition(String, String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Pattern(directory, special) => write!(
                f,
                "the engine would not find {directory}: it contains {special:?}, which DuckDB and Spark take for a \
                 pattern: give it another name"
            ),
            Refused::Partition(directory, folder) => write!(
                f,
                "DuckDB would take {folder} in {directory} for the {} of all tables: give that folder another name",
                folder.split('=').next().unwrap_or_default().to_ascii_lowercase()
            ),
        }
    }
}

impl Query {
    /// Returns the query with this name.
    pub fn named(name: &str) -> Option<Query> {
        ALL.iter().find(|query| query.name == name).copied()
    }

    /// What it answers: the first sentence of its comment.
    pub fn sentence(self) -> String {
        let comment =
            self.text.lines().map_while(|line| line.strip_prefix("-- ")).collect::<Vec<_>>().join(" ");
        let ends = comment.match_indices(['.', '?']).map(|(at, _)| at + 1);
        let end = ends.into_iter().find(|end| comment[*end..].is_empty() || comment[*end..].starts_with(' '));
        comment[..end.unwrap_or(comment.len())].to_owned()
    }
}

/// Returns the statements that define the tables of the exports in some directories, and views of them: those that queries
/// share, and those with the names that Nsight Systems gives its tables.
///
/// `has` says whether a directory has a table, of those of the report that no query reads: a former version may not have written
/// it, and an engine refuses a table without files.
///
/// # Errors
/// A directory's name would be taken for something else.
pub fn setup(
    engine: Engine,
    directories: &[impl AsRef<str>],
    has: impl Fn(&str, &str) -> bool,
) -> Result<String, Refused> {
    let readable = |directory: &str| engine.readable(directory).map(|directory| engine.literal(directory));
    let literals: Vec<String> =
        directories.iter().map(|directory| readable(directory.as_ref())).collect::<Result<_, _>>()?;
    let mut text = engine.comment().to_owned();
    for table in TABLES {
        text.push_str(&engine.table(table, &literals));
    }
    for (view, select) in VIEWS {
        // Writing into a text does not fail.
        let _ = writeln!(text, "{} {view} AS\n{};", engine.create(), select.trim_end());
    }
    text.push_str(NSIGHT_COMMENT);
    for (view, select) in NSIGHT {
        let select = select.replace("HASH(", engine.hash());
        let _ = writeln!(text, "{} {view} AS\n{select};", engine.create());
    }
    text.push_str(OTHERS_COMMENT);
    for table in report_tables().iter().filter(|table| !TABLES.contains(&table.as_str())) {
        let having =
            directories.iter().zip(&literals).filter(|(directory, _)| has(directory.as_ref(), table));
        let having: Vec<String> = having.map(|(_, literal)| literal.clone()).collect();
        if !having.is_empty() {
            text.push_str(&engine.table(table, &having));
        }
    }
    Ok(text)
}

impl Engine {
    fn comment(self) -> &'static str {
        match self {
            Engine::DuckDb => {
                "-- The tables of a gpuspy export, for DuckDB (1.1 or later): run this once in a connection.
CREATE OR REPLACE MACRO gpuspy_text(value) AS CAST(hash(value) >> 1 AS BIGINT);
"
            }
            Engine::Spark => {
                "-- The tables of a gpuspy export, for Spark (4.0 or later): run each statement once in a session. Folders are texts:
-- Spark would take the job 007 for the number 7.
SET spark.sql.sources.partitionColumnTypeInference.enabled = false;
"
            }
        }
    }

    /// Returns a directory as patterns have it, if the engine reads the tables in it as they are.
    fn readable(self, directory: &str) -> Result<&str, Refused> {
        if let Some(special) = directory.chars().find(|c| "*?[]{}".contains(*c)) {
            return Err(Refused::Pattern(directory.to_owned(), special));
        }
        // Spark takes only what comes after the base path for partitions.
        let is_partition = |folder: &&str| {
            let key = folder.split_once('=').map(|(key, _)| key.to_ascii_lowercase());
            self == Engine::DuckDb && key.is_some_and(|key| ["job", "host", "rank"].contains(&key.as_str()))
        };
        match directory.split('/').find(is_partition) {
            Some(folder) => Err(Refused::Partition(directory.to_owned(), folder.to_owned())),
            None => Ok(directory.trim_end_matches('/')),
        }
    }

    /// A text as it stands between apostrophes.
    fn literal(self, text: &str) -> String {
        match self {
            Engine::DuckDb => text.replace('\'', "''"),
            Engine::Spark => text.replace('\\', "\\\\").replace('\'', "\\'"),
        }
    }

    fn create(self) -> &'static str {
        match self {
            Engine::DuckDb => "CREATE OR REPLACE VIEW",
            Engine::Spark => "CREATE OR REPLACE TEMPORARY VIEW",
        }
    }

    /// A function of a text, up to its opening parenthesis.
    fn hash(self) -> &'static str {
        match self {
            Engine::DuckDb => "gpuspy_text(",
            Engine::Spark => "xxhash64(",
        }
    }

    fn table(self, table: &str, directories: &[String]) -> String {
        let create = self.create();
        match self {
            Engine::DuckDb => {
                let files = |directory| format!("'{directory}/job=*/host=*/rank=*/{table}/*.parquet'");
                let files: Vec<String> = directories.iter().map(files).collect();
                format!(
                    "{create} {table} AS SELECT * FROM read_parquet([{}], hive_partitioning = true, \
                     hive_types = {{'job': VARCHAR, 'host': VARCHAR, 'rank': BIGINT}});\n",
                    files.join(", ")
                )
            }
            Engine::Spark => {
                // A path has one base path, so each directory has a view of its own.
                let (mut text, mut all) = (String::new(), Vec::new());
                for (number, directory) in (1..).zip(directories) {
                    let files = format!("{table}_files_{number}");
                    let _ = writeln!(
                        text,
                        "{create} {files} USING parquet OPTIONS (path '{directory}/job=*/host=*/rank=*/{table}', \
                         basePath '{directory}');"
                    );
                    all.push(format!(
                        "SELECT * EXCEPT (job, host, rank), CAST(job AS STRING) AS job, CAST(host AS STRING) AS host, \
                         CAST(rank AS BIGINT) AS rank FROM {files}"
                    ));
                }
                let _ = writeln!(text, "{create} {table} AS {};", all.join(" UNION ALL "));
                text
            }
        }
    }
}

const OTHERS_COMMENT: &str = "-- The other tables of the report, which no query or view above reads.
";

const NSIGHT_COMMENT: &str = "-- Views with the names and columns of Nsight Systems' export, for queries that were written for it. Texts are numbers of StringIds
-- there; job, host and rank are added. Only what has a time is in them. Launches that were timed together have a burst_id in
-- CUPTI_ACTIVITY_KIND_KERNEL: their sum is measured, each by itself is estimated (timed_launch). A launch of a graph is in
-- CUPTI_ACTIVITY_KIND_GRAPH_TRACE, or else, if its kernels were timed one by one, these are in CUPTI_ACTIVITY_KIND_KERNEL. A row of
-- CUPTI_ACTIVITY_KIND_RUNTIME may stand for several queries in a row: their number is calls, and its length is their time together.
";

/// Views by name, with the query that they are.
const NSIGHT: &[(&str, &str)] = &[
    (
        "StringIds",
        "SELECT HASH(t.value) AS id, t.value FROM (
    SELECT k.demangledName AS value FROM kernel k UNION SELECT k.shortName FROM kernel k
    UNION SELECT k.mangledName FROM kernel k UNION SELECT n.demangledName FROM graph_node n
    UNION SELECT n.shortName FROM graph_node n UNION SELECT n.mangledName FROM graph_node n
    UNION SELECT r.name FROM runtime r UNION SELECT s.name FROM sync s
    UNION SELECT a.name FROM alloc a UNION SELECT n.text FROM nvtx n) t WHERE t.value IS NOT NULL",
    ),
    (
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "SELECT k.start, k.end, k.deviceId, k.contextId, k.streamId, k.correlationId, k.globalPid, HASH(k.demangledName) AS demangledName,
    HASH(k.shortName) AS shortName, HASH(k.mangledName) AS mangledName, k.registersPerThread, k.gridX, k.gridY, k.gridZ,
    k.blockX, k.blockY, k.blockZ, k.staticSharedMemory, k.dynamicSharedMemory, k.localMemoryPerThread, k.graphNodeId, k.burst_id,
    k.job, k.host, k.rank
FROM (SELECT t.start, t.end, t.deviceId, t.contextId, t.streamId, t.correlationId, t.globalPid, t.demangledName, t.shortName,
          t.mangledName, t.registersPerThread, t.gridX, t.gridY, t.gridZ, t.blockX, t.blockY, t.blockZ, t.staticSharedMemory,
          t.dynamicSharedMemory, t.localMemoryPerThread, CAST(NULL AS BIGINT) AS graphNodeId, t.burst_id, t.job, t.host, t.rank
      FROM timed_launch t
      UNION ALL
      SELECT n.start, n.end, n.deviceId, n.contextId, g.streamId, g.correlationId, n.globalPid, n.demangledName, n.shortName,
          n.mangledName, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, n.graphNodeId, NULL, n.job, n.host, n.rank
      FROM graph_node n LEFT JOIN graph g ON g.job = n.job AND g.process = n.process AND g.operationId = n.operationId) k",
    ),
    (
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
        "SELECT g.start, g.end, g.deviceId, g.contextId, g.streamId, g.correlationId, g.globalPid, g.graphId, g.graphId AS graphExecId,
    g.job, g.host, g.rank
FROM graph g
LEFT JOIN (SELECT DISTINCT n.job, n.process, n.operationId FROM graph_node n) k
    ON k.job = g.job AND k.process = g.process AND k.operationId = g.operationId
WHERE g.start IS NOT NULL AND k.operationId IS NULL",
    ),
    (
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        "SELECT r.start, CASE WHEN r.calls > 1 THEN r.start + r.host_ns ELSE r.end END AS end, r.globalTid, r.correlationId,
    HASH(r.name) AS nameId, r.returnValue, r.calls, r.job, r.host, r.rank
FROM runtime r",
    ),
    (
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        // The table has CUPTI's kinds of memory; Nsight Systems has numbers of its own, those of ENUM_CUDA_MEM_KIND.
        "SELECT c.start, c.end, c.deviceId, c.contextId, c.streamId, c.correlationId, c.globalPid, c.bytes, c.copyKind,
    CASE c.srcKind WHEN 1 THEN 0 WHEN 2 THEN 1 WHEN 3 THEN 2 WHEN 5 THEN 4 END AS srcKind,
    CASE c.dstKind WHEN 1 THEN 0 WHEN 2 THEN 1 WHEN 3 THEN 2 WHEN 5 THEN 4 END AS dstKind, c.job, c.host, c.rank
FROM memcpy c WHERE c.start IS NOT NULL",
    ),
    (
        "CUPTI_ACTIVITY_KIND_MEMSET",
        "SELECT s.start, s.end, s.deviceId, s.contextId, s.streamId, s.correlationId, s.globalPid, s.value, s.bytes, s.job,
    s.host, s.rank
FROM memset s WHERE s.start IS NOT NULL",
    ),
    (
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "SELECT s.start, s.end, s.deviceId, s.contextId, s.streamId, s.correlationId, s.globalPid, s.syncType, s.job, s.host, s.rank
FROM sync s",
    ),
    (
        "NVTX_EVENTS",
        "SELECT n.start, n.end, n.eventType, n.rangeId, n.category, n.color, n.text, n.globalTid, HASH(n.text) AS textId, n.domain, n.job,
    n.host, n.rank
FROM nvtx n",
    ),
    (
        "CUDA_GPU_MEMORY_USAGE_EVENTS",
        "SELECT a.start, a.globalPid, a.deviceId, a.contextId, a.streamId, a.correlationId, a.address, a.bytes, a.memoryOperationType,
    HASH(a.name) AS name, a.job, a.host, a.rank
FROM alloc a WHERE a.is_device",
    ),
    (
        "TARGET_INFO_GPU",
        "SELECT d.id, d.name, d.uuid, d.totalMemory, d.smCount, d.computeMajor, d.computeMinor, d.maxWarpsPerSm, d.job, d.host, d.rank
FROM device d",
    ),
    (
        "ENUM_CUDA_MEMCPY_OPER",
        "SELECT e.id, e.name, e.label FROM (VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'),
    (2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host'), (8, 'CUDA_MEMCPY_KIND_DTOD', 'Device-to-Device'),
    (9, 'CUDA_MEMCPY_KIND_HTOH', 'Host-to-Host'), (10, 'CUDA_MEMCPY_KIND_PTOP', 'Peer-to-Peer')) AS e(id, name, label)",
    ),
    (
        "ENUM_CUDA_MEM_KIND",
        "SELECT e.id, e.name, e.label FROM (VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable'),
    (1, 'CUDA_MEMOPR_MEMORY_KIND_PINNED', 'Pinned'), (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device'),
    (3, 'CUDA_MEMOPR_MEMORY_KIND_ARRAY', 'Array'), (4, 'CUDA_MEMOPR_MEMORY_KIND_MANAGED', 'Managed')) AS e(id, name, label)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    /// A folder that has all tables.
    fn all(_: &str, _: &str) -> bool {
        true
    }

    #[test]
    fn every_file_is_a_query_that_says_in_a_sentence_what_it_answers() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files: BTreeSet<String> = files
            .filter(|path| path.is_file())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        let names: BTreeSet<String> = ALL.iter().map(|query| query.name.to_owned()).collect();
        assert_eq!((files, ALL.len()), (names.clone(), names.len()));
        for query in ALL {
            let sentence = query.sentence();
            assert!(sentence.ends_with(['.', '?']) && sentence.len() > 30, "{}: {sentence}", query.name);
            assert!(query.text.contains("\nORDER BY "), "{} has rows in any order", query.name);
        }
    }

    #[test]
    fn queries_read_tables_that_the_setup_defines() {
        let is_defined = |name: &str| TABLES.contains(&name) || VIEWS.iter().any(|(view, _)| *view == name);
        let texts = ALL.iter().map(|query| (query.name, query.text)).chain(VIEWS.iter().copied());
        for (name, text) in texts {
            let words: Vec<&str> =
                text.lines().filter(|line| !line.starts_with("--")).flat_map(str::split_whitespace).collect();
            let own: BTreeSet<&str> =
                words.windows(2).filter(|pair| pair[1] == "AS").map(|pair| pair[0]).collect();
            let read = words.windows(2).filter(|pair| ["FROM", "JOIN"].contains(&pair[0]));
            let read = read.map(|pair| pair[1]).filter(|name| !name.starts_with('('));
            let unknown: Vec<&str> = read.filter(|name| !is_defined(name) && !own.contains(name)).collect();
            assert!(unknown.is_empty(), "{name}: {unknown:?}");
        }
    }

    #[test]
    fn spark_takes_no_job_for_a_number() {
        let text = setup(Engine::Spark, &["tables"], all).unwrap();
        let first = text.split(";\n").next().unwrap().lines().last().unwrap();
        assert_eq!(first, "SET spark.sql.sources.partitionColumnTypeInference.enabled = false");
        assert!(text.contains("CAST(rank AS BIGINT) AS rank"), "ranks are numbers all the same");
    }

    #[test]
    fn a_folder_with_an_apostrophe_is_a_text_and_a_pattern_is_refused() {
        assert!(
            setup(Engine::DuckDb, &["it's/"], all)
                .unwrap()
                .contains("'it''s/job=*/host=*/rank=*/kernel/*.parquet'")
        );
        assert!(setup(Engine::Spark, &["it's"], all).unwrap().contains(r"basePath 'it\'s'"));
        assert_eq!(setup(Engine::Spark, &["a", "a[1]"], all), Err(Refused::Pattern("a[1]".to_owned(), '[')));
    }

    /// DuckDB gave all ranks of all jobs in `/data/rank=0` the rank 0.
    #[test]
    fn a_folder_above_the_tables_that_is_called_like_a_partition_is_refused() {
        for directory in ["/data/rank=0/tables", "Job=7", "../host=a/"] {
            let refused = setup(Engine::DuckDb, &[directory], all).unwrap_err();
            assert!(matches!(refused, Refused::Partition(..)), "{directory}: {refused:?}");
            assert!(
                setup(Engine::Spark, &[directory], all).is_ok(),
                "what is above its base path is no partition"
            );
        }
        let refused = setup(Engine::DuckDb, &["x/Job=7"], all).unwrap_err().to_string();
        assert!(
            refused.starts_with("DuckDB would take Job=7 in x/Job=7 for the job of all tables: "),
            "{refused}"
        );
        assert!(setup(Engine::DuckDb, &["/data/date=3/a=b", "rank", "x-job=1"], all).is_ok());
    }

    /// The tables of each machine's windows were tables of their own.
    #[test]
    fn tables_of_several_directories_are_one() {
        let text = setup(Engine::DuckDb, &["a", "b/"], all).unwrap();
        let of = |directory: &str| format!("'{directory}/job=*/host=*/rank=*/kernel/*.parquet'");
        assert!(text.contains(&format!("read_parquet([{}, {}], ", of("a"), of("b"))), "{text}");
        let text = setup(Engine::Spark, &["a", "b/"], all).unwrap();
        for (number, directory) in [(1, "a"), (2, "b")] {
            let files = format!(
                "kernel_files_{number} USING parquet OPTIONS (path '{directory}/job=*/host=*/rank=*/kernel', \
                 basePath '{directory}');"
            );
            assert!(text.contains(&files), "{files}");
        }
        let kernel =
            text.lines().find(|line| line.starts_with("CREATE OR REPLACE TEMPORARY VIEW kernel AS "));
        let kernel = kernel.unwrap();
        assert!(
            kernel.contains("FROM kernel_files_1 UNION ALL SELECT ")
                && kernel.ends_with(" FROM kernel_files_2;")
        );
    }

    /// Both had CUPTI's numbers, in which 1 is pageable memory and not pinned memory.
    #[test]
    fn kinds_of_memory_have_the_numbers_of_nsight_systems_in_its_views() {
        let view = |name: &str| NSIGHT.iter().find(|(view, _)| *view == name).unwrap().1;
        for (number, kind) in [(0, "PAGEABLE"), (1, "PINNED"), (2, "DEVICE"), (3, "ARRAY"), (4, "MANAGED")] {
            let row = format!("({number}, 'CUDA_MEMOPR_MEMORY_KIND_{kind}', ");
            assert!(view("ENUM_CUDA_MEM_KIND").contains(&row), "{row}");
        }
        for side in ["srcKind", "dstKind"] {
            let mapped = format!(
                "CASE c.{side} WHEN 1 THEN 0 WHEN 2 THEN 1 WHEN 3 THEN 2 WHEN 5 THEN 4 END AS {side}"
            );
            assert!(view("CUPTI_ACTIVITY_KIND_MEMCPY").contains(&mapped), "{mapped}");
        }
    }
}
