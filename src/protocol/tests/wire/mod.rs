//! Random messages as bytes, straight from the schemas: no code of the codec has
//! a part in them, so that whatever the codec makes of them can be judged.
//!
//! The bytes are canonical, as Kafka's own writer makes them: shortest varints,
//! tags ascending, no tagged field that equals its default. So a codec that
//! reads and writes them must give the same bytes again.

#![allow(dead_code, unreachable_pub, reason = "each test uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a schema that cannot be read must stop the test")]

#[path = "../../build/schema.rs"]
mod schema;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub use schema::{Field, Message, Versions};

/// Texts are put together of these: one to four bytes each, and some that have
/// confused others.
const LETTERS: &[&str] =
    &["a", "B", "0", "-", "_", ".", " ", "\0", "ß", "é", "ي", "한", "\u{feff}", "😀"];

/// Every schema, ascending by name.
pub fn schemas() -> Vec<Message> {
    // The codec's crate, or the broker's that it lies in.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let places = [root.join("schemas"), root.join("src/protocol/schemas")];
    let folder = places.iter().find(|folder| folder.is_dir()).unwrap();
    let mut messages: Vec<Message> = files(folder)
        .iter()
        .map(|path| schema::parse(&std::fs::read_to_string(path).unwrap()).unwrap())
        .collect();
    messages.sort_by(|a, b| a.name.cmp(&b.name));
    messages
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "schema") {
            found.push(path);
        }
    }
    found
}

/// True when `version` lies in `range`.
pub fn holds(range: Versions, version: i16) -> bool {
    range.0.is_some_and(|(low, high)| (low..=high).contains(&version))
}

/// The fields that `version` has outside the tag buffer.
fn plain(fields: &[Field], version: i16) -> impl Iterator<Item = &Field> {
    fields.iter().filter(move |field| field.tag.is_none() && holds(field.versions, version))
}

/// Where random choices come from: a string of bytes that proptest can shrink.
/// When it is used up every choice is 0, which is the simplest there is.
pub struct Choices<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn byte(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    fn wide(&mut self) -> [u8; 8] {
        [(); 8].map(|()| self.byte())
    }

    /// Eight bytes of a number, big-endian; the ends of ranges come often.
    fn number(&mut self) -> [u8; 8] {
        match self.below(8) {
            0 => [0; 8],
            1 => [0xff; 8],
            2 => 1_u64.to_be_bytes(),
            3 => [0x80, 0, 0, 0, 0, 0, 0, 0],
            4 => [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            _ => self.wide(),
        }
    }

    /// Mostly short; sometimes where a varint grows, or a writer stops copying.
    fn length(&mut self) -> usize {
        match self.below(16) {
            12 => 126,
            13 => 127,
            14 => 128,
            15 => 1500,
            short => short,
        }
    }

    fn text(&mut self) -> String {
        let length = self.length();
        let mut text = String::new();
        if length > 100 {
            return "x".repeat(length);
        }
        for _ in 0..length {
            text.push_str(LETTERS[self.below(LETTERS.len())]);
        }
        text
    }
}

/// Bytes of one random message.
pub fn generate(message: &Message, version: i16, choices: &mut Choices<'_>) -> Vec<u8> {
    let flexible = holds(message.flexible, version);
    let mut wire = Wire { message, version, flexible, out: Vec::new() };
    wire.fields(&message.fields, choices, 0);
    wire.out
}

/// The offsets in a message at which the count of an array stands, each with the
/// bytes up to it: a message with one element wherever one may be, cut there.
pub fn up_to_each_count(message: &Message, version: i16) -> Vec<Vec<u8>> {
    let flexible = holds(message.flexible, version);
    let mut wire = Wire { message, version, flexible, out: Vec::new() };
    let mut cuts = Vec::new();
    wire.fields_with_one(&message.fields, &mut cuts);
    cuts
}

/// A message while it is put together.
struct Wire<'a> {
    message: &'a Message,
    version: i16,
    flexible: bool,
    out: Vec<u8>,
}

impl<'a> Wire<'a> {
    fn fields(&mut self, fields: &'a [Field], choices: &mut Choices<'_>, depth: usize) {
        for field in plain(fields, self.version) {
            self.field(field, choices, depth);
        }
        if self.flexible {
            self.tag_buffer(fields, choices, depth);
        }
    }

