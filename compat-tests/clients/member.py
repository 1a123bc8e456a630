"""A member of the group that group.py conducts: tells what it owns and what it has processed, and commits after that."""

import signal
import struct
import sys

from confluent_kafka import Consumer, KafkaException


def generation(consumer):
    """librdkafka tells it only inside of what transactions need."""
    packed = consumer.consumer_group_metadata()
    return struct.unpack_from("=i", packed, len(b"CGMDv2:"))[0]


def main():
    address, group, topic, name, strategy = sys.argv[1:]
    settings = {"bootstrap.servers": address, "broker.address.family": "v4", "log_level": 0, "group.id": group, "client.id": name,
                "enable.auto.commit": False, "auto.offset.reset": "earliest", "partition.assignment.strategy": strategy,
                "session.timeout.ms": 3000, "heartbeat.interval.ms": 500, "reconnect.backoff.max.ms": 200, "fetch.wait.max.ms": 100}
    if name.startswith("static"):
        settings["group.instance.id"] = name
    consumer, cooperative = Consumer(settings), strategy.startswith("cooperative")
    owned = set()

    def tell(now):
        owned.clear()
        owned.update(now)
        print("owns", generation(consumer), *sorted(owned), flush=True)

    def assigned(_, partitions):
        tell({each.partition for each in partitions} | (owned if cooperative else set()))

    def revoked(_, partitions):
        owned.difference_update(each.partition for each in partitions)

    consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    while not stopping:
        batches = {}
        for message in consumer.consume(200, 0.2):
            if not message.error():
                batches.setdefault(message.partition(), []).append(message.offset())
        for partition, offsets in batches.items():
            # Offsets of one partition come without gaps: nothing is compacted or aborted here.
            print("did", partition, offsets[0], offsets[-1] + 1, flush=True)
        if batches:
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                pass  # Somebody else will process it again.
    consumer.close()


main()
