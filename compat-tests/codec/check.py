#!/usr/bin/env python3
"""Lets Kafka judge our codec: its message definitions, field by field, and its generated classes, byte by byte.

Kafka 4.4.0 judges every version that it has, Kafka 3.9.2 those that 4.0 dropped."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from codec import definitions
from rig import software

RELEASES = [software.KAFKA_COORDINATES, ("org.apache.kafka:kafka-clients:3.9.2",)]


def check():
    """Returns what differs, as text; empty when nothing does."""
    software.need("javac")
    folders = [software.jars(*coordinates) for coordinates in RELEASES]
    wrong = definitions.compare([[*folder.glob("kafka*.jar")] for folder in folders])
    source = Path(__file__).with_name("Classes.java")
    classes = software.once(software.WORK / "classes" / "codec", source.read_text(), lambda: software.sh(
        ["javac", "--release", "11", "-nowarn", "-cp", f"{folders[-1]}/*", "-d", software.WORK / "classes" / "codec", source]))
    commands = [" ".join([*software.JVM, "-cp", f"{classes}:{folder}/*", "Classes"]) for folder in folders]
    try:
        software.sh(["cargo", "test", "-p", "ottla-protocol", "--test", "kafka_classes", "--", "--ignored"],
                    cwd=software.REPOSITORY, env={**os.environ, "KAFKA_CLASSES": "\n".join(commands)})
    except RuntimeError as error:
        wrong.append(str(error))
    return "\n".join(wrong)


if __name__ == "__main__":
    differences = check()
    print(differences or "codec: as Kafka's")
    sys.exit(1 if differences else 0)
