//! Generates the messages: reads `schemas/`, writes one Rust module per message
//! into `OUT_DIR/messages.rs`. The notation is explained in schemas/NOTATION.md.
//!
//! A build script may panic: a schema that cannot be read must stop the build.

#[path = "build/emit.rs"]
mod emit;
#[path = "build/schema.rs"]
mod schema;

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=schemas");
    println!("cargo:rerun-if-changed=build");
    let mut messages = Vec::new();
    for path in schema_files(Path::new("schemas")) {
        let text = fs::read_to_string(&path).expect("schema is readable");
        messages
            .push(schema::parse(&text).unwrap_or_else(|why| panic!("{}: {why}", path.display())));
    }
    messages.sort_by(|a, b| a.name.cmp(&b.name));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("messages.rs"), emit::module(&messages)).expect("OUT_DIR is writable");
}

/// Every `.schema` file below `folder`.
fn schema_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("schemas/ is there") {
        let path = entry.expect("schemas/ is readable").path();
        if path.is_dir() {
            files.extend(schema_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "schema") {
            files.push(path);
        }
    }
    files
}
