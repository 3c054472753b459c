//! How does the report as JSON become tables? By its JSON Schema.
//!
//! Each key of the report is a table. Objects inside are spread over columns, estimates over four, and lists and maps inside
//! are tables of their own, whose rows name the row that they belong to. The columns follow from the schema alone, so that
//! they do not depend on what is in a report.

use super::layout::{Cell, Kind, fitted};
use super::tables::WHOSE;
use serde_json::{Map, Value};

/// The schema of the report, generated from its structs.
const SCHEMA: &str = include_str!("../../../schema/report.schema.json");

/// The columns that are partitions, and so cannot be columns of a file.
const PARTITIONS: [&str; 3] = ["job", "host", "rank"];

/// A table with its rows.
#[derive(Debug, PartialEq)]
pub(super) struct Flat {
    pub table: String,
    pub columns: Vec<(String, Kind)>,
    pub rows: Vec<Vec<Cell>>,
}

impl Flat {
    /// Returns the table with what the process is called and its id in each row, so that rows of several processes of a rank can be told
    /// apart.
    pub fn of_process(mut self, whose: &[Cell; 2]) -> Flat {
        for ((column, kind), cell) in WHOSE.into_iter().zip(whose) {
            if self.columns.iter().all(|(name, _)| name != column) {
                self.columns.push((column.to_owned(), kind));
                self.rows.iter_mut().for_each(|row| row.push(cell.clone()));
            }
        }
        self
    }
}

/// Returns the tables of a report.
pub(super) fn tables(report: &Value) -> Vec<Flat> {
    // The schema is part of the program, and a test reads it.
    let schema: Value = serde_json::from_str(SCHEMA).unwrap_or_default();
    let mut all = Tables { schema: &schema, done: Vec::new() };
    all.root(report);
    all.done
}

struct Tables<'s> {
    schema: &'s Value,
    done: Vec<Flat>,
}

/// A value of a row: a column, by the keys that lead to it.
struct Field {
    name: String,
    keys: Vec<String>,
    kind: Kind,
}

/// A list or a map in a row, by the keys that lead to it.
struct Nested<'s> {
    name: String,
    keys: Vec<String>,
    schema: &'s Value,
}

/// What the elements of a table contain.
#[derive(Default)]
struct Plan<'s> {
    fields: Vec<Field>,
    nested: Vec<Nested<'s>>,
}

/// An element of a table: its place in it, its key in a map, the place of what it belongs to, and its value.
struct Element<'v> {
    parent: Option<usize>,
    key: Option<&'v str>,
    value: &'v Value,
}

impl<'s> Tables<'s> {
    fn root(&mut self, report: &Value) {
        let mut plain = Plan::default();
        for (key, schema) in properties(self.schema) {
            let schema = self.resolved(schema);
            let (name, value) = (format!("report_{key}"), report.get(key).unwrap_or(&Value::Null));
            if let Some(elements) = elements(schema, value, None) {
                self.table(name, schema, elements, false);
            } else if schema.get("properties").is_some() {
                let there = (!value.is_null()).then_some(Element { parent: None, key: None, value });
                self.rows(name, schema, there.into_iter().collect(), &[]);
            } else if let Some(kind) = kind(schema) {
                plain.fields.push(Field { name: named(key), keys: vec![key.clone()], kind });
            }
        }
        let row = plain.fields.iter().map(|field| field.cell(report)).collect();
        let columns = plain.fields.into_iter().map(|field| (field.name, field.kind)).collect();
        self.done.push(Flat { table: "report".to_owned(), columns, rows: vec![row] });
    }

    /// Adds the table of a list or a map, which may be inside another.
    fn table(&mut self, name: String, schema: &'s Value, elements: Vec<Element<'_>>, is_inside: bool) {
        let is_map = is_map(schema);
        let of = if is_map { schema.get("additionalProperties") } else { schema.get("items") };
        let of = self.resolved(of.unwrap_or(&Value::Null));
        let places = [(is_inside, "parent"), (true, "row"), (is_map, "key")];
        let places: Vec<&str> = places.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        self.rows(name, of, elements, &places);
    }

    /// Adds the table of elements with this schema. `places` are the columns that say where they are.
    fn rows(&mut self, name: String, schema: &'s Value, elements: Vec<Element<'_>>, places: &[&str]) {
        let mut plan = Plan::default();
        self.plan(schema, "", &[], &mut plan);
        let place =
            |name: &&str| ((*name).to_owned(), if *name == "key" { Kind::Text } else { Kind::Number });
        let fields = plan.fields.iter().map(|field| (field.name.clone(), field.kind));
        let columns = places.iter().map(place).chain(fields).collect();
        let row = |(at, element): (usize, &Element<'_>)| {
            let places = places.iter().map(|place| match *place {
                "key" => Cell::text(element.key),
                "parent" => Cell::number(Some(element.parent.unwrap_or(0))),
                _ => Cell::number(Some(at)),
            });
            places.chain(plan.fields.iter().map(|field| field.cell(element.value))).collect()
        };
        let rows = elements.iter().enumerate().map(row).collect();
        for Nested { name: of, keys, schema } in plan.nested {
            let inside = elements
                .iter()
                .enumerate()
                .filter_map(|(at, element)| self::elements(schema, at_keys(element.value, &keys), Some(at)));
            let inside = inside.flatten().collect();
            self.table(format!("{name}_{of}"), schema, inside, true);
        }
        self.done.push(Flat { table: name, columns, rows });
    }