    fn field(&mut self, field: &'a Field, choices: &mut Choices<'_>, depth: usize) {
        if holds(field.nullable, self.version) && choices.below(4) == 3 {
            return self.null(field);
        }
        if field.is_array {
            let count = choices.below(if depth > 2 { 2 } else { 4 });
            self.length(Some(count), self.compact(field), true);
            for _ in 0..count {
                self.value(field, choices, depth + 1);
            }
        } else {
            self.before_struct(field);
            self.value(field, choices, depth + 1);
        }
    }

    /// What tells that a nullable struct is there.
    fn before_struct(&mut self, field: &Field) {
        if holds(field.nullable, self.version) && self.inner(field).is_some() {
            self.out.push(1);
        }
    }

    fn value(&mut self, field: &'a Field, choices: &mut Choices<'_>, depth: usize) {
        if let Some(fields) = self.inner(field) {
            return self.fields(fields, choices, depth);
        }
        let number = choices.number();
        match field.element.as_str() {
            "bool" => self.out.push(number[7] & 1),
            "int8" => self.out.extend_from_slice(&number[7..]),
            "int16" | "uint16" => self.out.extend_from_slice(&number[6..]),
            "int32" | "uint32" => self.out.extend_from_slice(&number[4..]),
            "int64" => self.out.extend_from_slice(&number),
            // Not every NaN survives a processor's registers, or Java.
            "float64" if f64::from_be_bytes(number).is_nan() => self.out.extend_from_slice(&[0; 8]),
            "float64" => self.out.extend_from_slice(&number),
            "uuid" => {
                self.out.extend_from_slice(&number);
                let rest = choices.wide();
                self.out.extend_from_slice(&rest);
            }
            "string" => self.bytes(choices.text().as_bytes(), self.compact(field), false),
            "bytes" | "records" => {
                let length = choices.length();
                let filling = choices.byte();
                self.bytes(&vec![filling; length], self.compact(field), true);
            }
            other => panic!("a type that nobody knows: {other}"),
        }
    }

    /// Known tagged fields, then some that nobody knows.
    fn tag_buffer(&mut self, fields: &'a [Field], choices: &mut Choices<'_>, depth: usize) {
        let mut tagged: Vec<(u32, Vec<u8>)> = Vec::new();
        for field in fields {
            if !holds(field.versions, self.version) {
                continue;
            }
            let Some(tag) = field.tag else { continue };
            if choices.below(3) == 0 {
                continue;
            }
            let payload = self.aside(|wire| wire.field(field, choices, depth));
            if payload != self.aside(|wire| wire.default(field)) {
                tagged.push((tag, payload));
            }
        }
        let known: BTreeSet<u32> = fields.iter().filter_map(|field| field.tag).collect();
        let mut next = known.last().map_or(0, |last| last + 1);
        for _ in 0..choices.below(8).saturating_sub(5) {
            next += choices.below(3) as u32 * 200;
            let length = choices.length();
            tagged.push((next, vec![choices.byte(); length]));
            next += 1;
        }
        tagged.sort_by_key(|(tag, _)| *tag);
        self.varint(tagged.len() as u32);
        for (tag, payload) in tagged {
            self.varint(tag);
            self.varint(payload.len() as u32);
            self.out.extend_from_slice(&payload);
        }
    }

    /// The value that a tagged field is left out for.
    fn default(&mut self, field: &'a Field) {
        let compact = self.compact(field);
        let default = field.default.as_deref();
        if default == Some("null") {
            return self.null(field);
        }
        if field.is_array {
            return self.length(Some(0), compact, true);
        }
        if let Some(fields) = self.inner(field) {
            self.before_struct(field);
            return self.default_fields(fields);
        }
        let number = default.filter(|_| field.element != "string").map_or(0, parse_number);
        let bytes = number.to_be_bytes();
        match field.element.as_str() {
            "bool" | "int8" => self.out.extend_from_slice(&bytes[7..]),
            "int16" | "uint16" => self.out.extend_from_slice(&bytes[6..]),
            "int32" | "uint32" => self.out.extend_from_slice(&bytes[4..]),
            "int64" | "float64" => self.out.extend_from_slice(&bytes),
            "uuid" => self.out.extend_from_slice(&[0; 16]),
            "string" => self.bytes(default.unwrap_or_default().as_bytes(), compact, false),
            _ => self.length(Some(0), compact, true),
        }
    }

