"""Row kafka-python (Apache-2.0)."""

import sys
import uuid

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import BrokerResponseError
from kafka.protocol.consumer import OffsetSpec
import groups
import operations
from operations import RECORDS, TOO_LARGE, expect, timestamps, values


def refusal(call):
    """The name of the error with which a call ends."""
    try:
        call()
        return "NO_ERROR"
    except BrokerResponseError as error:
        return error.message


class Member(ConsumerRebalanceListener):
    """A member of a consumer group; see `groups`."""

    def __init__(self, topics, settings):
        self.changes = []
        self.consumer = KafkaConsumer(**settings)
        # Known before it joins: else it assigns nothing and joins again, and if that falls on the end of a poll it waits for ever.
        for topic in topics:
            self.consumer.partitions_for_topic(topic)
        self.consumer.subscribe(topics, listener=self)

    def on_partitions_assigned(self, assigned):
        if assigned:
            self.changes.append(f"+{len(assigned)}")

    def on_partitions_revoked(self, revoked):
        if revoked:
            self.changes.append(f"-{len(revoked)}")

    def poll(self):
        polled = self.consumer.poll(300)
        return [(where.topic, where.partition, message.offset) for where, messages in polled.items() for message in messages]

    def owned(self):
        return set(map(tuple, self.consumer.assignment()))

    def commit(self, offsets, note):
        return refusal(lambda: self.consumer.commit({TopicPartition(*where): OffsetAndMetadata(offset, note, -1) for where, offset in offsets.items()}))

    def committed(self, partitions):
        return [self.consumer.committed(TopicPartition(*each)) for each in partitions]

    def close(self):
        self.consumer.close(autocommit=False)


