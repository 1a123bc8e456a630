//! Writes Rust for the messages: a module each, with plain structs that read and
//! write themselves.

use std::fmt::Write as _;

/// Appends one line.
macro_rules! line {
    ($out:expr, $($format:tt)*) => {{
        let _ = writeln!($out, $($format)*);
    }};
}

use crate::schema::{Field, Message, Versions};

/// All messages, and the catalogue that lists them.
pub fn module(messages: &[Message]) -> String {
    let mut out = String::new();
    for message in messages {
        emit_message(&mut out, message);
    }
    out.push_str("/// Every message there is, by name.\npub const CATALOGUE: &[crate::catalogue::Entry] = &[\n");
    for message in messages {
        line!(
            out,
            "crate::catalogue::Entry::of::<{}::{}>(crate::catalogue::Kind::{}),",
            snake(&message.name),
            message.name,
            camel(&message.kind)
        );
    }
    out.push_str("];\n");
    out
}

/// What the emission of a field needs to know of its message.
#[derive(Clone, Copy)]
struct Scope {
    versions: Versions,
    flexible: Versions,
}

fn emit_message(out: &mut String, message: &Message) {
    let scope = Scope { versions: message.versions, flexible: message.flexible };
    let (low, high) = message.versions.0.expect("a message has versions");
    line!(
        out,
        "/// {} ({}{}), versions {low} to {high}.\npub mod {} {{\nuse crate::codec::*;\n",
        message.name,
        message.kind,
        message.key.map(|key| format!(" {key}")).unwrap_or_default(),
        snake(&message.name)
    );
    emit_struct(out, &message.name, &message.fields, scope);
    for shared in &message.structs {
        emit_struct(out, &shared.name, &shared.fields, scope);
    }
    let key = message.key.map_or_else(|| "None".to_owned(), |key| format!("Some({key})"));
    line!(
        out,
        "impl Message for {name} {{
            const NAME: &'static str = \"{name}\";
            const KEY: Option<i16> = {key};
            const VERSIONS: std::ops::RangeInclusive<i16> = {low}..={high};
            const NEWEST_UNSTABLE: bool = {unstable};
            fn is_flexible(version: i16) -> bool {{ let _ = version; {flexible} }}
        }}\n}}",
        name = message.name,
        unstable = message.newest_unstable,
        flexible = condition(message.flexible, Versions::ALL).unwrap_or_else(|| "true".to_owned()),
    );
}

/// A struct, the structs defined inside it, and their code.
fn emit_struct(out: &mut String, name: &str, fields: &[Field], scope: Scope) {
    let has_tags = scope.flexible.0.is_some();
    line!(out, "/// {name}.\n#[derive(Clone, Debug, PartialEq)]\npub struct {name} {{");
    for field in fields {
        line!(out, "/// {}\npub {}: {},", describe(field), ident(&field.name), rust_type(field));
    }
    if has_tags {
        out.push_str("/// Tagged fields that this schema does not know, kept as they came.\npub unknown_tagged_fields: Vec<RawTaggedField>,\n");
    }
    line!(out, "}}\nimpl Default for {name} {{ fn default() -> Self {{ Self {{");
    for field in fields {
        line!(out, "{}: {},", ident(&field.name), default_of(field));
    }
    if has_tags {
        out.push_str("unknown_tagged_fields: Vec::new(),\n");
    }
    out.push_str("} } }\n");
    emit_field_impl(out, name, fields, scope);
    for field in fields.iter().filter(|field| !field.fields.is_empty()) {
        let inner = Scope { versions: scope.versions.and(field.versions), ..scope };
        emit_struct(out, &field.element, &field.fields, inner);
    }
}

