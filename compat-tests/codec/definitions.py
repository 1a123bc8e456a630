#!/usr/bin/env python3
"""Compares our schemas with the message definitions inside Kafka's jars, field by field and version by version.

A new release of Kafka shows here as a list of what to change. Of several releases the first that has a version of a
message judges it; older ones judge the versions that newer ones dropped."""

import json
import re
import sys
import zipfile
from pathlib import Path

SCHEMAS = Path(__file__).resolve().parents[2] / "src/protocol/schemas"
NEVER = range(0)
EVER = range(1 << 15)


def versions(text, otherwise=EVER):
    """`3+`, `0-12`, `7` or `none` as a range."""
    if text is None:
        return otherwise
    if text == "none":
        return NEVER
    low, _, high = text.partition("-")
    return range(int(low.rstrip("+")), 1 << 15 if text.endswith("+") else int(high or low) + 1)


def of_kafka(jar_files):
    """{name: definition} of the JSON files in these jars."""
    found = {}
    for jar in jar_files:
        with zipfile.ZipFile(jar) as files:
            for name in files.namelist():
                if re.search(r"(^|/)(message|metadata)/\w+\.json$", name):
                    text = re.sub(r"^\s*//.*$", "", files.read(name).decode(), flags=re.M)
                    definition = json.loads(text)
                    if definition["validVersions"] != "none":
                        found[definition["name"]] = definition
    return found


def kafka_fields(fields, shared, version, flexible):
    """The fields that a version has: a list of comparable lines, nested ones after their field."""
    for field in fields:
        if version not in versions(field.get("versions", field.get("taggedVersions"))):
            continue
        tagged = version in versions(field.get("taggedVersions"), NEVER)
        kind = field["type"]
        # JSON's null is no default: only the text "null" is.
        default = field.get("default")
        yield line(field["name"], kind, version in versions(field.get("nullableVersions"), NEVER),
                   field["tag"] if tagged else None,
                   flexible and version in versions(field.get("flexibleVersions")),
                   normal(default, kind), field.get("ignorable", False))
        inner = field.get("fields") or shared.get(kind.removeprefix("[]"), [])
        yield [*kafka_fields(inner, shared, version, flexible)]


def line(name, kind, nullable, tag, compact, default, ignorable):
    # The names of structs are nobody's but ours; the types of values are on the wire.
    return (name, re.sub(r"[A-Z]\w*", "struct", kind), "null" if nullable else "", f"tag {tag}" if tag is not None else "",
            "compact" if compact else "", f"= {default}", "ignorable" if ignorable else "")


def normal(default, kind):
    """A default in one spelling."""
    if default is None or default == "":
        return {"bool": "false"}.get(kind, "" if kind[0] in "[sbru" or kind[0].isupper() else "0")
    text = str(default).lower() if isinstance(default, bool) else str(default)
    if kind in ("string", "bool") or text == "null":
        return text
    return f"{float(text):g}" if kind == "float64" else str(int(text, 0))


def of_ours():
    """{name: (header words, fields, shared structs)} of the schema files."""
    found = {}
    for path in sorted(SCHEMAS.rglob("*.schema")):
        head, *lines = [text for text in path.read_text().splitlines() if text.strip()]
        words = head.split()
        shared, at = {}, next((at for at, text in enumerate(lines) if text.startswith("  struct ")), len(lines))
        fields = tree(lines[:at], 2)
        while at < len(lines):
            end = next((end for end in range(at + 1, len(lines)) if lines[end].startswith("  struct ")), len(lines))
            shared[lines[at].split()[1]] = tree(lines[at + 1:end], 4)
            at = end
        found[words[0]] = (words[1:], fields, shared)
    return found


def tree(lines, depth):
    """Nested lines as [(line, nested)]."""
    fields = []
    for text in lines:
        indent = len(text) - len(text.lstrip())
        if indent == depth:
            fields.append((text.strip(), []))
        else:
            fields[-1][1].append(text)
    return [(text, tree(nested, depth + 2)) for text, nested in fields]


