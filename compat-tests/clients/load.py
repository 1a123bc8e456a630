"""Load for the test that kills the broker: idempotent producers that send numbers without pause until SIGTERM, then read
back what is there. In each partition there must be every number once, in order, where it was acknowledged to be."""

import random
import signal
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 2
CODECS = ["none", "lz4", "zstd"]
PER_SECOND = 3000  # of each producer
SECONDS_TO_FLUSH = 120


class Load:
    """One producer with its own topic; the number of each record is its place in its partition."""

    def __init__(self, settings, codec):
        self.topic = f"load-{codec}"
        self.sent = [0] * PARTITIONS
        self.acknowledged = [{} for _ in range(PARTITIONS)]  # number -> offset
        self.errors = []
        self.producer = Producer({**settings, "enable.idempotence": True, "compression.type": codec, "linger.ms": 5,
                                  "message.timeout.ms": 0, "error_cb": self.failed, "socket.timeout.ms": 5000,
                                  "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "retry.backoff.ms": 20})

    def failed(self, error):
        if error.fatal():
            self.errors.append(f"{self.topic}: {error}")

    def send(self, count):
        for _ in range(count):
            partition = random.randrange(PARTITIONS)
            number = self.sent[partition]

            def report(error, message, number=number, partition=partition):
                if error:
                    self.errors.append(f"{self.topic}: {number} failed: {error}")
                else:
                    self.acknowledged[partition][number] = message.offset()
            try:
                self.producer.produce(self.topic, str(number).ljust(random.randrange(20, 300)), partition=partition, on_delivery=report)
            except BufferError:
                break
            self.sent[partition] += 1
        self.producer.poll(0)

    def check(self, settings):
        """What is wrong with what was read back."""
        wrong = list(self.errors[:5])
        for partition in range(PARTITIONS):
            seen = read(settings, self.topic, partition)
            numbers = [number for _, number in seen]
            if numbers != list(range(self.sent[partition])):
                wrong.append(f"{self.topic}-{partition}: " + describe(numbers, self.sent[partition]))
            places = {number: offset for offset, number in seen}
            moved = [number for number, offset in self.acknowledged[partition].items() if places.get(number) != offset]
            if moved:
                wrong.append(f"{self.topic}-{partition}: {len(moved)} acknowledged records are not where they were acknowledged, first {moved[:3]}")
        return wrong


def describe(numbers, sent):
    lost = sorted(set(range(sent)) - set(numbers))
    twice = len(numbers) - len(set(numbers))
    unordered = next((place for place, number in enumerate(numbers[:-1]) if numbers[place + 1] <= number), None)
    return f"sent {sent}, read {len(numbers)}, lost {len(lost)} {lost[:3]}, twice {twice}, first out of order at {unordered}"


def read(settings, topic, partition):
    """All (offset, number) of a partition."""
    consumer = Consumer({**settings, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    where = TopicPartition(topic, partition, 0)
    _, end = consumer.get_watermark_offsets(where, timeout=30)
    consumer.assign([where])
    seen = []
    while not seen or seen[-1][0] < end - 1:
        messages = consumer.consume(min(10_000, end - (seen[-1][0] + 1 if seen else 0)), 10)
        if not messages:
            break
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
            seen.append((message.offset(), int(message.value())))
    consumer.close()
    return seen


def main():
    settings = {"bootstrap.servers": sys.argv[1], "broker.address.family": "v4", "log_level": 0}
    admin = AdminClient(settings)
    for future in admin.create_topics([NewTopic(f"load-{codec}", PARTITIONS, 1) for codec in CODECS]).values():
        future.result()
    loads = [Load(settings, codec) for codec in CODECS]
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    print("ready", flush=True)
    while not stopping:
        begun = time.monotonic()
        for load in loads:
            load.send(PER_SECOND // 50)
        time.sleep(max(0, begun + 0.02 - time.monotonic()))
    wrong = []
    for load in loads:
        left = load.producer.flush(SECONDS_TO_FLUSH)
        if left:
            wrong.append(f"{load.topic}: {left} records not acknowledged within {SECONDS_TO_FLUSH} s")
    for load in loads:
        wrong += load.check(settings)
    print(f"{sum(sum(load.sent) for load in loads)} records sent, {sum(len(each) for load in loads for each in load.acknowledged)} acknowledged")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    sys.exit(1 if wrong else 0)


main()
