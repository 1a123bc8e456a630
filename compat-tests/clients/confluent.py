"""Row confluent-kafka (Apache-2.0; librdkafka, BSD-2-Clause)."""

import sys
import uuid

from confluent_kafka import (Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, KafkaException,
                             Producer, TopicCollection, TopicPartition)
from confluent_kafka.admin import (AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic,
                                   OffsetSpec, ResourceType)
import groups
import operations
from operations import RECORDS, TOO_LARGE, expect, timestamps, values


def refusal(future):
    """The name of the error with which a future ends."""
    try:
        future.result()
        return "NO_ERROR"
    except KafkaException as error:
        return error.args[0].name()


class Member:
    """A member of a consumer group; see `groups`."""

    def __init__(self, settings, topics):
        self.changes = []
        self.consumer = Consumer(settings)
        self.consumer.subscribe(topics, on_assign=lambda _, given: self.changed("+", given),
                                on_revoke=lambda _, taken: self.changed("-", taken), on_lost=lambda _, lost: self.changed("lost ", lost))

    def changed(self, sign, partitions):
        if partitions:
            self.changes.append(f"{sign}{len(partitions)}")

    def poll(self):
        seen = []
        for message in self.consumer.consume(1000, 0.1):
            if message.error():
                raise KafkaException(message.error())
            seen.append((message.topic(), message.partition(), message.offset()))
        return seen

    def owned(self):
        return {(each.topic, each.partition) for each in self.consumer.assignment()}

    def commit(self, offsets, note):
        partitions = [TopicPartition(topic, partition, offset, metadata=note) for (topic, partition), offset in offsets.items()]
        try:
            answers = self.consumer.commit(offsets=partitions, asynchronous=False)
        except KafkaException as error:
            return error.args[0].name()
        return " ".join(answer.error.name() for answer in answers if answer.error) or "NO_ERROR"

    def committed(self, partitions):
        return [answer.offset for answer in self.consumer.committed([TopicPartition(*each) for each in partitions], 10)]

    def close(self):
        self.consumer.close()


