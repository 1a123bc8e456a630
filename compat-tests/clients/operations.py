"""The frame of the Python rows: runs a client's operations in order and prints one line for each,
`operation TAB ok|skip|FAIL TAB detail`. The detail says what was seen and is compared with what Apache Kafka gave."""

import signal
import sys
import time

OPERATIONS = ["connect", "create-topic", "describe", "acks", "none", "gzip", "snappy", "lz4", "zstd", "idempotent",
              "records", "seek", "add-partitions", "configs", "delete-records", "delete-topic",
              "group-consume", "group-rebalance", "static-member", "cooperative-sticky", "groups-admin"]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SECONDS = 60


class Skip(Exception):
    """The client has no such feature."""


def expect(what, seen, wanted):
    """Fails the operation when a value is not what it must be."""
    if seen != wanted:
        text = f"{what}: {str(seen)[:200]} instead of {str(wanted)[:200]}"
        raise AssertionError(text)


def values(label, count):
    """Values that a codec can shrink, each different."""
    return [f"{label}-{number} ".encode() * 20 for number in range(count)]


def timestamps(count):
    """`count` times, one second apart, the first an hour ago."""
    first = (int(time.time()) - 3600) * 1000
    return [first + number * 1000 for number in range(count)]


# What the operation `records` sends: (key, value, headers). The second has two headers of one name, a null and an empty one.
RECORDS = [
    (b"key", b"value", []),
    (b"headers", b"value", [("a", b"1"), ("a", b"2"), ("null", None), ("empty", b"")]),
    (None, b"no key", []),
    (b"no value", None, []),
    (b"", b"", []),
    ("ключ".encode(), "значение".encode(), []),
    (b"large", bytes(range(256)) * 3906, []),
]
TOO_LARGE = b"x" * 1_100_000


def _too_long(_signal, _frame):
    raise TimeoutError(f"not done within {SECONDS} s")


def run(client):
    """Calls the client's method of each operation's name; `codec(name)` stands for the five codecs, and what is done with
    groups is in `groups`, whose members are made by `member`."""
    import groups  # it uses what is above
    signal.signal(signal.SIGALRM, _too_long)
    for operation in OPERATIONS:
        signal.alarm(SECONDS)
        try:
            if operation in CODECS:
                detail = client.codec(operation)
            elif operation in groups.SCENARIOS:
                detail = groups.SCENARIOS[operation](client)
            else:
                detail = getattr(client, operation.replace("-", "_"))()
            outcome = "ok"
        except Skip as reason:
            outcome, detail = "skip", str(reason)
        except Exception as error:
            outcome, detail = "FAIL", f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        print(operation, outcome, " ".join((detail or "").split()), sep="\t", flush=True)
    sys.stdout.flush()
