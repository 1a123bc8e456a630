//! Golden scripts: a file of situations, each a line of input after `> ` and the
//! output expected below it. `UPDATE=1 cargo test` writes what came out instead.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

/// Runs the script at `path` (below `src`); `step` turns an input line into the
/// lines that it causes.
#[allow(dead_code, reason = "not every test that takes this file in has such steps")]
pub fn run(path: &str, mut step: impl FnMut(&str) -> String) {
    run_knowing(path, |line, _| step(line));
}

/// The same for steps whose output takes time to come: each is told how many lines
/// are expected of it.
#[allow(dead_code, reason = "not every test that takes this file in has such steps")]
pub fn run_knowing(path: &str, mut step: impl FnMut(&str, usize) -> String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
    let expected = fs::read_to_string(&file).unwrap();
    let mut actual = String::new();
    let mut lines = expected.lines();
    while let Some(line) = lines.next() {
        match line.strip_prefix("> ") {
            Some(input) => {
                let is_output = |line: &&str| {
                    !line.is_empty() && !line.starts_with("> ") && !line.starts_with('#')
                };
                let output = step(input, lines.clone().take_while(is_output).count());
                let _ = writeln!(actual, "{line}");
                let _ = output.lines().try_for_each(|line| writeln!(actual, "{line}"));
            }
            None if line.is_empty() || line.starts_with('#') => {
                let _ = writeln!(actual, "{line}");
            }
            None => {}
        }
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(&file, actual).unwrap();
    } else {
        assert!(
            actual == expected,
            "{path} says otherwise{}",
            first_difference(&expected, &actual)
        );
    }
}

/// Where two texts begin to differ, with the lines around: short enough for a log.
fn first_difference(expected: &str, actual: &str) -> String {
    const BEFORE: usize = 4;
    const AFTER: usize = 6;
    let same = expected.lines().zip(actual.lines()).take_while(|(one, other)| one == other).count();
    let mut told = format!(" at line {}; UPDATE=1 writes what came out\n", same + 1);
    let from = same.saturating_sub(BEFORE);
    for line in expected.lines().take(same).skip(from) {
        let _ = writeln!(told, "  {line}");
    }
    for (sign, text) in [('-', expected), ('+', actual)] {
        for line in text.lines().skip(same).take(AFTER) {
            let _ = writeln!(told, "{sign} {line}");
        }
    }
    told
}