    /// Adds what a value with this schema contains, after the keys that lead to it.
    fn plan(&self, schema: &'s Value, name: &str, keys: &[String], plan: &mut Plan<'s>) {
        let (keys, schema) = (keys.to_vec(), self.resolved(schema));
        if elements(schema, &Value::Null, None).is_some() {
            let name = if name.is_empty() { "values" } else { name }.to_owned();
            plan.nested.push(Nested { name, keys, schema });
        } else if is_estimate(schema) {
            for part in ["value", "lo", "hi", "kind"] {
                let kind = if part == "kind" { Kind::Text } else { Kind::Fraction };
                let column = match (name, part) {
                    ("", _) => part.to_owned(),
                    (_, "value") => name.to_owned(),
                    _ => format!("{name}_{part}"),
                };
                let keys = keys.iter().cloned().chain([part.to_owned()]).collect();
                plan.fields.push(Field { name: column, keys, kind });
            }
        } else if schema.get("properties").is_some() {
            for (key, inside) in properties(schema) {
                let keys: Vec<String> = keys.iter().cloned().chain([key.clone()]).collect();
                let name = if name.is_empty() { key.clone() } else { format!("{name}_{key}") };
                self.plan(inside, &name, &keys, plan);
            }
        } else if let Some(kind) = kind(schema) {
            let name = named(if name.is_empty() { "value" } else { name });
            plan.fields.push(Field { name, keys, kind });
        }
    }

    /// Follows a reference, and drops that the value may be null.
    fn resolved(&self, schema: &'s Value) -> &'s Value {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let known = name.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer));
            return known.map_or(schema, |known| self.resolved(known));
        }
        let choices = schema.get("anyOf").and_then(Value::as_array);
        let is_null = |choice: &&Value| choice.get("type").is_some_and(|of| of == "null");
        match choices.and_then(|choices| choices.iter().find(|choice| !is_null(choice))) {
            Some(choice) => self.resolved(choice),
            None => schema,
        }
    }
}

impl Field {
    fn cell(&self, value: &Value) -> Cell {
        cell(at_keys(value, &self.keys), self.kind)
    }
}

/// Returns a plain value of JSON as a column of a kind has it.
pub(super) fn cell(value: &Value, kind: Kind) -> Cell {
    match (value, kind) {
        (Value::Number(number), Kind::Fraction) => number.as_f64().map_or(Cell::Null, Cell::Fraction),
        (Value::Number(number), Kind::Number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Cell::Number(number),
            (None, number) => Cell::number(number.map(fitted)),
        },
        (Value::Bool(flag), Kind::Flag) => Cell::Flag(*flag),
        (Value::String(text), Kind::Text) => Cell::text(Some(text)),
        _ => Cell::Null,
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// The name of a column: that of its keys, unless a partition has it.
fn named(key: &str) -> String {
    if PARTITIONS.contains(&key) { format!("own_{key}") } else { key.to_owned() }
}

fn at_keys<'v>(value: &'v Value, keys: &[String]) -> &'v Value {
    keys.iter().fold(value, |value, key| value.get(key).unwrap_or(&Value::Null))
}

fn is_map(schema: &Value) -> bool {
    schema.get("properties").is_none() && schema.get("additionalProperties").is_some_and(Value::is_object)
}

/// Whether it is a number with bounds.
fn is_estimate(schema: &Value) -> bool {
    let keys = schema.get("properties").and_then(Value::as_object);
    let has =
        |keys: &Map<String, Value>| ["value", "lo", "hi", "kind"].iter().all(|key| keys.contains_key(*key));
    keys.is_some_and(has)
}

/// Returns the elements of a list or a map, or `None` if the schema is of neither.
fn elements<'v>(schema: &Value, value: &'v Value, parent: Option<usize>) -> Option<Vec<Element<'v>>> {
    if is_map(schema) {
        let of = value.as_object().into_iter().flatten();
        return Some(of.map(|(key, value)| Element { parent, key: Some(key), value }).collect());
    }
    schema.get("items")?;
    let of = value.as_array().into_iter().flatten();
    Some(of.map(|value| Element { parent, key: None, value }).collect())
}