    fn default_fields(&mut self, fields: &'a [Field]) {
        for field in plain(fields, self.version) {
            self.default(field);
        }
        if self.flexible {
            self.varint(0);
        }
    }

    /// As `default_fields`, but each array has one element, and what stands
    /// before each count is noted.
    fn fields_with_one(&mut self, fields: &'a [Field], cuts: &mut Vec<Vec<u8>>) {
        for field in plain(fields, self.version) {
            if field.is_array {
                cuts.push(self.out.clone());
                self.length(Some(1), self.compact(field), true);
            }
            match self.inner(field) {
                Some(inner) if field.is_array || !holds(field.nullable, self.version) => {
                    self.fields_with_one(inner, cuts);
                }
                Some(_) => {
                    self.before_struct(field);
                    self.default(field);
                }
                None if field.is_array => self.one_element(field),
                None => self.default(field),
            }
        }
        if self.flexible {
            self.varint(0);
        }
    }

    fn one_element(&mut self, field: &'a Field) {
        match field.element.as_str() {
            "string" => self.bytes(b"t", self.compact(field), false),
            "bytes" => self.bytes(b"t", self.compact(field), true),
            _ => self.value(field, &mut Choices::new(&[]), 9),
        }
    }

    /// The fields of the struct that `field` is made of.
    fn inner(&self, field: &'a Field) -> Option<&'a [Field]> {
        if !field.fields.is_empty() {
            return Some(&field.fields);
        }
        let shared = self.message.structs.iter().find(|shared| shared.name == field.element);
        shared.map(|shared| shared.fields.as_slice())
    }

    fn compact(&self, field: &Field) -> bool {
        self.flexible && !field.never_flexible
    }

    fn null(&mut self, field: &Field) {
        let compact = self.compact(field);
        if self.inner_is_struct(field) {
            // In a tag buffer null is a varint.
            self.out.push(if field.tag.is_some() { 0 } else { 0xff });
        } else {
            self.length(None, compact, field.is_array || field.element != "string");
        }
    }

    fn inner_is_struct(&self, field: &Field) -> bool {
        !field.is_array && field.element.starts_with(|first: char| first.is_ascii_uppercase())
    }

    fn bytes(&mut self, bytes: &[u8], compact: bool, wide: bool) {
        self.length(Some(bytes.len()), compact, wide);
        self.out.extend_from_slice(bytes);
    }

    fn length(&mut self, length: Option<usize>, compact: bool, wide: bool) {
        match (compact, wide) {
            (true, _) => self.varint(length.map_or(0, |length| length as u32 + 1)),
            (false, true) => {
                let length = length.map_or(-1, |length| length as i32);
                self.out.extend_from_slice(&length.to_be_bytes());
            }
            (false, false) => {
                let length = length.map_or(-1, |length| length as i16);
                self.out.extend_from_slice(&length.to_be_bytes());
            }
        }
    }

    fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    /// What `write` writes, by itself.
    fn aside(&self, write: impl FnOnce(&mut Self)) -> Vec<u8> {
        let mut wire = Wire { out: Vec::new(), ..*self };
        write(&mut wire);
        wire.out
    }
}

fn parse_number(text: &str) -> i64 {
    match (text, text.strip_prefix("0x")) {
        ("true", _) => 1,
        ("false", _) => 0,
        (_, Some(hex)) => i64::from_str_radix(hex, 16).unwrap(),
        _ => text.parse().unwrap(),
    }
}

/// Bytes that depend on `seed` alone (splitmix64).
pub fn random(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// Changes, takes away or adds a byte, or cuts the end off.
pub fn damage(case: u64, bytes: &mut Vec<u8>) {
    let dice = random(case + 5000 + bytes.len() as u64, 4);
    let Some(at) = (usize::from(dice[0]) << 8 | usize::from(dice[1])).checked_rem(bytes.len())
    else {
        return;
    };
    match dice[2] % 6 {
        0 => bytes[at] = dice[3],
        1 => bytes[at] = bytes[at].wrapping_add(1),
        2 => bytes[at] = bytes[at].wrapping_sub(1),
        3 => bytes.truncate(at),
        4 => bytes.insert(at, dice[3]),
        _ => drop(bytes.remove(at)),
    }
}