class Client:
    def __init__(self, address):
        self.settings = {"bootstrap.servers": address, "broker.address.family": "v4", "log_level": 2}
        self.admin = AdminClient(self.settings)

    # ---- helpers

    def create(self, name, partitions=1, **config):
        config = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result()

    def produce(self, topic, records, **settings):
        """Sends (partition, key, value, headers, timestamp) and returns the offsets or errors in that order."""
        producer = Producer({**self.settings, "linger.ms": 20, "message.max.bytes": 2_000_000, **settings})
        reports = [None] * len(records)
        for number, (partition, key, value, headers, timestamp) in enumerate(records):
            def report(error, message, number=number):
                reports[number] = error.name() if error else message.offset()
            producer.produce(topic, value, key, partition, on_delivery=report, timestamp=timestamp, headers=headers)
            producer.poll(0)
        expect("left in the queue", producer.flush(30), 0)
        return reports

    def produce_values(self, topic, pairs):
        self.produce(topic, [(partition, None, value, None, 0) for partition, value in pairs])

    def member(self, group, topics, strategy="range", instance=None):
        settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", "heartbeat.interval.ms": 200,
                    "partition.assignment.strategy": strategy, "session.timeout.ms": 20_000}
        return Member({**self.settings, **settings, **({"group.instance.id": instance} if instance else {})}, topics)

    def read(self, topic, count, partition=0, offset=0):
        consumer = Consumer({**self.settings, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(topic, partition, offset)])
        messages = []
        while len(messages) < count:
            for message in consumer.consume(count - len(messages), 10):
                if message.error():
                    raise KafkaException(message.error())
                messages.append(message)
        consumer.close()
        return messages

    def offset(self, topic, spec, partition=0):
        where = TopicPartition(topic, partition)
        return self.admin.list_offsets({where: spec})[where].result().offset

    # ---- operations

    def connect(self):
        cluster = self.admin.describe_cluster().result()
        return f"cluster {cluster.cluster_id}, nodes {[node.id for node in cluster.nodes]}, controller {cluster.controller.id}"

    def create_topic(self):
        self.create("matrix", 3, retention_ms="3600000")
        refused = [NewTopic("matrix", 3, 1), NewTopic("too.many", 1, 3), NewTopic("bad name", 1, 1), NewTopic("none", 0, 1),
                   NewTopic("config", 1, 1, config={"retention.ms": "soon"}), NewTopic("key", 1, 1, config={"no.such.key": "1"})]
        errors = [refusal(self.admin.create_topics([topic])[topic.topic]) for topic in refused]
        self.admin.create_topics([NewTopic("only.checked", 1, 1)], validate_only=True)["only.checked"].result()
        expect("a checked topic", "only.checked" in self.admin.list_topics(timeout=10).topics, False)
        return "refused " + " ".join(errors)

    def describe(self):
        topic = self.admin.describe_topics(TopicCollection(["matrix"]))["matrix"].result()
        identity = uuid.UUID(int=(topic.topic_id.get_most_significant_bits() % 2**64 << 64) + topic.topic_id.get_least_significant_bits() % 2**64)
        partitions = [(each.id, each.leader.id, [node.id for node in each.replicas], [node.id for node in each.isr]) for each in topic.partitions]
        unknown = refusal(self.admin.describe_topics(TopicCollection(["nowhere"]))["nowhere"])
        listed = sorted(self.admin.list_topics(timeout=10).topics)
        return f"partitions {partitions}, id {'given' if identity.int else 'zero'}, unknown {unknown}, listed {listed}"

    def acks(self):
        self.create("acks")
        for acks in ("all", "1", "0"):
            self.produce("acks", [(0, None, value, None, 0) for value in values(acks, 10)], acks=acks)
        expect("read", [message.value() for message in self.read("acks", 30)], values("all", 10) + values("1", 10) + values("0", 10))
        return "30 records"

    def codec(self, codec):
        self.create(codec)
        sent = values(codec, 1000)
        offsets = self.produce(codec, [(0, None, value, None, 0) for value in sent], **{"compression.type": codec})
        expect("offsets", offsets, list(range(1000)))
        expect("read", [message.value() for message in self.read(codec, 1000)], sent)
        return "1000 records"

    def idempotent(self):
        self.create("idempotent", 3)
        sent = [(number % 3, None, str(number).encode(), None, 0) for number in range(10_000)]
        self.produce("idempotent", sent, **{"enable.idempotence": True})
        for partition in range(3):
            wanted = [value for at, _, value, _, _ in sent if at == partition]
            expect("read", [message.value() for message in self.read("idempotent", len(wanted), partition)], wanted)
            expect("end", self.offset("idempotent", OffsetSpec.latest(), partition), len(wanted))
        return "10000 records, none twice, in order"

    def records(self):
        self.create("records")
        offsets = self.produce("records", [(0, key, value, headers, 0) for key, value, headers in RECORDS])
        expect("offsets", offsets, list(range(len(RECORDS))))
        messages = self.read("records", len(RECORDS))
        expect("read", [(message.key(), message.value(), message.headers() or []) for message in messages], RECORDS)
        return f"{len(RECORDS)} records, too large: {self.produce('records', [(0, None, TOO_LARGE, None, 0)])[0]}"

    def seek(self):
        self.create("seek")
        times = timestamps(100)
        self.produce("seek", [(0, None, str(time).encode(), None, time) for time in times])
        expect("at 50", self.read("seek", 1, offset=50)[0].timestamp()[1], times[50])
        looked_up = [self.offset("seek", spec) for spec in (
            OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.max_timestamp(), OffsetSpec.for_timestamp(0),
            OffsetSpec.for_timestamp(times[49] + 1), OffsetSpec.for_timestamp(times[99]), OffsetSpec.for_timestamp(times[99] + 1))]
        consumer = Consumer({**self.settings, "group.id": "none", "enable.auto.commit": False, "auto.offset.reset": "latest"})
        consumer.assign([TopicPartition("seek", 0, 1000)])
        consumer.poll(2)
        self.produce("seek", [(0, None, b"new", None, 0)])
        while (message := consumer.poll(10)) is None or message.error():
            pass
        consumer.close()
        return f"looked up {looked_up}, after the end {message.offset()}"

    def add_partitions(self):
        def grow(count):
            return refusal(self.admin.create_partitions([NewPartitions("matrix", count)])["matrix"])
        grown, errors = grow(5), [grow(5), grow(2)]
        self.produce("matrix", [(4, None, b"fifth", None, 0)])
        expect("read", self.read("matrix", 1, partition=4)[0].value(), b"fifth")
        return f"grown {grown}, refused {' '.join(errors)}"

    def configs(self):
        def describe(kind, name):
            resource = ConfigResource(kind, name)
            return self.admin.describe_configs([resource])[resource].result()

        def alter(key, value, operation):
            entry = ConfigEntry(key, value, incremental_operation=operation)
            resource = ConfigResource(ResourceType.TOPIC, "matrix", incremental_configs=[entry])
            return refusal(self.admin.incremental_alter_configs([resource])[resource])

        outcomes = [alter("max.message.bytes", "2000000", AlterConfigOpType.SET), alter("retention.ms", None, AlterConfigOpType.DELETE),
                    alter("cleanup.policy", "compact", AlterConfigOpType.APPEND), alter("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT),
                    alter("retention.ms", "soon", AlterConfigOpType.SET), alter("no.such.key", "1", AlterConfigOpType.SET)]
        topic = sorted(f"{entry.name}={entry.value}/{entry.source}" for entry in describe(ResourceType.TOPIC, "matrix").values())
        broker = describe(ResourceType.BROKER, "1")
        expect("max.message.bytes", broker["message.max.bytes"].value, "1048588")
        unknown = ConfigResource(ResourceType.TOPIC, "nowhere")
        missing = refusal(self.admin.describe_configs([unknown])[unknown])
        return f"altered {' '.join(outcomes)}, unknown {missing}, topic {' '.join(topic)}"

    def delete_records(self):
        self.create("delete.records")
        self.produce("delete.records", [(0, None, value, None, 0) for value in values("delete", 100)])

        def delete(offset):
            where = TopicPartition("delete.records", 0, offset)
            return self.admin.delete_records([where])[where]
        low = delete(40).result().low_watermark
        first = self.read("delete.records", 1, offset=0)[0].offset()
        beyond = refusal(delete(1000))
        everything = delete(-1).result().low_watermark
        return f"low {low}, first {first}, beyond the end {beyond}, all {everything}, earliest {self.offset('delete.records', OffsetSpec.earliest())}"

    def delete_topic(self):
        self.admin.delete_topics(["matrix"])["matrix"].result()
        expect("still listed", "matrix" in self.admin.list_topics(timeout=10).topics, False)
        again = refusal(self.admin.delete_topics(["matrix"])["matrix"])
        self.create("matrix")
        return f"again {again}, created anew, first offset {self.produce('matrix', [(0, None, b'new', None, 0)])[0]}"

    def groups_admin(self):
        topics, group = ["admin.one", "admin.two"], "admin"
        for topic in topics:
            groups.fill(self, topic, 1, 10)
        member = self.member(group, topics)
        groups.settle([member], 2)
        member.commit({("admin.one", 0): 3, ("admin.two", 0): 4}, "a note")

        def described(name):
            it = self.admin.describe_consumer_groups([name])[name].result()
            members = [sorted(f"{each.topic}-{each.partition}" for each in one.assignment.topic_partitions) for one in it.members]
            return f"{it.state.name} {it.type.name} assignor {it.partition_assignor!r} coordinator {it.coordinator.id} members {members}"

        def listed(**filters):
            found = self.admin.list_consumer_groups(**filters).result().valid
            return [f"{each.state.name} {each.type.name}" for each in found if each.group_id == group]

        def offsets():
            answer = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
            return sorted(f"{each.topic}:{each.offset}:{each.metadata}" for each in answer.topic_partitions)

        def alter(offset):
            wanted = ConsumerGroupTopicPartitions(group, [TopicPartition("admin.one", 0, offset)])
            try:
                answer = self.admin.alter_consumer_group_offsets([wanted])[group].result()
            except KafkaException as error:
                return error.args[0].name()
            return [each.error and each.error.name() for each in answer.topic_partitions]

        def delete(name):
            return refusal(self.admin.delete_consumer_groups([name])[name])

        seen = [f"active {described(group)}", f"offsets {offsets()}", f"alter {alter(7)}", f"delete {delete(group)}"]
        member.close()
        seen += [f"left {described(group)}", f"listed {listed()}", f"stable {listed(states={ConsumerGroupState.STABLE})}",
                 f"empty {listed(states={ConsumerGroupState.EMPTY})}", f"classic {listed(types={ConsumerGroupType.CLASSIC})}",
                 f"consumer {listed(types={ConsumerGroupType.CONSUMER})}", f"alter {alter(7)} {offsets()}",
                 f"delete {delete(group)}", f"again {delete(group)}", f"offsets {offsets()}"]
        try:
            seen.append(f"gone {described(group)}")
        except KafkaException as error:
            seen.append(f"gone {error.args[0].name()}")
        return "; ".join(seen)


operations.run(Client(sys.argv[1]))
