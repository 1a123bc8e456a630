"""For the test that hands a data directory from one broker to the other: `write` puts all kinds of topics and records into
it, `more` adds to them, `describe` prints all that a client can see there."""

import hashlib
import sys
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType
from confluent_kafka import ConsumerGroupTopicPartitions, TopicCollection

import operations

CODECS = operations.CODECS
TOPICS = {
    **{codec: {} for codec in CODECS},
    "small-segments": {"segment.bytes": "1048576", "index.interval.bytes": "1024"},
    "append-time": {"message.timestamp.type": "LogAppendTime"},
    "recompressed": {"compression.type": "gzip"},
    "settings": {"retention.ms": "7200000", "max.message.bytes": "2000000", "cleanup.policy": "compact,delete"},
    "shortened": {},
    "gone": {},
}


class Exchange:
    def __init__(self, address):
        self.settings = {"bootstrap.servers": address, "broker.address.family": "v4", "log_level": 0}
        self.admin = AdminClient(self.settings)

    def produce(self, topic, records, **settings):
        producer = Producer({**self.settings, "enable.idempotence": True, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000, **settings})
        errors = []
        for number, (key, value, headers) in enumerate(records):
            producer.produce(topic, value, key, number % 2, headers=headers, on_delivery=lambda error, _: error and errors.append(error))
            producer.poll(0)
        if producer.flush(180) or errors:
            raise RuntimeError(f"{topic}: {errors[:1]}")

    def fill(self, label):
        for codec in CODECS:
            self.produce(codec, [(b"key", value, [("label", label.encode())]) for value in operations.values(label, 2000)], **{"compression.type": codec})
        self.produce("none", operations.RECORDS)
        self.produce("small-segments", [(None, value * 4, []) for value in operations.values(label, 8000)], **{"batch.size": 8000})
        self.produce("append-time", [(None, value, []) for value in operations.values(label, 100)])
        self.produce("recompressed", [(None, value, []) for value in operations.values(label, 1000)], **{"compression.type": "lz4"})
        self.produce("settings", [(value[:9], None if number % 7 == 0 else value, []) for number, value in enumerate(operations.values(label, 100))])
        self.produce("shortened", [(None, value, []) for value in operations.values(label, 1000)])
        self.read("readers", 500)
        self.read(f"readers-{label}", 100, **{"partition.assignment.strategy": "cooperative-sticky"})
        # A static member does not leave: its group is found stable, the member in it.
        self.read("static", 300, **{"group.instance.id": "one", "session.timeout.ms": 1_800_000, "max.poll.interval.ms": 1_800_000})
        self.note("simple", TopicPartition("lz4", 0, len(label), metadata=f"noted by {label}"))
        self.note("deleted", TopicPartition("lz4", 0, 1))
        self.admin.delete_consumer_groups(["deleted"])["deleted"].result()

    def read(self, group, count, **settings):
        """Reads as a member of a group, commits, and closes."""
        consumer = Consumer({**self.settings, "group.id": group, "client.id": "reader", "enable.auto.commit": False,
                             "auto.offset.reset": "earliest", **settings})
        consumer.subscribe(["none"])
        last, left = {}, count
        while left:
            messages = consumer.consume(left, 30)
            if not messages:
                raise RuntimeError(f"{group}: {left} of {count} records are missing")
            left -= len(messages)
            last |= {(message.topic(), message.partition()): message.offset() + 1 for message in messages}
        consumer.commit(offsets=[TopicPartition(*where, offset) for where, offset in last.items()], asynchronous=False)
        consumer.close()

    def note(self, group, *offsets):
        """Commits without being a member."""
        consumer = Consumer({**self.settings, "group.id": group, "enable.auto.commit": False})
        for found in consumer.commit(offsets=list(offsets), asynchronous=False):
            if found.error:
                raise KafkaException(found.error)
        consumer.close()

    def write(self):
        for future in self.admin.create_topics([NewTopic(name, 2, 1, config=config) for name, config in TOPICS.items()]).values():
            future.result()
        self.fill("first")
        self.shorten(300)
        self.note("left", TopicPartition("gone", 0, 3), TopicPartition("lz4", 1, 3))
        self.admin.delete_topics(["gone"])["gone"].result()
        self.admin.create_partitions([NewPartitions("settings", 5)])["settings"].result()
        self.alter(ResourceType.TOPIC, "settings", "segment.ms", "3600000")
        self.alter(ResourceType.TOPIC, "settings", "retention.ms", None, AlterConfigOpType.DELETE)
        self.alter(ResourceType.BROKER, "1", "log.cleaner.threads", "2")

    def more(self):
        self.fill("more")
        self.shorten(600)
        self.admin.create_topics([NewTopic("second", 3, 1)])["second"].result()
        self.produce("second", [(None, b"x", [])])

    def shorten(self, offset):
        where = TopicPartition("shortened", 0, offset)
        self.admin.delete_records([where])[where].result()

    def alter(self, kind, name, key, value, operation=AlterConfigOpType.SET):
        resource = ConfigResource(kind, name, incremental_configs=[ConfigEntry(key, value, incremental_operation=operation)])
        self.admin.incremental_alter_configs([resource])[resource].result()

    def describe(self):
        cluster = self.admin.describe_cluster().result()
        print("cluster", cluster.cluster_id, [node.id for node in cluster.nodes])
        # Internal topics come when a client first asks for them.
        names = sorted(name for name in self.admin.list_topics(timeout=10).topics if not name.startswith("__"))
        for name, future in self.admin.describe_topics(TopicCollection(names)).items():
            topic = future.result()
            print("topic", name, topic.topic_id, [(each.id, each.leader.id, [node.id for node in each.replicas]) for each in topic.partitions])
        for resource in [ConfigResource(ResourceType.TOPIC, name) for name in names] + [ConfigResource(ResourceType.BROKER, "1")]:
            entries = self.admin.describe_configs([resource])[resource].result().values()
            # What was set on the topic, the broker, or all brokers.
            print("set", resource.name, sorted(f"{entry.name}={entry.value}" for entry in entries if entry.source in (1, 2, 3)))
        for name in names:
            for partition in range(len(self.admin.list_topics(name, timeout=10).topics[name].partitions)):
                print("records", name, partition, *self.records(TopicPartition(name, partition)))
        self.describe_groups()

    def describe_groups(self):
        groups = sorted(self.until_loaded(lambda: self.list_groups()).items())
        for group, state in groups:
            found = self.admin.describe_consumer_groups([group])[group].result()
            members = [(member.member_id, member.client_id, member.host, member.group_instance_id,
                        [(each.topic, each.partition) for each in member.assignment.topic_partitions]) for member in found.members]
            print("group", group, state, found.partition_assignor, found.is_simple_consumer_group, members)
            offsets = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result().topic_partitions
            # What was committed for a topic that is gone goes a moment after the topic.
            offsets = [each for each in offsets if each.topic != "gone"]
            print("offsets", group, sorted((each.topic, each.partition, each.offset, each.leader_epoch, each.metadata) for each in offsets))

    def list_groups(self):
        listed = self.admin.list_consumer_groups().result()
        if listed.errors:
            raise listed.errors[0]
        return {group.group_id: group.state for group in listed.valid if group.group_id != "none"}

    def records(self, where):
        """First and next offset, how many records there are, a hash over all of them, and where some times are found."""
        first, end = (self.offset(where, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
        consumer = Consumer({**self.settings, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "error"})
        consumer.assign([TopicPartition(where.topic, where.partition, first)])
        digest, count, next_offset, times = hashlib.sha256(), 0, first, []
        while next_offset < end:
            for message in consumer.consume(min(10_000, end - next_offset), 5):
                if message.error():
                    raise KafkaException(message.error())
                digest.update(repr((message.offset(), message.key(), message.value(), message.headers(), message.timestamp())).encode())
                if count % 2000 == 0:
                    times.append(message.timestamp()[1])
                count, next_offset = count + 1, message.offset() + 1
        consumer.close()
        return first, end, count, digest.hexdigest()[:16], [self.offset(where, OffsetSpec.for_timestamp(moment)) for moment in times]

    def offset(self, where, spec):
        """Looks an offset up; again while the broker has not taken over all partitions, just after its start."""
        return self.until_loaded(lambda: self.admin.list_offsets({where: spec})[where].result().offset)

    def until_loaded(self, ask):
        for _ in range(50):
            try:
                return ask()
            except KafkaException as error:
                refused = error
                time.sleep(0.1)
        raise refused


getattr(Exchange(sys.argv[1]), sys.argv[2])()