/// Returns what a column of plain values holds; `None` if its values are not plain.
fn kind(schema: &Value) -> Option<Kind> {
    let of = |name: &str| match name {
        "integer" => Some(Kind::Number),
        "number" => Some(Kind::Fraction),
        "boolean" => Some(Kind::Flag),
        "string" => Some(Kind::Text),
        _ => None,
    };
    match schema.get("type") {
        Some(Value::String(name)) => of(name),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).find_map(of),
        // A choice of names, each with its description.
        _ => schema.get("oneOf").or_else(|| schema.get("enum")).map(|_| Kind::Text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn table<'t>(tables: &'t [Flat], name: &str) -> &'t Flat {
        tables.iter().find(|flat| flat.table == name).unwrap_or_else(|| panic!("{name}"))
    }

    fn value(flat: &Flat, row: usize, column: &str) -> Cell {
        let at = flat.columns.iter().position(|(name, _)| name == column);
        flat.rows[row][at.unwrap_or_else(|| panic!("{column} in {:?}", flat.columns))].clone()
    }

    #[test]
    fn every_key_of_the_report_is_in_a_table() {
        let tables = tables(&json!({}));
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let report = &table(&tables, "report").columns;
        for (key, _) in properties(&schema) {
            let is_plain = report.iter().any(|(name, _)| name == key);
            assert!(is_plain || tables.iter().any(|flat| flat.table == format!("report_{key}")), "{key}");
        }
        let names: BTreeSet<&str> = tables.iter().map(|flat| flat.table.as_str()).collect();
        assert_eq!(names.len(), tables.len(), "each table once");
        for flat in &tables {
            let lower: BTreeSet<String> = flat.columns.iter().map(|(name, _)| name.to_lowercase()).collect();
            assert_eq!(lower.len(), flat.columns.len(), "{}: names of SQL have no case", flat.table);
            assert!(!flat.columns.is_empty(), "{}", flat.table);
            let has = |name: &&str| lower.contains(*name);
            assert!(!PARTITIONS.iter().any(has), "{}: {lower:?}", flat.table);
        }
        for (name, flat) in [
            ("report_coverage_untimed", ["parent", "row", "key", "value"]),
            ("report_memory_timeline_peaks_bytes", ["parent", "row", "value", ""]),
            ("report_memory_timeline_by_kind_values", ["parent", "row", "value", ""]),
        ] {
            let columns: Vec<&str> =
                table(&tables, name).columns.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(columns, flat.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn rows_have_the_values_of_the_report() {
        let estimate = json!({"value": 5, "lo": 4, "hi": 7, "kind": "corrected"});
        let tables = tables(&json!({
            "wall_ns": 77,
            "overhead": null,
            "kernels": [
                {"name": "a", "count": 3, "total_ns": null, "queue": {"total_ns": estimate}},
                {"name": "b", "count": u64::MAX, "total_ns": estimate, "limited_by": ["warps", "blocks"]},
            ],
            "coverage": {"launches": 9, "driver_hooked": true, "untimed": {"run": 2, "off": 1}},
            "ranks": [{"rank": 3}],
        }));
        assert_eq!(value(table(&tables, "report"), 0, "wall_ns"), Cell::Number(77));
        assert!(table(&tables, "report_overhead").rows.is_empty(), "null has no row");
        let kernels = table(&tables, "report_kernels");
        assert_eq!(kernels.rows.len(), 2);
        assert_eq!(value(kernels, 1, "row"), Cell::Number(1));
        assert_eq!(value(kernels, 0, "total_ns"), Cell::Null);
        assert_eq!(value(kernels, 0, "queue_total_ns_hi"), Cell::Fraction(7.0));
        assert_eq!(value(kernels, 1, "total_ns"), Cell::Fraction(5.0));
        assert_eq!(value(kernels, 1, "total_ns_kind"), Cell::text(Some("corrected")));
        assert_eq!(value(kernels, 1, "count"), Cell::Number(i64::MAX));
        let limits = table(&tables, "report_kernels_limited_by");
        assert_eq!((value(limits, 1, "parent"), value(limits, 1, "row")), (Cell::Number(1), Cell::Number(1)));
        assert_eq!(value(limits, 1, "value"), Cell::text(Some("blocks")));
        assert_eq!(value(table(&tables, "report_coverage"), 0, "driver_hooked"), Cell::Flag(true));
        let untimed = table(&tables, "report_coverage_untimed");
        let found: Vec<_> =
            (0..2).map(|row| (value(untimed, row, "key"), value(untimed, row, "value"))).collect();
        assert!(found.contains(&(Cell::text(Some("run")), Cell::Number(2))), "{found:?}");
        assert_eq!(value(table(&tables, "report_ranks"), 0, "own_rank"), Cell::Number(3));
    }
}
