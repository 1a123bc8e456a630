//! Reads the notation of the schema files into a small syntax tree.

/// One message: header line and fields.
pub struct Message {
    pub name: String,
    pub kind: String,
    pub key: Option<i16>,
    pub versions: Versions,
    pub flexible: Versions,
    pub newest_unstable: bool,
    pub fields: Vec<Field>,
    /// Structs that several fields share.
    pub structs: Vec<Struct>,
}

/// A struct named at the end of a message.
pub struct Struct {
    pub name: String,
    pub fields: Vec<Field>,
}

/// A range of versions, both ends included; `None` for no version at all.
#[derive(Clone, Copy, PartialEq)]
pub struct Versions(pub Option<(i16, i16)>);

/// One field, in wire order.
pub struct Field {
    pub name: String,
    /// The type without the array brackets.
    pub element: String,
    pub is_array: bool,
    pub versions: Versions,
    pub nullable: Versions,
    pub tag: Option<u32>,
    /// A flexible range of its own: only ever "none".
    pub never_flexible: bool,
    pub default: Option<String>,
    pub ignorable: bool,
    /// Fields of a struct that is defined in place.
    pub fields: Vec<Self>,
}

impl Versions {
    pub const ALL: Self = Self(Some((0, i16::MAX)));
    pub const NONE: Self = Self(None);

    /// `3+`, `0-12`, `7` or `none`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number =
            |digits: &str| digits.parse::<i16>().map_err(|_| format!("not a version: {text}"));
        if text == "none" {
            return Ok(Self::NONE);
        }
        if let Some(low) = text.strip_suffix('+') {
            return Ok(Self(Some((number(low)?, i16::MAX))));
        }
        match text.split_once('-') {
            Some((low, high)) => Ok(Self(Some((number(low)?, number(high)?)))),
            None => number(text).map(|version| Self(Some((version, version)))),
        }
    }

    /// True when every version of `other` is in this range.
    pub fn covers(self, other: Self) -> bool {
        match (self.0, other.0) {
            (_, None) => true,
            (None, _) => false,
            (Some((low, high)), Some((other_low, other_high))) => {
                low <= other_low && other_high <= high
            }
        }
    }

    /// The versions in both ranges.
    pub fn and(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some((a, b)), Some((c, d))) if a.max(c) <= b.min(d) => {
                Self(Some((a.max(c), b.min(d))))
            }
            _ => Self::NONE,
        }
    }
}

/// Parses one schema file.
pub fn parse(text: &str) -> Result<Message, String> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
    let head = lines.next().ok_or("empty file")?;
    let mut words = head.split_whitespace();
    let name = words.next().ok_or("no name")?.to_owned();
    let kind = words.next().ok_or("no kind")?.to_owned();
    let mut message = Message {
        name,
        kind,
        key: None,
        versions: Versions::NONE,
        flexible: Versions::NONE,
        newest_unstable: false,
        fields: Vec::new(),
        structs: Vec::new(),
    };
    while let Some(word) = words.next() {
        match word {
            "key" => message.key = words.next().and_then(|key| key.parse().ok()),
            "flex" => message.flexible = Versions::parse(words.next().ok_or("flex what?")?)?,
            "newest-unstable" => message.newest_unstable = true,
            // Which listeners serve it; the list of APIs repeats it where it is used.
            "on" => drop(words.next()),
            range => {
                message.versions = Versions::parse(
                    range.strip_prefix('v').ok_or_else(|| format!("what is {range}?"))?,
                )?
            }
        }
    }
    let lines: Vec<&str> = lines.collect();
    let mut at = 0;
    message.fields = fields(&lines, &mut at, 2)?;
    while let Some(line) = lines.get(at) {
        let name = line.trim().strip_prefix("struct ").ok_or_else(|| format!("what is {line}?"))?;
        let name = name.split_whitespace().next().ok_or("struct without name")?.to_owned();
        at += 1;
        message.structs.push(Struct { name, fields: fields(&lines, &mut at, 4)? });
    }
    Ok(message)
}

/// The fields at one depth of indentation, with what is nested in them.
fn fields(lines: &[&str], at: &mut usize, depth: usize) -> Result<Vec<Field>, String> {
    let mut found = Vec::new();
    while let Some(line) = lines.get(*at) {
        let indent = line.len() - line.trim_start().len();
        if indent < depth || line.trim().starts_with("struct ") {
            break;
        }
        if indent > depth {
            return Err(format!("unexpected depth: {line}"));
        }
        let mut field = field(line)?;
        *at += 1;
        field.fields = fields(lines, at, depth + 2)?;
        found.push(field);
    }
    Ok(found)
}

/// One field's line: name, type, attributes.
fn field(line: &str) -> Result<Field, String> {
    let (plain, attributes) = match line.split_once('(') {
        Some((plain, rest)) => {
            (plain, rest.trim_end().strip_suffix(')').ok_or_else(|| format!("unclosed: {line}"))?)
        }
        None => (line, ""),
    };
    let mut words = plain.split_whitespace();
    let name = words.next().ok_or("field without name")?.to_owned();
    let kind = words.next().ok_or_else(|| format!("field without type: {line}"))?;
    let mut field = Field {
        name,
        element: kind.trim_start_matches("[]").to_owned(),
        is_array: kind.starts_with("[]"),
        versions: Versions::ALL,
        nullable: Versions::NONE,
        tag: None,
        never_flexible: false,
        default: None,
        ignorable: false,
        fields: Vec::new(),
    };
    for attribute in attributes.split(',').map(str::trim).filter(|attribute| !attribute.is_empty())
    {
        apply(&mut field, attribute).map_err(|why| format!("{line}: {why}"))?;
    }
    Ok(field)
}

fn apply(field: &mut Field, attribute: &str) -> Result<(), String> {
    if let Some(default) = attribute.strip_prefix("= ") {
        field.default = Some(default.to_owned());
    } else if let Some(range) = attribute.strip_prefix("null:") {
        field.nullable = Versions::parse(range)?;
    } else if let Some(tag) = attribute.strip_prefix("tag ") {
        field.tag = Some(tag.parse().map_err(|_| format!("not a tag: {tag}"))?);
    } else {
        match attribute {
            "null" => field.nullable = Versions::ALL,
            "ignorable" => field.ignorable = true,
            "flex:none" => field.never_flexible = true,
            // Says something to readers, nothing to the codec.
            "key" | "zerocopy" => {}
            range => {
                field.versions = Versions::parse(
                    range.strip_prefix('v').ok_or_else(|| format!("what is {range}?"))?,
                )?
            }
        }
    }
    Ok(())
}
