"""What is measured: one function for each scenario, which loads a running broker and returns {figure: number}.

A figure's name ends with its unit. Costs are the broker's processor seconds for a gigabyte of records, from the kernel's
count of the process, at a load that both brokers deliver; latencies are from the time that a request was due."""

import contextlib
import os
import shutil
import statistics
import threading
import time

from bench import groups
from rig import wire

PARTITIONS = 4


class Run:
    """A broker, the generator and others' clients pointed at it, and how long to load it."""

    def __init__(self, broker, generator, client, seconds, warm_up):
        self.broker, self.seconds, self.warm_up = broker, seconds, warm_up
        self._generator, self._client = generator, client
        self.long = seconds > 5
        # {what: [(percentile, milliseconds)]}
        self.curves = {}

    def client(self, *arguments):
        """The numbers that another's client prints, and the broker's processor seconds meanwhile."""
        before = self.broker.processor_seconds()
        numbers = self._client(self.broker.address, *arguments)
        return numbers, self.broker.processor_seconds() - before

    def generate(self, *arguments):
        """What the generator says, and the broker's processor seconds meanwhile."""
        before = self.broker.processor_seconds()
        said = self._generator(self.broker.address, *arguments)
        return said, self.broker.processor_seconds() - before

    def produce(self, topic, rate, records, size, *more, seconds=None):
        return self.generate("requests", "produce", "--topic", topic, "--partitions", PARTITIONS, "--connections", PARTITIONS, "--depth", 5,
                             "--rate", rate, "--records", records, "--size", size, "--seconds", seconds or self.seconds, "--warm-up", 0, *more)

    def bulk(self, name, rate, records, size, *more):
        """Produces at a rate, then reads it all again; what both cost."""
        if self.warm_up:
            self.produce(f"{name}-warm", rate, records, size, *more, seconds=self.warm_up)
            self.generate("consume", "--topic", f"{name}-warm", "--partitions", PARTITIONS)
        said, cost = self.produce(name, rate, records, size, *more)
        gigabytes = said["bytes"] / 1e9
        figures = {"produce, CPU s/GB": cost / gigabytes, "produce, MB/s": said["bytes"] / said["seconds"] / 1e6,
                   "produce p99, ms": said["latency_us"]["p99"] / 1000, "memory, MiB": self.broker.resident_mebibytes()}
        said, cost = self.generate("consume", "--topic", name, "--partitions", PARTITIONS)
        return figures | {"consume, CPU s/GB": cost / gigabytes, "consume, MB/s": said["bytes_per_second"] / 1e6}

    def latency(self, what, *arguments):
        """Percentiles of an open loop."""
        said, _ = self.generate(*arguments, "--seconds", self.seconds, "--warm-up", self.warm_up or 1)
        return self.percentiles(what, said)

    def percentiles(self, what, said):
        for key, name in (("latency_us", what), ("ack_us", what + " ack"), ("end_to_end_us", what + " end to end")):
            if key in said:
                self.curves[name] = [(percentile, micros / 1000) for percentile, micros in said[key]["curve"]]
        return {f"{what} {percentile}, ms": said[key][percentile] / 1000
                for what, key in ((what, "latency_us"), (what + " ack", "ack_us"), (what + " end to end", "end_to_end_us")) if key in said
                for percentile in ("p50", "p99", "p99.9")}


def s1_produce_and_consume_100_bytes(run):
    """Records of 100 bytes in batches as large as librdkafka makes them when there is much to send, at 128 MB/s; then all is read."""
    return run.bulk("s1", 800, 1600, 100)


def s2_produce_and_consume_1_kilobyte(run):
    """The same with records of 1,000 bytes, at 250 MB/s."""
    return run.bulk("s2", 500, 500, 1000)


def s2_small(run):
    """The same in batches of 16 KB, as the Java producer makes them by default, at 80 MB/s."""
    return run.bulk("s2small", 5000, 16, 1000)


