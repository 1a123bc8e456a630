"""Conducts ten members of one group through rounds of joins, leaves and crashes under load; see ../groups. Says `kill the
broker` when it is the broker's turn. Half of the members are static: they come back under their name after a crash.

A member (clients/member.py) tells on its standard output what it owns in which generation, and what it has processed. What
it told counts, even if it was killed right after."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, GROUP, PARTITIONS = "work", "workers", 12
MEMBERS = 10
PER_SECOND = 500
SECONDS_TO_CATCH_UP = 90


class Load:
    """Writes numbers until it is stopped; what was acknowledged must be processed."""

    def __init__(self, settings):
        self.errors, self.ends = [], [0] * PARTITIONS
        self.stopping = False
        self.producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 0,
                                  "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20, "error_cb": self.failed})
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def failed(self, error):
        if error.fatal():
            self.errors.append(f"producer: {error}")

    def acknowledged(self, error, message):
        if error:
            self.errors.append(f"a record failed: {error}")
        else:
            self.ends[message.partition()] = max(self.ends[message.partition()], message.offset() + 1)

    def run(self):
        while not self.stopping:
            for _ in range(PER_SECOND // 50):
                self.producer.produce(TOPIC, b"x" * 100, partition=random.randrange(PARTITIONS), on_delivery=self.acknowledged)
            self.producer.poll(0)
            time.sleep(0.02)

    def stop(self):
        self.stopping = True
        self.thread.join()
        if self.producer.flush(60):
            self.errors.append("records are not acknowledged after a minute")


class Books:
    """What members told: who owned what, and what was processed."""

    def __init__(self):
        self.lock = threading.Lock()
        self.wrong = []
        self.owners = {}  # (generation, partition) -> name
        self.processed = [defaultdict(int) for _ in range(PARTITIONS)]  # first -> last + 1
        self.generations = set()

    def hear(self, name, line):
        with self.lock:
            what, *words = line.split()
            if what == "owns":
                generation = int(words[0])
                self.generations.add(generation)
                for partition in map(int, words[1:]):
                    owner = self.owners.setdefault((generation, partition), name)
                    if owner != name:
                        self.wrong.append(f"{TOPIC}-{partition} is owned by {owner} and {name} in generation {generation}")
            elif what == "did":
                partition, first, end = map(int, words)
                self.processed[partition][first] = max(self.processed[partition][first], end)
            else:
                self.wrong.append(f"{name}: {line}")

    def missing(self, partition, end):
        """The first record that nobody processed, or none."""
        at = 0
        for first, last in sorted(self.processed[partition].items()):
            if first > at:
                break
            at = max(at, last)
        return at if at < end else None


class Member:
    def __init__(self, name, address, strategy, books):
        self.name, self.books = name, books
        command = [sys.executable, str(Path(__file__).with_name("member.py")), address, GROUP, TOPIC, name, strategy]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        for line in self.process.stdout:
            self.books.hear(self.name, line.strip())

    def end(self, how):
        self.process.send_signal(how)

    def wait(self):
        self.process.wait(60)
        self.thread.join()


def lag(settings, ends):
    """By how much the commits are behind, partition by partition."""
    consumer = Consumer({**settings, "group.id": GROUP, "enable.auto.commit": False})
    try:
        found = consumer.committed([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)], timeout=10)
        return [end - max(each.offset, 0) for each, end in zip(found, ends)]
    finally:
        consumer.close()


def main():
    address, rounds, chance, strategy = sys.argv[1], int(sys.argv[2]), random.Random(int(sys.argv[3])), sys.argv[4]
    settings = {"bootstrap.servers": address, "broker.address.family": "v4", "log_level": 0}
    admin = AdminClient(settings)
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result()
    books, load, members, gone = Books(), Load(settings), {}, []

    def join(name):
        members[name] = Member(name, address, strategy, books)

    def part(name, how):
        members[name].end(how)
        gone.append(members.pop(name))

    def name(static):
        return f"static-{static}" if static < MEMBERS // 2 else f"dynamic-{time.monotonic_ns()}"
    for number in range(MEMBERS):
        join(name(number))
    time.sleep(3)
    for number in range(rounds):
        turn = "broker" if number % 3 == 2 else chance.choice(["leave", "crash", "crash two"])
        victims = chance.sample(sorted(members), min(len(members), 1 + turn.endswith("two")))
        print(f"round {number + 1}: {turn} {'' if turn == 'broker' else ' '.join(victims)}", flush=True)
        if turn == "broker":
            print("kill the broker", flush=True)
            sys.stdin.readline()
        else:
            for victim in victims:
                part(victim, signal.SIGTERM if turn == "leave" else signal.SIGKILL)
            time.sleep(chance.uniform(0, 3))
            for victim in victims:
                join(victim if victim.startswith("static") else name(MEMBERS))
        time.sleep(chance.uniform(0.5, 3))
    load.stop()
    behind, until = None, time.monotonic() + SECONDS_TO_CATCH_UP
    while behind != [0] * PARTITIONS and time.monotonic() < until:
        time.sleep(0.5)
        behind = lag(settings, load.ends)
    for each in list(members):
        part(each, signal.SIGTERM)
    for each in gone:
        each.wait()
    wrong = load.errors[:5] + books.wrong[:10]
    if any(behind):
        wrong.append(f"lag after {SECONDS_TO_CATCH_UP} s: {behind}")
    for partition, end in enumerate(load.ends):
        missing = books.missing(partition, end)
        if missing is not None:
            wrong.append(f"{TOPIC}-{partition}: record {missing} of {end} was not processed")
    print(f"{sum(load.ends)} records, {len(books.generations)} generations, {len(gone)} members")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)


main()