def our_fields(fields, shared, version, flexible):
    for text, nested in fields:
        plain, _, attributes = text.partition("(")
        name, kind = plain.split()
        attributes = [part.strip() for part in attributes.rstrip(")").split(",") if part.strip()]
        take = lambda start: next((part.removeprefix(start) for part in attributes if part.startswith(start)), None)
        if version not in versions(next((part[1:] for part in attributes if re.match(r"v\d", part)), None)):
            continue
        nullable = "null" in attributes or version in versions(take("null:"), NEVER)
        tag = take("tag ")
        yield line(name, kind, nullable, tag, flexible and "flex:none" not in attributes,
                   normal(take("= "), kind), "ignorable" in attributes)
        yield [*our_fields(nested or shared.get(kind.removeprefix("[]"), []), shared, version, flexible)]


def flat(fields, depth=0):
    for part in fields:
        if isinstance(part, list):
            yield from flat(part, depth + 1)
        else:
            yield "  " * depth + " ".join(word for word in part if word and word != "= ")


def compare(releases):
    """What differs, as lines; empty when nothing does. `releases`: jars of each release, newest first."""
    kafkas, ours, wrong = [of_kafka(jars) for jars in releases], of_ours(), []
    for name in sorted(kafkas[0].keys() - ours.keys()):
        wrong.append(f"{name}: no schema")
    for name, (words, fields, shared) in ours.items():
        known = [kafka[name] for kafka in kafkas if name in kafka]
        known and wrong.extend(compare_heads(name, words, known[0]))
        low_high = next(versions(word[1:]) for word in words if re.match(r"v\d", word))
        flexible = versions(words[words.index("flex") + 1], NEVER)
        for version in low_high:
            judge = next((one for one in known if version in versions(one["validVersions"])), None)
            if judge is None:
                wrong.append(f"{name} {version}: in no release of Kafka")
                continue
            theirs_flexible = version in versions(judge["flexibleVersions"])
            structs = {struct["name"]: struct["fields"] for struct in judge.get("commonStructs", [])}
            for field in every(judge["fields"]):
                structs.setdefault(field["type"].removeprefix("[]"), field.get("fields", []))
            theirs = [*flat(kafka_fields(judge["fields"], structs, version, theirs_flexible))]
            mine = [*flat(our_fields(fields, shared, version, version in flexible))]
            if judge is not known[0]:
                # How values are kept in memory is for the newest to say.
                theirs, mine = ([text.removesuffix(" ignorable") for text in texts] for texts in (theirs, mine))
            if theirs != mine:
                wrong.append(f"{name} {version}: ours and Kafka's differ")
                wrong.extend(f"  ours  {text}" for text in mine if text not in theirs)
                wrong.extend(f"  Kafka {text}" for text in theirs if text not in mine)
    return wrong


def compare_heads(name, words, kafka):
    """Kind, key, newest version, where it turns flexible, whether the newest is stable."""
    span = next(versions(word[1:]) for word in words if re.match(r"v\d", word))
    flexible = versions(words[words.index("flex") + 1], NEVER)
    theirs = versions(kafka["flexibleVersions"])
    mine = {
        "kind": words[0],
        "key": int(words[words.index("key") + 1]) if "key" in words else None,
        "newest version": span[-1],
        "flexible versions": [version for version in span if version in flexible],
        "unstable": "newest-unstable" in words,
        "listeners": words[words.index("on") + 1].split(",") if "on" in words else None,
    }
    wanted = {
        "kind": kafka["type"],
        "key": kafka.get("apiKey"),
        "newest version": versions(kafka["validVersions"])[-1],
        "flexible versions": [version for version in span if version in theirs],
        "unstable": kafka.get("latestVersionUnstable", False),
        "listeners": kafka.get("listeners"),
    }
    return [f"{name}: {what} is {mine[what]}, Kafka has {wanted[what]}" for what in mine if mine[what] != wanted[what]]


def every(fields):
    for field in fields:
        yield field
        yield from every(field.get("fields", []))


if __name__ == "__main__":
    differences = compare([[*Path(folder).glob("kafka-*.jar")] for folder in sys.argv[1:]])
    print("\n".join(differences) or "no difference")
    sys.exit(1 if differences else 0)