def s2_gzip(run):
    """The same as s2, compressed; gigabytes and rate are those of the plain records."""
    figures = run.bulk("s2gzip", 500, 500, 1000, "--gzip")
    return {name: value for name, value in figures.items() if name.startswith("produce")}


def s2_partitions(run):
    """The same bytes over few and over many partitions, so in large batches and in small ones."""
    figures = {}
    for wide, records in ((1, 64), (8, 8), (64, 1)):
        partitions = PARTITIONS * wide
        spread = ("requests", "produce", "--topic", f"s2-{partitions}", "--partitions", partitions, "--wide", wide, "--connections", PARTITIONS,
                  "--depth", 5, "--records", records, "--size", 1000, "--warm-up", 0)
        if run.warm_up:
            run.generate(*spread, "--rate", 2000, "--seconds", run.warm_up / 3)
        said, cost = run.generate(*spread, "--seconds", run.seconds)
        figures |= {f"{partitions} partitions, MB/s": said["bytes"] / said["seconds"] / 1e6,
                    f"{partitions} partitions, CPU s/GB": cost / (said["bytes"] / 1e9)}
    return figures


def clients(run, client):
    """What another's client gets out of the broker with a million records of 1,000 bytes, and what that costs."""
    records, size = (1_000_000 if run.long else 200_000), 1000
    wire.create_topic(run.broker.address, "client", PARTITIONS)
    begun, warmed = time.monotonic(), 0
    while time.monotonic() - begun < run.warm_up:
        wire.create_topic(run.broker.address, f"client-warm-{warmed}", PARTITIONS)
        for what in ("produce", "consume"):
            run.client(client, what, f"client-warm-{warmed}", records // 2, size)
        warmed += 1
    figures = {}
    for what in ("produce", "consume"):
        numbers, cost = run.client(client, what, "client", records, size)
        figures |= {f"{what}, MB/s": numbers[0], f"{what}, CPU s/GB": cost / (records * size / 1e9)}
        figures |= {f"{what} {name}, ms": number for name, number in zip(("p50", "p99", "at most"), numbers[1:])}
    return figures | {"memory, MiB": run.broker.resident_mebibytes()}


def s3_kafka_tools(run):
    """kafka-producer-perf-test, kafka-consumer-perf-test, and EndToEndLatency, which sends one record at a time."""
    figures = clients(run, "kafka")
    numbers, _ = run.client("kafka", "latency", "client-latency", 10_000 if run.long else 2000, 100)
    return figures | {f"EndToEndLatency {name}, ms": number for name, number in zip(("mean", "p50", "p99"), numbers)}


def s3_librdkafka(run):
    """librdkafka's producer and consumer, by confluent-kafka: a million records of 1,000 bytes."""
    return clients(run, "librdkafka")


def s4_latency(run):
    """An open loop on one connection: from when a request was due to its answer, and from producer to consumer."""
    figures = run.latency("10,000 requests/s", "requests", "produce", "--topic", "s4", "--rate", 10_000, "--depth", 64)
    figures |= run.latency("1,000/s", "tail", "--topic", "s4-tail", "--rate", 1000, "--size", 1000)
    return figures | run.latency("20,000 records/s", "tail", "--topic", "s4-more", "--rate", 1250, "--records", 16, "--size", 1000)


def s5_flush(run):
    """Each acknowledged record is on disk (`SETTINGS`): one at a time, and eight at a time."""
    figures = run.latency("200 requests/s", "requests", "produce", "--topic", "s5", "--rate", 200, "--depth", 8)
    said, _ = run.generate("requests", "produce", "--topic", "s5-eight", "--partitions", 1, "--connections", 8, "--seconds", run.seconds,
                           "--warm-up", run.warm_up or 1)
    return figures | {"8 connections, requests/s": said["requests_per_second"]}


def s6_catch_up(run):
    """The end of the log is read while another reads gigabytes that are no more in memory."""
    gigabytes = 4 if run.long else 0.5
    rate, records = 500, 64
    run.produce("s6-old", rate * 4, records * 4, 1000, seconds=gigabytes * 1e9 / (rate * records * 16 * 1000))
    # Before both, so that neither waits for the disk to take what is old.
    forget(run.broker.data, "s6-old-*")
    tail = ("tail", "--rate", 1250, "--records", 16, "--size", 1000)
    figures = run.latency("alone", *tail, "--topic", "s6-alone")
    said, _ = run.generate(*tail, "--topic", "s6-beside", "--seconds", 60, "--warm-up", 5, "--beside", "s6-old", "--beside-partitions", PARTITIONS)
    figures |= run.percentiles("beside", said)
    return {name: value for name, value in figures.items() if "ack" not in name} | {
        "catching up, MB/s": said["beside_bytes"] / said["beside_seconds"] / 1e6}


def forget(data, directories):
    """Writes files out and takes them from the page cache."""
    for path in data.glob(directories + "/*.log"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def s7_idle_connections(run):
    """Memory of connections that were used once and do nothing."""
    connections = 8000 if run.long else 2000
    before = run.broker.resident_mebibytes()
    with run.broker.beside("idle", "--connections", connections):
        after = run.broker.resident_mebibytes()
    return {f"{connections} idle connections, KiB each": (after - before) * 1024 / connections}


def s8_small_requests(run):
    """How many requests are answered when each connection sends its next one after the answer, or eight at a time."""
    figures = {}
    for kind in ("produce", "fetch", "metadata", "api-versions"):
        # Sockets and threads are warm from the first of them.
        warm_up = run.warm_up if kind == "produce" else run.warm_up / 3
        seconds = ("--seconds", run.seconds, "--warm-up", warm_up or 1)
        said, _ = run.generate("requests", kind, "--topic", "s8", "--connections", 8, "--partitions", 1, *seconds)
        figures[f"{kind}, 8 connections, thousand requests/s"] = said["requests_per_second"] / 1000
    # Of the produces before it is warm.
    said, _ = run.generate("requests", "produce", "--topic", "s8", "--connections", 8, "--depth", 8, "--seconds", run.seconds, "--warm-up", min(5, run.warm_up or 1))
    return figures | {"produce, depth 8, thousand requests/s": said["requests_per_second"] / 1000}


def s9_partitions(run):
    """Many partitions: created, at rest, stopped, killed."""
    partitions = 8000 if run.long else 1000
    broker = run.broker
    idle = broker.resident_mebibytes()
    begun = time.monotonic()
    for number in range(partitions // 1000):
        run.generate("requests", "metadata", "--topic", f"s9-{number}", "--partitions", 1000, "--seconds", 0, "--warm-up", 0, "--rate", 1)
    figures = {f"create {partitions} partitions, s": time.monotonic() - begun,
               "memory, KiB a partition": (broker.resident_mebibytes() - idle) * 1024 / partitions,
               "descriptors a partition": broker.descriptors() / partitions}
    time.sleep(2)
    before, rest = broker.processor_seconds(), max(10 if run.long else 2, run.seconds)
    time.sleep(rest)
    figures["processor at rest, %"] = (broker.processor_seconds() - before) / rest * 100
    broker.stop()
    figures["start after a clean stop, s"] = broker.start().ready_seconds
    broker.kill()
    figures["start after kill -9, s"] = broker.start().ready_seconds
    return figures


@contextlib.contextmanager
def sampled(broker):
    """A list to which (time, the broker's processor seconds) are added until the end of the block."""
    samples, end = [], threading.Event()

    def sample():
        while not end.wait(0.1):
            samples.append((time.monotonic(), broker.processor_seconds()))

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield samples
    finally:
        end.set()
        sampler.join()


def s10_wide_fetch(run):
    """One fetch session over many partitions, one of which has news at a time. What it costs is told from the end of the run, when
    each partition has had its first record and the files for it."""
    # One request may not ask for 10,000.
    partitions, rate = (9990 if run.long else 1000), 1000
    with sampled(run.broker) as samples:
        said, _ = run.generate("tail", "--topic", "s10", "--partitions", partitions, "--rate", rate, "--size", 100, "--seconds", run.seconds,
                               "--warm-up", max(partitions / rate + 2, run.warm_up))
    end, cost = samples[-1]
    begun, before = next(sample for sample in samples if sample[0] >= end - run.seconds)
    return {f"{partitions} partitions end to end {p}, ms": said["end_to_end_us"][p] / 1000 for p in ("p50", "p99")} | {
        "processor, µs a message": (cost - before) * 1e6 / (rate * (end - begun))}


def s11_groups(run):
    """A thousand groups that beat and commit; a group of a thousand members; a million commits loaded by a new start."""
    wire.create_topic(run.broker.address, groups.TOPIC, 100)
    if run.warm_up:
        groups.live(run.broker, "warm", 200, run.warm_up)
    return (groups.live(run.broker, "group", 1000 if run.long else 200, max(10 if run.long else 6, run.seconds)) | groups.storm(run.broker, 1000 if run.long else 100)
            | groups.reload(run.broker, 1_000_000 if run.long else 100_000))


def s12_start(run):
    """From the process's start to the first answer and the first acknowledged record, on an empty directory."""
    answered, acked, memory, stopping = [], [], [], []
    broker = run.broker
    for _ in range(7 if run.long else 2):
        broker.stop()
        shutil.rmtree(broker.data, ignore_errors=True)
        broker.format()
        begun = time.monotonic()
        broker.spawn()
        broker.wait_until_answering()
        answered.append(time.monotonic() - begun)
        run.generate("requests", "produce", "--topic", "first", "--seconds", 0.0001, "--warm-up", 0, "--rate", 100)
        acked.append(time.monotonic() - begun)
        broker.wait_until_ready()
        memory.append(broker.resident_mebibytes())
        begun = time.monotonic()
        broker.stop()
        stopping.append(time.monotonic() - begun)
    broker.start()
    median = statistics.median
    return {"first answer, ms": median(answered) * 1000, "first acknowledged record, ms": median(acked) * 1000,
            "memory, MiB": median(memory), "program, MB": broker.program_bytes() / 1e6, "SIGTERM to the end, ms": median(stopping) * 1000}


def s12_unflushed(run):
    """Gigabytes that nobody synced, then kill -9. They are in so many partitions that no segment is full, which would be synced."""
    gigabytes, rate, records = (4 if run.long else 0.5), 200, 250
    run.generate("requests", "produce", "--topic", "s12", "--partitions", 8, "--wide", 2, "--connections", 4, "--depth", 5, "--rate", rate,
                 "--records", records, "--size", 1000, "--seconds", gigabytes * 1e9 / (2 * rate * records * 1000), "--warm-up", 0)
    written = sum(path.stat().st_size for path in run.broker.data.glob("s12-*/*.log"))
    run.broker.kill()
    return {"unflushed, GB": written / 1e9, "start after kill -9, s": run.broker.start().ready_seconds}


SCENARIOS = {
    "s1": s1_produce_and_consume_100_bytes,
    "s2": s2_produce_and_consume_1_kilobyte,
    "s2-small": s2_small,
    "s2-gzip": s2_gzip,
    "s2-partitions": s2_partitions,
    "s3": s3_kafka_tools,
    "s3-librdkafka": s3_librdkafka,
    "s4": s4_latency,
    "s5": s5_flush,
    "s6": s6_catch_up,
    "s7": s7_idle_connections,
    "s8": s8_small_requests,
    "s9": s9_partitions,
    "s10": s10_wide_fetch,
    "s11": s11_groups,
    "s12": s12_start,
    "s12-unflushed": s12_unflushed,
}
# These measure what begins with the process: they have no warm-up.
FROM_THE_START = ("s7", "s9", "s12", "s12-unflushed")
# What a scenario's broker is started with beside the usual.
SETTINGS = {"s5": ["log.flush.interval.messages=1"]}
