"""librdkafka (by confluent-kafka; Apache-2.0, BSD-2-Clause) as a load: `produce` or `consume` so many records of a size.
Prints MB/s. The time of Python is in it, and is the same beside either broker."""

import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 4


def produce(address, topic, records, size):
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "acks": 1, "queue.buffering.max.messages": 1_000_000})
    failed, value = [], b"v" * size

    def delivered(error, _):
        if error:
            failed.append(error)

    begun = time.monotonic()
    for number in range(records):
        while True:
            try:
                # Only what fails is told, so that Python is not called for each record.
                producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=delivered if number % 1000 == 0 else None)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(60)
    if failed or left:
        raise RuntimeError(f"{len(failed)} failed, {left} left: {failed[:1]}")
    return time.monotonic() - begun


def consume(address, topic, records):
    # Without the last, a client whose queue is full once does not fetch for a second: the sooner the answers, the longer it rests.
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bench", "enable.auto.commit": False, "auto.offset.reset": "earliest",
                         "fetch.queue.backoff.ms": 10})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    begun, seen = time.monotonic(), 0
    while seen < records:
        messages = consumer.consume(10_000, 30)
        if not messages:
            raise RuntimeError(f"{seen} of {records} records came")
        seen += len(messages)
    seconds = time.monotonic() - begun
    consumer.close()
    return seconds


address, what, topic, records, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
taken = produce(address, topic, records, size) if what == "produce" else consume(address, topic, records)
print(f"{records * size / taken / 1e6:.1f}")