fn emit_field_impl(out: &mut String, name: &str, fields: &[Field], scope: Scope) {
    let flexible = condition(scope.flexible, scope.versions);
    let flexible = flexible.unwrap_or_else(|| "true".to_owned());
    line!(
        out,
        "impl Field for {name} {{
        fn read(r: &mut Reader, version: i16, _flexible: bool) -> Result<Self, DecodeError> {{
        let flexible = {flexible};
        let mut s = Self::default();"
    );
    for field in fields.iter().filter(|field| field.tag.is_none()) {
        let read = format!("s.{} = {};", ident(&field.name), read_expression(field, scope));
        match condition(field.versions, scope.versions) {
            Some(condition) => line!(out, "if {condition} {{ {read} }}"),
            None => line!(out, "{read}"),
        }
    }
    if scope.flexible.0.is_some() {
        emit_tagged_read(out, fields, scope);
    }
    out.push_str("let _ = (flexible, version); Ok(s) }\n");
    line!(
        out,
        "fn write(&self, w: &mut Writer, version: i16, _flexible: bool) -> Result<(), EncodeError> {{
        let flexible = {flexible};"
    );
    for field in fields.iter().filter(|field| field.tag.is_none()) {
        emit_write(out, field, scope);
    }
    if scope.flexible.0.is_some() {
        emit_tagged_write(out, fields, scope);
    }
    line!(out, "let _ = (flexible, version); let _ = w; Ok(()) }} }}\nimpl Struct for {name} {{}}");
}

/// Reads the tag buffer; a known tag fills its field.
fn emit_tagged_read(out: &mut String, fields: &[Field], scope: Scope) {
    out.push_str(
        "if flexible { let mut unknown = Vec::new();\nr.tagged_fields(|tag, r| { match tag {\n",
    );
    for field in fields {
        let Some(tag) = field.tag else { continue };
        let guard = condition(field.versions, scope.versions.and(scope.flexible));
        let guard = guard.map(|condition| format!("if {condition}")).unwrap_or_default();
        let read = if is_nullable_struct(field) {
            "read_tagged_struct(r, version)?"
        } else {
            "Field::read(r, version, true)?"
        };
        line!(out, "{tag} {guard} => s.{} = {read},", ident(&field.name));
    }
    out.push_str("_ => unknown.push(r.raw_tagged_field(tag)),\n} Ok(()) })?;\ns.unknown_tagged_fields = unknown; }\n");
}

fn emit_tagged_write(out: &mut String, fields: &[Field], scope: Scope) {
    out.push_str("if flexible {\n");
    let tagged: Vec<&Field> = fields.iter().filter(|field| field.tag.is_some()).collect();
    if tagged.is_empty() {
        out.push_str("w.raw_tagged_fields(&self.unknown_tagged_fields); }\n");
        return;
    }
    out.push_str("let mut tagged = Tagged::default();\n");
    for field in &tagged {
        let name = ident(&field.name);
        let guard = condition(field.versions, scope.versions.and(scope.flexible));
        let guard = guard.map(|condition| format!("({condition}) && ")).unwrap_or_default();
        let write = if is_nullable_struct(field) {
            format!("write_tagged_struct(&self.{name}, w, version)")
        } else {
            format!("self.{name}.write(w, version, true)")
        };
        line!(
            out,
            "if {guard}self.{name} != {} {{ tagged.add({}, |w| {write})?; }}",
            default_of(field),
            field.tag.unwrap_or_default()
        );
    }
    out.push_str("tagged.finish(w, &self.unknown_tagged_fields); }\n");
    for field in tagged.iter().filter(|field| !field.ignorable) {
        let present = scope.versions.and(scope.flexible).and(field.versions);
        if let Some(present) = condition(present, scope.versions) {
            line!(out, "if !({present}) {{ {} }}", refuse(field));
        }
    }
}

/// Writes a plain field, or refuses a value that this version cannot carry.
fn emit_write(out: &mut String, field: &Field, scope: Scope) {
    let name = ident(&field.name);
    let here = scope.versions.and(field.versions);
    let flexible = if field.never_flexible { "false" } else { "flexible" };
    let plain = format!("self.{name}.write(w, version, {flexible})?;");
    let strict = format!(
        "self.{name}.as_ref().ok_or(EncodeError::Null {{ field: \"{}\" }})?.write(w, version, {flexible})?;",
        field.name
    );
    let write = if field.nullable.0.is_none() {
        plain
    } else {
        match condition(field.nullable, here) {
            None => plain,
            Some(nullable) => format!("if {nullable} {{ {plain} }} else {{ {strict} }}"),
        }
    };
    match condition(field.versions, scope.versions) {
        None => line!(out, "{write}"),
        Some(present) if field.ignorable => line!(out, "if {present} {{ {write} }}"),
        Some(present) => {
            line!(out, "if {present} {{ {write} }} else {{ {} }}", refuse(field))
        }
    }
}

fn refuse(field: &Field) -> String {
    format!(
        "if self.{} != {} {{ return Err(EncodeError::NotInVersion {{ field: \"{}\", version }}); }}",
        ident(&field.name),
        default_of(field),
        field.name
    )
}

fn read_expression(field: &Field, scope: Scope) -> String {
    let flexible = if field.never_flexible { "false" } else { "flexible" };
    let plain = format!("Field::read(r, version, {flexible})?");
    if field.nullable.0.is_none() {
        return plain;
    }
    match condition(field.nullable, scope.versions.and(field.versions)) {
        None => plain,
        Some(nullable) => format!("if {nullable} {{ {plain} }} else {{ Some({plain}) }}"),
    }
}

/// The test that `version` lies in `range`, given that it lies in `known`;
/// `None` when it always does.
fn condition(range: Versions, known: Versions) -> Option<String> {
    if range.covers(known) {
        return None;
    }
    let Some((low, high)) = range.0 else { return Some("false".to_owned()) };
    let (known_low, known_high) = known.0.unwrap_or((0, i16::MAX));
    Some(match (low > known_low, high < known_high) {
        (true, true) if low == high => format!("version == {low}"),
        (true, true) => format!("({low}..={high}).contains(&version)"),
        (true, false) => format!("version >= {low}"),
        (false, true) => format!("version <= {high}"),
        (false, false) => return None,
    })
}

fn is_primitive(element: &str) -> bool {
    element.starts_with(|first: char| first.is_ascii_lowercase())
}

fn is_nullable_struct(field: &Field) -> bool {
    field.nullable.0.is_some() && !field.is_array && !is_primitive(&field.element)
}

fn rust_type(field: &Field) -> String {
    let plain = plain_type(field);
    if field.nullable.0.is_some() { format!("Option<{plain}>") } else { plain }
}

/// The type of a value that is not null.
fn plain_type(field: &Field) -> String {
    let element = match field.element.as_str() {
        "int8" => "i8",
        "int16" => "i16",
        "int32" => "i32",
        "int64" => "i64",
        "uint16" => "u16",
        "uint32" => "u32",
        "float64" => "f64",
        "string" => "Str",
        "bytes" => "Bytes",
        "records" => "Records",
        "uuid" => "Uuid",
        other => other,
    };
    if field.is_array { format!("Vec<{element}>") } else { element.to_owned() }
}

fn default_of(field: &Field) -> String {
    let plain = match field.default.as_deref() {
        Some("null") => return "None".to_owned(),
        Some(value)
            if !field.is_array && is_primitive(&field.element) && field.element != "string" =>
        {
            value.to_owned()
        }
        Some(value) if field.element == "string" => format!("Str::from(\"{value}\")"),
        _ => format!("<{}>::default()", plain_type(field)),
    };
    if field.nullable.0.is_some() { format!("Some({plain})") } else { plain }
}

/// One line of documentation: what stands in the schema.
fn describe(field: &Field) -> String {
    let mut text = format!("{}{}", if field.is_array { "array of " } else { "" }, field.element);
    if let Some((low, high)) = field.versions.0
        && field.versions != Versions::ALL
    {
        let end = if high == i16::MAX { "on".to_owned() } else { format!("to {high}") };
        let _ = write!(text, ", from version {low} {end}");
    }
    if let Some(tag) = field.tag {
        let _ = write!(text, ", tag {tag}");
    }
    if let Some(default) = &field.default {
        let _ = write!(text, ", default {default}");
    }
    text
}

/// A field's name in Rust.
fn ident(name: &str) -> String {
    let name = snake(name);
    match name.as_str() {
        "type" | "match" | "move" | "ref" | "self" => format!("r#{name}"),
        _ => name,
    }
}

/// `LogAppendTimeMs` to `log_append_time_ms`.
fn snake(name: &str) -> String {
    let characters: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (at, &character) in characters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| characters[before]);
        let after = characters.get(at + 1);
        let starts_word = character.is_ascii_uppercase()
            && before.is_some_and(|before| {
                !before.is_ascii_uppercase() || after.is_some_and(char::is_ascii_lowercase)
            });
        if starts_word {
            out.push('_');
        }
        out.push(character.to_ascii_lowercase());
    }
    out
}

/// `coordinator-key` to `CoordinatorKey`.
fn camel(kind: &str) -> String {
    kind.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}
