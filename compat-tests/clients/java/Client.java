// Rows java-3.9.2 and newer: Kafka's own client (Apache-2.0). All operations in order; those on groups are in ClientGroups.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.*;

public class Client {
    final String address;
    final Admin admin;

    public static void main(String[] arguments) {
        Client client = new Client(arguments[0]);
        ClientGroups groups = new ClientGroups(client);
        Operations.run("connect", client::connect);
        Operations.run("create-topic", client::createTopic);
        Operations.run("describe", client::describe);
        Operations.run("acks", client::acks);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) Operations.run(codec, () -> client.codec(codec));
        Operations.run("idempotent", client::idempotent);
        Operations.run("records", client::records);
        Operations.run("seek", client::seek);
        Operations.run("group-consume", groups::consume);
        Operations.run("group-rebalance", groups::rebalance);
        Operations.run("static-member", groups::staticMember);
        Operations.run("cooperative-sticky", groups::cooperativeSticky);
        Operations.run("groups-admin", groups::administration);
        Operations.run("add-partitions", client::addPartitions);
        Operations.run("configs", client::configs);
        Operations.run("delete-records", client::deleteRecords);
        Operations.run("delete-topic", client::deleteTopic);
        System.exit(0);
    }

    Client(String address) {
        this.address = address;
        admin = Admin.create(settings());
    }

    // ---- helpers

    Map<String, Object> settings(Object... more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", address));
        for (int i = 0; i < more.length; i += 2) settings.put((String) more[i], more[i + 1]);
        return settings;
    }

    static byte[] bytes(Object text) {
        return text.toString().getBytes(StandardCharsets.UTF_8);
    }

    static List<String> values(String label, int count) {
        return IntStream.range(0, count).mapToObj(number -> (label + "-" + number + " ").repeat(20)).collect(Collectors.toList());
    }

    static List<String> texts(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(record -> new String(record.value(), StandardCharsets.UTF_8)).collect(Collectors.toList());
    }

    static List<ProducerRecord<byte[], byte[]>> records(String topic, int partition, List<String> values) {
        return values.stream().map(value -> new ProducerRecord<byte[], byte[]>(topic, partition, null, bytes(value))).collect(Collectors.toList());
    }

    void create(String topic, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
    }

    /** Sends all, and returns the offsets; the first error is thrown. */
    List<Long> produce(List<ProducerRecord<byte[], byte[]>> records, Object... more) throws Exception {
        Map<String, Object> settings = settings(more);
        settings.putIfAbsent("linger.ms", 20);
        settings.putIfAbsent("max.request.size", 2_000_000);
        List<Long> offsets = new ArrayList<>();
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : records) sent.add(producer.send(record));
            for (Future<RecordMetadata> each : sent) offsets.add(each.get().offset());
        }
        return offsets;
    }

    Consumer<byte[], byte[]> consumer(String topic, int partition, Object... more) {
        Map<String, Object> settings = settings(more);
        settings.put("enable.auto.commit", false);
        settings.putIfAbsent("auto.offset.reset", "earliest");
        Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(List.of(new TopicPartition(topic, partition)));
        return consumer;
    }

    List<ConsumerRecord<byte[], byte[]>> read(String topic, int partition, long offset, int count) {
        List<ConsumerRecord<byte[], byte[]>> seen = new ArrayList<>();
        try (Consumer<byte[], byte[]> consumer = consumer(topic, partition)) {
            consumer.seek(new TopicPartition(topic, partition), offset);
            while (seen.size() < count) consumer.poll(Duration.ofSeconds(5)).forEach(seen::add);
        }
        return seen;
    }

    long offset(String topic, OffsetSpec spec) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        return admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
    }

    // ---- operations

    String connect() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        List<Integer> nodes = cluster.nodes().get().stream().map(Node::id).collect(Collectors.toList());
        return "cluster " + cluster.clusterId().get() + ", nodes " + nodes + ", controller " + cluster.controller().get().id();
    }

    String createTopic() throws Exception {
        CreateTopicsResult created = admin.createTopics(List.of(new NewTopic("matrix", 3, (short) 1).configs(Map.of("retention.ms", "3600000"))));
        String settings = created.config("matrix").get().entries().stream().map(entry -> entry.name() + "=" + entry.value()).sorted().collect(Collectors.joining(" "));
        List<String> errors = new ArrayList<>();
        for (NewTopic refused : List.of(new NewTopic("matrix", 3, (short) 1), new NewTopic("too.many", 1, (short) 3), new NewTopic("bad name", 1, (short) 1),
                new NewTopic("none", 0, (short) 1), new NewTopic("config", 1, (short) 1).configs(Map.of("retention.ms", "soon")),
                new NewTopic("key", 1, (short) 1).configs(Map.of("no.such.key", "1")), new NewTopic("assigned", Map.of(0, List.of(1, 7))),
                new NewTopic("gap", Map.of(1, List.of(1))), new NewTopic("__cluster_metadata", 1, (short) 1)))
            errors.add(Operations.refusal(admin.createTopics(List.of(refused)).all()));
        CreateTopicsResult checked = admin.createTopics(List.of(new NewTopic("only.checked", Optional.empty(), Optional.empty())), new CreateTopicsOptions().validateOnly(true));
        int partitions = checked.numPartitions("only.checked").get();
        Operations.expect("a checked topic", admin.listTopics().names().get().contains("only.checked"), false);
        return "created with " + settings + ", refused " + errors + ", checked with " + partitions + " partitions";
    }

    static String show(TopicDescription topic) {
        return topic.partitions().stream().map(each -> each.partition() + " leader " + each.leader().id() + " replicas " + each.replicas().size() + " isr " + each.isr().size()).collect(Collectors.joining("; "));
    }

    String describe() throws Exception {
        TopicDescription topic = admin.describeTopics(List.of("matrix")).topicNameValues().get("matrix").get();
        TopicDescription byId = admin.describeTopics(TopicCollection.ofTopicIds(List.of(topic.topicId()))).topicIdValues().get(topic.topicId()).get();
        String unknown = Operations.refusal(admin.describeTopics(List.of("nowhere")).topicNameValues().get("nowhere"));
        String unknownId = Operations.refusal(admin.describeTopics(TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).topicIdValues().get(new Uuid(7, 7)));
        return "partitions " + show(topic) + ", by id " + byId.name() + ", unknown " + unknown + " " + unknownId
            + ", listed " + new TreeSet<>(admin.listTopics().names().get());
    }

    String acks() throws Exception {
        create("acks", 1);
        List<String> wanted = new ArrayList<>();
        for (String acks : List.of("all", "1", "0")) {
            List<String> sent = values(acks, 10);
            produce(records("acks", 0, sent), "acks", acks, "enable.idempotence", false);
            wanted.addAll(sent);
        }
        Operations.expect("read", texts(read("acks", 0, 0, 30)), wanted);
        return "30 records";
    }

    String codec(String codec) throws Exception {
        create(codec, 1);
        List<String> sent = values(codec, 1000);
        List<Long> offsets = produce(records(codec, 0, sent), "compression.type", codec);
        Operations.expect("offsets", offsets, LongStream.range(0, 1000).boxed().collect(Collectors.toList()));
        Operations.expect("read", texts(read(codec, 0, 0, 1000)), sent);
        return "1000 records";
    }

    String idempotent() throws Exception {
        create("idempotent", 3);
        List<ProducerRecord<byte[], byte[]>> sent = IntStream.range(0, 10_000)
            .mapToObj(number -> new ProducerRecord<byte[], byte[]>("idempotent", number % 3, null, bytes(number))).collect(Collectors.toList());
        produce(sent, "enable.idempotence", true);
        for (int partition = 0; partition < 3; partition++) {
            int here = partition;
            List<String> wanted = IntStream.range(0, 10_000).filter(number -> number % 3 == here).mapToObj(String::valueOf).collect(Collectors.toList());
            Operations.expect("read", texts(read("idempotent", partition, 0, wanted.size())), wanted);
        }
        return "10000 records, none twice, in order";
    }

    String records() throws Exception {
        create("records", 1);
        List<ProducerRecord<byte[], byte[]>> sent = List.of(
            new ProducerRecord<>("records", bytes("key"), bytes("value")),
            new ProducerRecord<>("records", 0, bytes("headers"), bytes("value"), List.of(new RecordHeader("a", bytes("1")), new RecordHeader("a", bytes("2")),
                new RecordHeader("null", (byte[]) null), new RecordHeader("empty", new byte[0]))),
            new ProducerRecord<>("records", null, bytes("no key")),
            new ProducerRecord<>("records", bytes("no value"), null),
            new ProducerRecord<>("records", new byte[0], new byte[0]),
            new ProducerRecord<>("records", bytes("ключ"), bytes("значение")),
            new ProducerRecord<>("records", bytes("large"), new byte[1_000_000]));
        produce(sent);
        List<ConsumerRecord<byte[], byte[]>> seen = read("records", 0, 0, sent.size());
        for (int i = 0; i < sent.size(); i++) {
            Operations.expect("key", Arrays.toString(seen.get(i).key()), Arrays.toString(sent.get(i).key()));
            Operations.expect("value", Arrays.equals(seen.get(i).value(), sent.get(i).value()), true);
            Operations.expect("headers", Arrays.toString(seen.get(i).headers().toArray()), Arrays.toString(sent.get(i).headers().toArray()));
        }
        String tooLarge;
        try {
            produce(List.of(new ProducerRecord<>("records", new byte[1_100_000])));
            tooLarge = "NO_ERROR";
        } catch (ExecutionException error) {
            tooLarge = Errors.forException(error.getCause()).name();
        }
        return sent.size() + " records, too large: " + tooLarge;
    }

    String seek() throws Exception {
        create("seek", 1);
        long first = (System.currentTimeMillis() / 1000 - 3600) * 1000;
        produce(IntStream.range(0, 100).mapToObj(number -> new ProducerRecord<byte[], byte[]>("seek", 0, first + number * 1000L, null, bytes("x"))).collect(Collectors.toList()));
        TopicPartition where = new TopicPartition("seek", 0);
        List<Object> looked = new ArrayList<>();
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(0),
                OffsetSpec.forTimestamp(first + 49_001), OffsetSpec.forTimestamp(first + 99_000), OffsetSpec.forTimestamp(first + 99_001)))
            looked.add(offset("seek", spec));
        try (Consumer<byte[], byte[]> consumer = consumer("seek", 0)) {
            looked.add(consumer.beginningOffsets(List.of(where)).get(where));
            looked.add(consumer.endOffsets(List.of(where)).get(where));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(where, first + 29_500)).get(where);
            looked.add(found.offset() + "@" + (found.timestamp() - first) + " epoch " + found.leaderEpoch());
            consumer.seek(where, 50);
            looked.add("at " + consumer.poll(Duration.ofSeconds(10)).iterator().next().offset());
            consumer.seekToEnd(List.of(where));
            looked.add("end " + consumer.position(where));
            consumer.seekToBeginning(List.of(where));
            looked.add("beginning " + consumer.poll(Duration.ofSeconds(10)).iterator().next().offset());
            consumer.seek(where, 1000);
            ConsumerRecords<byte[], byte[]> reset = consumer.poll(Duration.ofSeconds(10));
            while (reset.isEmpty()) reset = consumer.poll(Duration.ofSeconds(10));
            looked.add("reset to " + reset.iterator().next().offset());
        }
        try (Consumer<byte[], byte[]> consumer = consumer("seek", 0, "auto.offset.reset", "none")) {
            consumer.seek(where, 1000);
            try {
                for (int i = 0; i < 20; i++) consumer.poll(Duration.ofSeconds(1));
            } catch (OffsetOutOfRangeException refused) {
                looked.add("no reset: out of range " + refused.offsetOutOfRangePartitions());
            }
        }
        return "looked up " + looked;
    }

    String addPartitions() throws Exception {
        List<String> outcomes = new ArrayList<>();
        for (NewPartitions grown : List.of(NewPartitions.increaseTo(5), NewPartitions.increaseTo(5), NewPartitions.increaseTo(2),
                NewPartitions.increaseTo(7, List.of(List.of(1))), NewPartitions.increaseTo(6, List.of(List.of(7)))))
            outcomes.add(Operations.refusal(admin.createPartitions(Map.of("matrix", grown)).all()));
        produce(records("matrix", 4, List.of("fifth")));
        Operations.expect("read", texts(read("matrix", 4, 0, 1)), List.of("fifth"));
        return outcomes.toString();
    }

    String configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "matrix"), broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        List<String> outcomes = new ArrayList<>();
        outcomes.add(alter(topic, "max.message.bytes", "2000000", AlterConfigOp.OpType.SET));
        outcomes.add(alter(topic, "retention.ms", "", AlterConfigOp.OpType.DELETE));
        outcomes.add(alter(topic, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND));
        outcomes.add(alter(topic, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT));
        outcomes.add(alter(topic, "retention.ms", "soon", AlterConfigOp.OpType.SET));
        outcomes.add(alter(topic, "no.such.key", "1", AlterConfigOp.OpType.SET));
        outcomes.add(alter(topic, "segment.bytes", "1", AlterConfigOp.OpType.SET));
        outcomes.add(alter(broker, "log.retention.ms", "7200000", AlterConfigOp.OpType.SET));
        outcomes.add(alter(broker, "node.id", "2", AlterConfigOp.OpType.SET));
        outcomes.add(alter(new ConfigResource(ConfigResource.Type.TOPIC, "nowhere"), "retention.ms", "1", AlterConfigOp.OpType.SET));
        return "altered " + outcomes + ", topic " + show(topic) + ", broker " + show(broker);
    }

    String alter(ConfigResource resource, String key, String value, AlterConfigOp.OpType operation) throws Exception {
        return Operations.refusal(admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry(key, value), operation)))).all());
    }

    /** What is not default, after a moment: changes of the broker's own settings take effect once it has read them. */
    String show(ConfigResource resource) throws Exception {
        Thread.sleep(500);
        return admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().stream()
            .filter(entry -> entry.source() != ConfigEntry.ConfigSource.DEFAULT_CONFIG && entry.source() != ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG)
            .map(entry -> entry.name() + "=" + entry.value() + "/" + entry.source() + (entry.isReadOnly() ? "/read-only" : "") + (entry.isSensitive() ? "/sensitive" : ""))
            .sorted().collect(Collectors.joining(" "));
    }

    String deleteRecords() throws Exception {
        create("delete.records", 1);
        produce(records("delete.records", 0, values("delete", 100)));
        TopicPartition where = new TopicPartition("delete.records", 0);
        List<String> outcomes = new ArrayList<>();
        for (long before : List.of(40L, 1000L, -1L)) {
            DeleteRecordsResult deleted = admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(before)));
            outcomes.add(before + " " + Operations.refusal(deleted.all()) + " earliest " + offset("delete.records", OffsetSpec.earliest()));
        }
        return outcomes.toString();
    }

    String deleteTopic() throws Exception {
        List<String> outcomes = new ArrayList<>();
        for (int i = 0; i < 2; i++) outcomes.add(Operations.refusal(admin.deleteTopics(List.of("matrix")).all()));
        Operations.expect("still listed", admin.listTopics().names().get().contains("matrix"), false);
        create("matrix", 1);
        return outcomes + ", created anew, first offset " + produce(records("matrix", 0, List.of("new")));
    }
}
