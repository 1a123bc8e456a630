"""Row aiokafka (Apache-2.0)."""

import asyncio
import logging
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import BrokerResponseError, KafkaError, for_code
import groups
import operations
from operations import RECORDS, TOO_LARGE, Skip, expect, timestamps, values

loop = asyncio.new_event_loop()
wait = loop.run_until_complete
logging.disable(logging.CRITICAL)


def refusal(call):
    """The name of the error with which a call ends."""
    try:
        wait(call)
        return "NO_ERROR"
    except KafkaError as error:
        return error.message if isinstance(error, BrokerResponseError) else type(error).__name__


class Member(ConsumerRebalanceListener):
    """A member of a consumer group; see `groups`."""

    def __init__(self, topics, settings):
        self.changes = []
        self.consumer = wait(self.made(settings))
        self.consumer.subscribe(topics, listener=self)
        self.started = loop.create_task(self.consumer.start())

    async def made(self, settings):
        return AIOKafkaConsumer(**settings)

    def on_partitions_assigned(self, assigned):
        if assigned:
            self.changes.append(f"+{len(assigned)}")

    def on_partitions_revoked(self, revoked):
        if revoked:
            self.changes.append(f"-{len(revoked)}")

    def poll(self):
        if not self.started.done():
            wait(asyncio.wait([self.started], timeout=0.1))
            return []
        polled = wait(self.consumer.getmany(timeout_ms=100))
        return [(where.topic, where.partition, message.offset) for where, messages in polled.items() for message in messages]

    def owned(self):
        return set(map(tuple, self.consumer.assignment()))

    def commit(self, offsets, note):
        return refusal(self.consumer.commit({TopicPartition(*where): (offset, note) for where, offset in offsets.items()}))

    def committed(self, partitions):
        return [wait(self.consumer.committed(TopicPartition(*each))) for each in partitions]

    def close(self):
        wait(self.consumer.stop())


