//! The JSON Schemas of the report and of the comparison of two, generated from their structs.

use super::diff::Diff;
use super::rows::Report;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::Value;

/// Returns the schema of what is written, as text.
fn schema<T: JsonSchema>() -> String {
    // A reader gets every key of a row, also those that are null: the schema of the output requires them all.
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(tidy));
    let schema = settings.into_generator().into_root_schema_for::<T>();
    format!("{:#}\n", schema.as_value())
}

/// Changes what schemars writes for Rust types into what a reader of the JSON needs to know.
fn tidy(schema: &mut Schema) {
    // Rows have no other keys than those of their struct; tables by name have any.
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    // The widths of Rust's integers are no formats of JSON Schema, and some validators reject unknown ones.
    schema.remove("format");
    // The line breaks of doc comments mean nothing.
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
}

/// Compares a schema's file with what the structs say, or writes it if that is wanted.
fn check<T: JsonSchema>(name: &str) {
    let path = format!("{}/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let schema = schema::<T>();
    if std::env::var_os("GPUSPY_UPDATE").is_some() {
        std::fs::write(&path, &schema).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(
        written == schema,
        "collector/schema/{name}.schema.json is out of date: GPUSPY_UPDATE=1 cargo nextest run -p gpuspy schema"
    );
}

#[test]
fn the_schema_file_describes_the_structs_of_the_report() {
    check::<Report>("report");
}

#[test]
fn the_schema_file_describes_the_structs_of_the_comparison() {
    check::<Diff>("diff");
}