class Client:
    def __init__(self, address):
        self.address = address
        self.admin = KafkaAdminClient(bootstrap_servers=address)

    # ---- helpers

    def create(self, name, partitions=1, **options):
        topic = {"num_partitions": partitions, "replication_factor": 1, **options}
        return self.admin.create_topics({name: topic}, wait_for_metadata=not options)

    def produce(self, topic, records, **settings):
        """Sends (partition, key, value, headers, timestamp) and returns the offsets or errors in that order."""
        producer = KafkaProducer(bootstrap_servers=self.address, linger_ms=20, max_request_size=2_000_000, **settings)
        futures = [producer.send(topic, value, key, headers=headers, partition=partition, timestamp_ms=timestamp)
                   for partition, key, value, headers, timestamp in records]
        producer.flush(30)
        reports = []
        for future in futures:
            try:
                reports.append(future.get(30).offset)
            except BrokerResponseError as error:
                reports.append(error.message)
        producer.close()
        return reports

    def produce_values(self, topic, pairs):
        self.produce(topic, [(partition, None, value, [], None) for partition, value in pairs])

    def member(self, group, topics, strategy="range", instance=None):
        assignor = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}[strategy]
        return Member(topics, {"bootstrap_servers": self.address, "group_id": group, "group_instance_id": instance, "heartbeat_interval_ms": 200,
                               "session_timeout_ms": 20_000, "enable_auto_commit": False, "auto_offset_reset": "earliest",
                               "partition_assignment_strategy": [assignor]})

    def consumer(self, topic, offset=0, partition=0, **settings):
        consumer = KafkaConsumer(bootstrap_servers=self.address, enable_auto_commit=False, **settings)
        consumer.assign([TopicPartition(topic, partition)])
        consumer.seek(TopicPartition(topic, partition), offset)
        return consumer

    def read(self, topic, count, partition=0, offset=0):
        consumer = self.consumer(topic, offset, partition, auto_offset_reset="earliest")
        messages = [next(consumer) for _ in range(count)]
        consumer.close()
        return messages

    # ---- operations

    def connect(self):
        cluster = self.admin.describe_cluster()
        nodes = [broker["broker_id"] for broker in cluster["brokers"]]
        return f"cluster {cluster['cluster_id']}, nodes {nodes}, controller {cluster['controller_id']}"

    def create_topic(self):
        self.create("matrix", 3, configs={"retention.ms": "3600000"})
        refused = [("matrix", 3, {}), ("too.many", 1, {"replication_factor": 3}), ("bad name", 1, {}), ("none", 0, {}),
                   ("config", 1, {"configs": {"retention.ms": "soon"}}), ("key", 1, {"configs": {"no.such.key": "1"}}),
                   ("assigned", -1, {"replication_factor": -1, "assignments": {0: [1, 7]}})]
        errors = [refusal(lambda: self.create(name, partitions, **options)) for name, partitions, options in refused]
        self.admin.create_topics({"only.checked": {}}, validate_only=True)
        expect("a checked topic", "only.checked" in self.admin.list_topics(), False)
        return "refused " + " ".join(errors)

    def describe(self):
        topic = self.admin.describe_topics(["matrix"])[0]
        partitions = [(each["partition_index"], each["leader_id"], each["replica_nodes"], each["isr_nodes"]) for each in topic["partitions"]]
        by_id = self.admin.describe_topics([uuid.UUID(str(topic["topic_id"]))])[0]
        unknown = self.admin.describe_topics(["nowhere"])[0]["error_code"]
        return f"partitions {partitions}, by id {by_id['error_code']} {len(by_id['partitions'])}, unknown {unknown}, listed {sorted(self.admin.list_topics())}"

    def acks(self):
        self.create("acks")
        for acks in ("all", 1, 0):
            self.produce("acks", [(0, None, value, [], None) for value in values(acks, 10)], acks=acks, enable_idempotence=False)
        expect("read", [message.value for message in self.read("acks", 30)], values("all", 10) + values(1, 10) + values(0, 10))
        return "30 records"

    def codec(self, codec):
        self.create(codec)
        sent = values(codec, 1000)
        offsets = self.produce(codec, [(0, None, value, [], None) for value in sent], compression_type=codec if codec != "none" else None)
        expect("offsets", offsets, list(range(1000)))
        expect("read", [message.value for message in self.read(codec, 1000)], sent)
        return "1000 records"

    def idempotent(self):
        self.create("idempotent", 3)
        sent = [(number % 3, None, str(number).encode(), [], None) for number in range(10_000)]
        self.produce("idempotent", sent, enable_idempotence=True)
        for partition in range(3):
            wanted = [value for at, _, value, _, _ in sent if at == partition]
            expect("read", [message.value for message in self.read("idempotent", len(wanted), partition)], wanted)
        return "10000 records, none twice, in order"

    def records(self):
        self.create("records")
        # This client takes no null as a header's value.
        sent = [(key, value, [header for header in headers if header[1] is not None]) for key, value, headers in RECORDS]
        offsets = self.produce("records", [(0, key, value, headers, None) for key, value, headers in sent])
        expect("offsets", offsets, list(range(len(sent))))
        messages = self.read("records", len(sent))
        expect("read", [(message.key, message.value, list(message.headers)) for message in messages], sent)
        return f"{len(sent)} records, too large: {self.produce('records', [(0, None, TOO_LARGE, [], None)])[0]}"

    def seek(self):
        self.create("seek")
        times, where = timestamps(100), TopicPartition("seek", 0)
        self.produce("seek", [(0, None, str(time).encode(), [], time) for time in times])
        consumer = self.consumer("seek", 50)
        expect("at 50", next(consumer).timestamp, times[50])
        looked_up = [consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]]
        for time in (0, times[49] + 1, times[99], times[99] + 1):
            found = consumer.offsets_for_times({where: time})[where]
            looked_up.append(found and found.offset)
        consumer.seek_to_end(where)
        end = consumer.position(where)
        consumer.seek_to_beginning(where)
        first = next(consumer).offset
        consumer.close()
        consumer = self.consumer("seek", 1000, auto_offset_reset="latest", consumer_timeout_ms=1000)
        list(consumer)
        self.produce("seek", [(0, None, b"new", [], None)])
        after = [message.offset for message in consumer]
        consumer.close()
        return f"looked up {looked_up}, end {end}, beginning {first}, after the end {after}"

    def add_partitions(self):
        def grow(count):
            return refusal(lambda: self.admin.create_partitions({"matrix": count}))
        grown, errors = grow(5), [grow(5), grow(2)]
        self.produce("matrix", [(4, None, b"fifth", [], None)])
        expect("read", self.read("matrix", 1, partition=4)[0].value, b"fifth")
        return f"grown {grown}, refused {' '.join(errors)}"

    def configs(self):
        def describe(kind, name):
            return self.admin.describe_configs([ConfigResource(kind, name)], config_filter="all")[kind.lower()][name]

        def alter(key, value, operation):
            resource = ConfigResource("TOPIC", "matrix", {key: (operation, value)})
            answer = self.admin.alter_configs([resource], raise_on_unknown=False, incremental=True)
            return str(answer["topic"]["matrix"]).split(":")[0]

        outcomes = [alter("max.message.bytes", "2000000", AlterConfigOp.SET), alter("retention.ms", None, AlterConfigOp.DELETE),
                    alter("cleanup.policy", "compact", AlterConfigOp.APPEND), alter("cleanup.policy", "delete", AlterConfigOp.SUBTRACT),
                    alter("retention.ms", "soon", AlterConfigOp.SET), alter("no.such.key", "1", AlterConfigOp.SET)]
        topic = sorted(f"{name}={entry['value']}/{entry['config_source']}" for name, entry in describe("TOPIC", "matrix").items())
        replaced = self.admin.alter_configs([ConfigResource("TOPIC", "matrix", {"segment.ms": "3600000"})], incremental=False)
        after = sorted(name for name, entry in describe("TOPIC", "matrix").items() if "DYNAMIC_TOPIC" in str(entry["config_source"]))
        expect("message.max.bytes", describe("BROKER", "1")["message.max.bytes"]["value"], "1048588")
        return f"altered {' '.join(outcomes)}, replaced {replaced['topic']['matrix']} {after}, topic {' '.join(topic)}"

    def delete_records(self):
        self.create("delete.records")
        where = TopicPartition("delete.records", 0)
        self.produce("delete.records", [(0, None, value, [], None) for value in values("delete", 100)])
        low = self.admin.delete_records({where: 40})[where]["low_watermark"]
        first = self.read("delete.records", 1)[0].offset
        beyond = refusal(lambda: self.admin.delete_records({where: 1000}))
        everything = self.admin.delete_records({where: -1})[where]["low_watermark"]
        return f"low {low}, first {first}, beyond the end {beyond}, all {everything}"

    def delete_topic(self):
        self.admin.delete_topics(["matrix"])
        expect("still listed", "matrix" in self.admin.list_topics(), False)
        again = refusal(lambda: self.admin.delete_topics(["matrix"]))
        self.create("matrix")
        return f"again {again}, created anew, first offset {self.produce('matrix', [(0, None, b'new', [], None)])[0]}"

    def groups_admin(self):
        topics, group = ["admin.one", "admin.two"], "admin"
        for topic in topics:
            groups.fill(self, topic, 1, 10)
        member = self.member(group, topics)
        groups.settle([member], 2)
        member.commit({("admin.one", 0): 3, ("admin.two", 0): 4}, "a note")

        def described():
            it = self.admin.describe_groups([group])[group]
            members = [sorted((each["topic"], *each["partitions"]) for each in one["member_assignment"]["assigned_partitions"]) for one in it["members"]]
            return f"{it['error']} {it['group_state']} {it['protocol_type']} {it['protocol_data']} members {members}"

        def listed(**filters):
            return [f"{each['group_state']} {each['group_type']} {each['protocol_type']}" for each in self.admin.list_groups(**filters) if each["group_id"] == group]

        def offsets():
            return sorted((where.topic, *at) for where, at in self.admin.list_group_offsets([group])[group].items())

        def delete():
            return self.admin.delete_groups([group])

        def delete_offset(topic):
            return [error.message for error in self.admin.delete_group_offsets(group, [TopicPartition(topic, 0)]).values()]

        def reset():
            answer = self.admin.reset_group_offsets(group, {TopicPartition("admin.two", 0): OffsetSpec.EARLIEST})
            return [(each["error"].message, each["offset"]) for each in answer.values()]

        seen = [f"active {described()}", f"offsets {offsets()}", f"delete {delete()}", f"delete an offset {delete_offset('admin.one')}"]
        member.close()
        altered = self.admin.alter_group_offsets(group, {TopicPartition("admin.two", 0): OffsetAndMetadata(7, "", -1)})
        seen += [f"left {described()}", f"listed {listed()}", f"stable {listed(states_filter=['Stable'])}", f"empty {listed(states_filter=['Empty'])}",
                 f"consumer {listed(types_filter=['consumer'])}", f"alter {[error.message for error in altered.values()]}",
                 f"delete an offset {delete_offset('admin.one')} {offsets()}", f"reset {reset()} {offsets()}",
                 f"delete {delete()}", f"again {delete()}", f"offsets {offsets()}", f"gone {described()}"]
        return "; ".join(seen)


operations.run(Client(sys.argv[1]))