class Client:
    def __init__(self, address):
        self.address = address
        self.admin = AIOKafkaAdminClient(loop=loop, bootstrap_servers=address)
        wait(self.admin.start())

    # ---- helpers

    def create(self, name, partitions=1, **options):
        """The name of the error that creating a topic ends with."""
        answer = wait(self.admin.create_topics([NewTopic(name, partitions, options.pop("replication", 1), topic_configs=options)]))
        return for_code(answer.topic_errors[0][1]).message

    def produce(self, topic, records, **settings):
        """Sends (partition, key, value, headers, timestamp) and returns the offsets or errors in that order."""
        async def run():
            producer = AIOKafkaProducer(bootstrap_servers=self.address, linger_ms=20, max_request_size=2_000_000, **settings)
            await producer.start()
            sent = [await producer.send(topic, value, key, partition, timestamp, headers) for partition, key, value, headers, timestamp in records]
            await producer.flush()
            reports = await asyncio.gather(*sent, return_exceptions=True)
            await producer.stop()
            return [each.message if isinstance(each, BrokerResponseError) else each and each.offset for each in reports]
        return wait(run())

    def produce_values(self, topic, pairs):
        self.produce(topic, [(partition, None, value, [], None) for partition, value in pairs])

    def read(self, topic, count, partition=0, offset=0, **settings):
        async def run():
            consumer, where = self.consumer(**settings), TopicPartition(topic, partition)
            await consumer.start()
            consumer.assign([where])
            consumer.seek(where, offset)
            messages = [await consumer.getone() for _ in range(count)]
            await consumer.stop()
            return messages
        return wait(run())

    def consumer(self, **settings):
        return AIOKafkaConsumer(bootstrap_servers=self.address, enable_auto_commit=False, **{"auto_offset_reset": "earliest", **settings})

    def member(self, group, topics, strategy="range", instance=None):
        if strategy != "range":
            raise Skip("no incremental rebalance")
        return Member(topics, {"bootstrap_servers": self.address, "group_id": group, "group_instance_id": instance, "heartbeat_interval_ms": 200,
                               "session_timeout_ms": 20_000, "enable_auto_commit": False, "auto_offset_reset": "earliest",
                               "partition_assignment_strategy": [RangePartitionAssignor]})

    # ---- operations

    def connect(self):
        cluster = wait(self.admin.describe_cluster())
        return f"cluster {cluster['cluster_id']}, nodes {[each['node_id'] for each in cluster['brokers']]}, controller {cluster['controller_id']}"

    def create_topic(self):
        created = self.create("matrix", 3, **{"retention.ms": "3600000"})
        errors = [self.create(name, partitions, **options) for name, partitions, options in [
            ("matrix", 3, {}), ("too.many", 1, {"replication": 3}), ("bad name", 1, {}), ("none", 0, {}),
            ("config", 1, {"retention.ms": "soon"}), ("key", 1, {"no.such.key": "1"})]]
        checked = wait(self.admin.create_topics([NewTopic("only.checked", 1, 1)], validate_only=True)).topic_errors[0][1]
        expect("a checked topic", "only.checked" in wait(self.admin.list_topics()), False)
        return f"created {created}, refused {' '.join(errors)}, checked {checked}"

    def describe(self):
        topics = wait(self.admin.describe_topics(["matrix"]))
        unknown = wait(self.admin.describe_topics(["no.where"]))[0]["error_code"]
        partitions = sorted((each["partition"], each["leader"], each["replicas"], each["isr"]) for each in topics[0]["partitions"])
        return f"partitions {partitions}, unknown {unknown}"

    def acks(self):
        self.create("acks")
        for acks in ("all", 1, 0):
            self.produce("acks", [(0, None, value, [], None) for value in values(acks, 10)], acks=acks)
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
        expect("at 50", self.read("seek", 1, offset=50)[0].timestamp, times[50])

        async def look():
            consumer = self.consumer()
            await consumer.start()
            consumer.assign([where])
            found = [(await consumer.beginning_offsets([where]))[where], (await consumer.end_offsets([where]))[where]]
            for time in (0, times[49] + 1, times[99], times[99] + 1):
                at = (await consumer.offsets_for_times({where: time}))[where]
                found.append(at and at.offset)
            await consumer.seek_to_end(where)
            found.append(f"end {await consumer.position(where)}")
            await consumer.seek_to_beginning(where)
            found.append(f"beginning {(await consumer.getone()).offset}")
            consumer.seek(where, 1000)
            found.append(f"after the end {(await consumer.getone()).offset}")
            await consumer.stop()
            return found
        return f"looked up {wait(look())}"

    def add_partitions(self):
        def grow(count):
            return refusal(self.admin.create_partitions({"matrix": NewPartitions(count)}))
        grown, errors = grow(5), [grow(5), grow(2)]
        self.produce("matrix", [(4, None, b"fifth", [], None)])
        expect("read", self.read("matrix", 1, partition=4)[0].value, b"fifth")
        return f"grown {grown}, refused {' '.join(errors)}"

    def configs(self):
        def describe(kind, name):
            return wait(self.admin.describe_configs([ConfigResource(kind, name)], include_synonyms=True))[0].resources[0]

        def alter(**settings):
            settings = {key.replace("_", "."): value for key, value in settings.items()}
            answer = wait(self.admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "matrix", settings)]))[0]
            return for_code(answer.resources[0][0]).message
        outcomes = [alter(max_message_bytes="2000000", segment_ms="3600000"), alter(cleanup_policy="compact"), alter(retention_ms="soon"), alter(no_such_key="1")]
        topic = sorted(f"{entry[0]}={entry[1]}/{entry[3]}" for entry in describe(ConfigResourceType.TOPIC, "matrix")[4])
        broker = {entry[0]: entry[1] for entry in describe(ConfigResourceType.BROKER, "1")[4]}
        missing = for_code(describe(ConfigResourceType.TOPIC, "nowhere")[0]).message
        return f"replaced {' '.join(outcomes)}, unknown {missing}, message.max.bytes {broker['message.max.bytes']}, topic {' '.join(topic)}"

    def delete_records(self):
        self.create("delete.records")
        where = TopicPartition("delete.records", 0)
        self.produce("delete.records", [(0, None, value, [], None) for value in values("delete", 100)])
        low = wait(self.admin.delete_records({where: RecordsToDelete(40)}))[where]
        first = self.read("delete.records", 1)[0].offset
        beyond = refusal(self.admin.delete_records({where: RecordsToDelete(1000)}))
        everything = wait(self.admin.delete_records({where: RecordsToDelete(-1)}))[where]
        return f"low {low}, first {first}, beyond the end {beyond}, all {everything}"

    def delete_topic(self):
        def delete():
            return for_code(wait(self.admin.delete_topics(["matrix"])).topic_error_codes[0][1]).message
        deleted = delete()
        expect("still listed", "matrix" in wait(self.admin.list_topics()), False)
        again = delete()
        self.create("matrix")
        return f"{deleted}, again {again}, created anew, first offset {self.produce('matrix', [(0, None, b'new', [], None)])[0]}"

    def groups_admin(self):
        topics, group = ["admin.one", "admin.two"], "admin"
        for topic in topics:
            groups.fill(self, topic, 1, 10)
        member = self.member(group, topics)
        groups.settle([member], 2)
        member.commit({("admin.one", 0): 3, ("admin.two", 0): 4}, "a note")

        def described(name):
            answer = wait(self.admin.describe_consumer_groups([name]))[0].groups[0]
            return f"error {answer[0]} {answer[2]} {answer[3]} {answer[4]} members {len(answer[5])}"
        listed = [each[1] for each in wait(self.admin.list_consumer_groups()) if each[0] == group]
        offsets = sorted((where.topic, *at) for where, at in wait(self.admin.list_consumer_group_offsets(group)).items())
        active = described(group)
        member.close()
        return f"active {active}; listed {listed}; offsets {offsets}; left {described(group)}; unknown {described('nobody')}"


operations.run(Client(sys.argv[1]))
