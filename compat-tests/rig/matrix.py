"""The table of README.md: what each client got from Apache Kafka, and whether Ottla gives it the same. It is made from the
recorded expectations and the list of known differences, so it is true as long as `run` passes."""

from rig import software

README = software.REPOSITORY / "README.md"
BEGIN, END = "<!-- matrix: written by compat-tests/run --table -->\n", "<!-- /matrix -->\n"

# A column: its title, and how the names of its operations begin. The first that fits takes an operation, the last takes all.
COLUMNS = {
    "topics": ("connect", "create-topic", "describe", "add-partitions", "delete-topic", "topics-"),
    "records": ("acks", "none", "gzip", "snappy", "lz4", "zstd", "idempotent", "records", "console", "producer-perf"),
    "offsets": ("seek", "delete-records", "get-offsets"),
    "groups": ("group", "static-member", "cooperative", "consumer-group", "reset", "verifiable-consumer"),
    "administration": ("",),
}
# Cells of the rig, not of the client; a table of them would say nothing.
OWN = ("program", "stop", "dump-log")


def column_of(operation):
    if operation == "records-delete":
        return "offsets"
    return next(title for title, beginnings in COLUMNS.items() if operation.startswith(beginnings))


def cell(operations, different):
    """`operations`: {operation: status with Kafka}; `different`: those in which Ottla is known not to give the same."""
    present = [operation for operation, status in operations.items() if status != "skip"]
    if not present:
        return "–"
    good = sum(operations[operation] == "ok" for operation in present)
    same = sum(operation not in different for operation in present)
    of = len(present)
    return f"{good} · {same}" if good == same == of else f"{good}/{of} · {same}/{of}"


def table(rows, known):
    """`rows`: {name: {operation: (status, detail)}}; `known`: {(row, operation): reason}. Lines of Markdown."""
    lines = ["| Kafka · Ottla | " + " | ".join(COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS)]
    for name, seen in rows.items():
        columns = {title: {} for title in COLUMNS}
        for operation, (status, _) in seen.items():
            if operation not in OWN:
                columns[column_of(operation)][operation] = status
        different = {operation for row, operation in known if row == name}
        lines.append(f"| {name} | " + " | ".join(cell(operations, different) for operations in columns.values()) + " |")
    notes = [f"- {row} {operation}: {reason}" for (row, operation), reason in known.items() if row in rows]
    return lines + (["", "Known differences:", "", *notes] if notes else [])


def current(rows, known):
    """README.md as it should be."""
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + "\n".join(table(rows, known)) + "\n\n" + END + after


def write(rows, known):
    README.write_text(current(rows, known))


def is_current(rows, known):
    return README.read_text() == current(rows, known)
