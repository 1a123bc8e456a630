"""Reads all topics of LogCompactionTester to their ends and prints, for each, how many keys have a value in the end, and
a checksum over keys and values: the same however often the topic was compacted in between."""

import hashlib
import sys
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

# A broker that has just started may not lead everything yet.
PATIENCE_SECONDS = 30


def end_of(consumer, partition):
    begun = time.monotonic()
    while True:
        try:
            return consumer.get_watermark_offsets(partition, timeout=PATIENCE_SECONDS)[1]
        except KafkaException as error:
            if time.monotonic() - begun > PATIENCE_SECONDS:
                raise
            time.sleep(0.2)


def last_values(consumer, topic):
    partition = TopicPartition(topic, 0, 0)
    end = end_of(consumer, partition)
    consumer.assign([partition])
    table = {}
    while consumer.position([partition])[0].offset < end:
        for message in consumer.consume(10_000, timeout=1):
            if message.error():
                raise RuntimeError(message.error())
            if message.value() is None:
                table.pop(message.key(), None)
            else:
                table[message.key()] = message.value()
    return table


def main():
    consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": "compacted", "enable.auto.commit": False,
                         "auto.offset.reset": "earliest", "enable.partition.eof": False})
    topics = sorted(name for name in consumer.list_topics(timeout=30).topics if name.startswith("log-cleaner-test-"))
    for topic in topics:
        table = last_values(consumer, topic)
        digest = hashlib.sha256(repr(sorted(table.items())).encode()).hexdigest()[:12]
        print(f"{len(table)} keys {digest}", end="; ")
    print()
    consumer.close()


if __name__ == "__main__":
    main()
