// Rows java-0.10.2.2 and java-2.0.0: Kafka's client of 2017 and of 2018 (Apache-2.0), with the API of their time. What the
// older one has not, it skips; what Apache Kafka 4 refuses it, it reports as refused.

import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.*;

public class ClientOld {
    static final int POLL_MILLISECONDS = 5000;
    /** Headers, the idempotent producer and the administrator came with 0.11. */
    static final boolean SINCE_0_11 = has("org.apache.kafka.clients.admin.AdminClient");

    final String address;

    public static void main(String[] arguments) {
        ClientOld client = new ClientOld(arguments[0]);
        Operations.run("connect", client::connect);
        administrator("create-topic", () -> new ClientOldAdmin(client).createTopic());
        administrator("describe", () -> new ClientOldAdmin(client).describe());
        Operations.run("acks", client::acks);
        for (String codec : List.of("none", "gzip", "snappy", "lz4")) Operations.run(codec, () -> client.codec(codec));
        Operations.run("zstd", () -> skip("no such codec before 2.1"));
        Operations.run("idempotent", SINCE_0_11 ? client::idempotent : () -> skip("no idempotent producer before 0.11"));
        Operations.run("records", client::records);
        Operations.run("seek", client::seek);
        Operations.run("group-consume", client::groupConsume);
        Operations.run("group-rebalance", client::groupRebalance);
        Operations.run("static-member", () -> skip("no static members before 2.3"));
        Operations.run("cooperative-sticky", () -> skip("no cooperative assignors before 2.4"));
        administrator("groups-admin", () -> new ClientOldAdmin(client).groups());
        administrator("add-partitions", () -> new ClientOldAdmin(client).addPartitions());
        administrator("configs", () -> new ClientOldAdmin(client).configs());
        administrator("delete-records", () -> new ClientOldAdmin(client).deleteRecords());
        administrator("delete-topic", () -> new ClientOldAdmin(client).deleteTopic());
        Runtime.getRuntime().halt(0);
    }

    ClientOld(String address) {
        this.address = address;
    }

    // ---- helpers

    static boolean has(String name) {
        try {
            Class.forName(name);
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    static String skip(String reason) {
        throw new Operations.Skip(reason);
    }

    static void administrator(String name, Operations.Operation operation) {
        Operations.run(name, SINCE_0_11 ? operation : () -> skip("no administrator before 0.11"));
    }

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

    static List<ProducerRecord<byte[], byte[]>> records(String topic, int partition, List<String> values) {
        return values.stream().map(value -> new ProducerRecord<byte[], byte[]>(topic, partition, null, bytes(value))).collect(Collectors.toList());
    }

    /** Sends all to a topic that comes into being by being asked for, and returns the offsets; the first error is thrown. */
    List<Long> produce(List<ProducerRecord<byte[], byte[]>> records, Object... more) throws Exception {
        Map<String, Object> settings = settings(more);
        settings.putAll(Map.of("linger.ms", 20, "max.request.size", 2_000_000, "max.block.ms", 10_000));
        List<Long> offsets = new ArrayList<>();
        Producer<byte[], byte[]> producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        try {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : records) sent.add(producer.send(record));
            for (Future<RecordMetadata> each : sent) offsets.add(each.get().offset());
        } catch (ExecutionException error) {
            // Records of before 0.11 are of a format that Kafka 4 has no more.
            if (!SINCE_0_11) skip("refused: " + Operations.refusal(error.getCause()));
            throw error;
        } finally {
            producer.close(0, TimeUnit.SECONDS);
        }
        return offsets;
    }

    Consumer<byte[], byte[]> consumer(Object... more) {
        Map<String, Object> settings = settings(more);
        settings.put("enable.auto.commit", false);
        settings.putIfAbsent("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** A topic comes into being by being asked for. */
    static List<PartitionInfo> make(String topic, Consumer<byte[], byte[]> asking) {
        List<PartitionInfo> made = asking.partitionsFor(topic);
        while (made == null || made.isEmpty()) made = asking.partitionsFor(topic);
        return made;
    }

    List<ConsumerRecord<byte[], byte[]>> read(String topic, int count) {
        List<ConsumerRecord<byte[], byte[]>> seen = new ArrayList<>();
        try (Consumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            while (seen.size() < count) consumer.poll(POLL_MILLISECONDS).forEach(seen::add);
        }
        return seen;
    }

    static List<String> texts(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(record -> new String(record.value(), StandardCharsets.UTF_8)).collect(Collectors.toList());
    }

    // ---- operations

    String connect() {
        try (Consumer<byte[], byte[]> consumer = consumer()) {
            List<PartitionInfo> made = make("connect", consumer);
            return "made " + made.size() + " partition, leader " + made.get(0).leader().id() + ", listed " + new TreeSet<>(consumer.listTopics().keySet());
        }
    }

    String acks() throws Exception {
        List<String> wanted = new ArrayList<>();
        for (String acks : List.of("all", "1", "0")) {
            List<String> sent = values(acks, 10);
            produce(records("acks", 0, sent), "acks", acks);
            wanted.addAll(sent);
        }
        Operations.expect("read", texts(read("acks", 30)), wanted);
        return "30 records";
    }

    String codec(String codec) throws Exception {
        List<String> sent = values(codec, 1000);
        List<Long> offsets = produce(records(codec, 0, sent), "compression.type", codec);
        Operations.expect("offsets", offsets, LongStream.range(0, 1000).boxed().collect(Collectors.toList()));
        Operations.expect("read", texts(read(codec, 1000)), sent);
        return "1000 records";
    }

    String idempotent() throws Exception {
        List<String> sent = values("idempotent", 5000);
        produce(records("idempotent", 0, sent), "enable.idempotence", true);
        Operations.expect("read", texts(read("idempotent", 5000)), sent);
        return "5000 records, none twice, in order";
    }

    String records() throws Exception {
        List<ProducerRecord<byte[], byte[]>> sent = new ArrayList<>(List.of(
            new ProducerRecord<>("records", bytes("key"), bytes("value")),
            new ProducerRecord<>("records", null, bytes("no key")),
            new ProducerRecord<>("records", bytes("no value"), null),
            new ProducerRecord<>("records", new byte[0], new byte[0]),
            new ProducerRecord<>("records", bytes("large"), new byte[1_000_000])));
        if (SINCE_0_11) sent.add(new ProducerRecord<>("records", 0, bytes("headers"), bytes("value"),
            List.of(new RecordHeader("a", bytes("1")), new RecordHeader("a", bytes("2")), new RecordHeader("null", (byte[]) null))));
        produce(sent);
        List<ConsumerRecord<byte[], byte[]>> seen = read("records", sent.size());
        for (int i = 0; i < sent.size(); i++) {
            Operations.expect("key", Arrays.toString(seen.get(i).key()), Arrays.toString(sent.get(i).key()));
            Operations.expect("value", Arrays.equals(seen.get(i).value(), sent.get(i).value()), true);
            if (SINCE_0_11) Operations.expect("headers", Arrays.toString(seen.get(i).headers().toArray()), Arrays.toString(sent.get(i).headers().toArray()));
        }
        String tooLarge;
        try {
            produce(List.of(new ProducerRecord<>("records", new byte[1_100_000])));
            tooLarge = "NO_ERROR";
        } catch (ExecutionException error) {
            tooLarge = Operations.refusal(error.getCause());
        }
        return sent.size() + " records, too large: " + tooLarge;
    }

    String seek() throws Exception {
        long first = (System.currentTimeMillis() / 1000 - 3600) * 1000;
        TopicPartition where = new TopicPartition("seek", 0);
        List<Object> looked = new ArrayList<>();
        try (Consumer<byte[], byte[]> consumer = consumer()) {
            // What asks for no records comes first: all clients may do it.
            make("seek", consumer);
            looked.add("empty " + consumer.beginningOffsets(List.of(where)) + consumer.endOffsets(List.of(where)) + consumer.offsetsForTimes(Map.of(where, 0L)));
            consumer.assign(List.of(where));
            consumer.seekToEnd(List.of(where));
            looked.add("end " + consumer.position(where));
            if (!SINCE_0_11) return "looked up " + looked;
            produce(IntStream.range(0, 100).mapToObj(number -> new ProducerRecord<byte[], byte[]>("seek", 0, first + number * 1000L, null, bytes("x"))).collect(Collectors.toList()));
            looked.add(consumer.beginningOffsets(List.of(where)).get(where));
            looked.add(consumer.endOffsets(List.of(where)).get(where));
            OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(where, first + 29_500)).get(where);
            looked.add(found.offset() + "@" + (found.timestamp() - first));
            looked.add(consumer.offsetsForTimes(Map.of(where, first + 99_001)).get(where));
            for (long to : List.of(50L, 0L, 1000L)) {
                consumer.seek(where, to);
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(POLL_MILLISECONDS);
                while (polled.isEmpty()) polled = consumer.poll(POLL_MILLISECONDS);
                looked.add(to + " gives " + polled.iterator().next().offset());
            }
        }
        return "looked up " + looked;
    }

    /** A member of a group on a thread of its own, because these clients join within one poll; commits what it has read. */
    final class Member extends Thread implements AutoCloseable, ConsumerRebalanceListener {
        final String topic;
        final Consumer<byte[], byte[]> consumer;
        final List<Long> offsets = new ArrayList<>();
        List<Integer> assigned = List.of();
        int rebalances;
        boolean leaving;

        Member(String topic, String name) {
            this.topic = topic;
            consumer = consumer("group.id", topic, "client.id", name);
            setDaemon(true);
            start();
        }

        @Override
        public void run() {
            consumer.subscribe(List.of(topic), this);
            while (!leaves()) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(50);
                if (!polled.isEmpty()) consumer.commitSync();
                took(polled);
            }
            consumer.close();
        }

        @Override
        public synchronized void onPartitionsAssigned(Collection<TopicPartition> given) {
            rebalances++;
            notifyAll();
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> taken) {
        }

        synchronized boolean leaves() {
            return leaving;
        }

        synchronized void took(ConsumerRecords<byte[], byte[]> polled) {
            polled.forEach(record -> offsets.add(record.offset()));
            assigned = consumer.assignment().stream().map(TopicPartition::partition).sorted().collect(Collectors.toList());
            notifyAll();
        }

        synchronized void untilRead(int count) throws InterruptedException {
            while (offsets.size() < count) wait();
        }

        synchronized void untilRebalanced(int times) throws InterruptedException {
            while (rebalances < times) wait();
        }

        synchronized List<Integer> untilAssigned(int count) throws InterruptedException {
            while (assigned.size() != count) wait();
            return assigned;
        }

        @Override
        public void close() throws InterruptedException {
            synchronized (this) {
                leaving = true;
            }
            join();
        }
    }

    OffsetAndMetadata committed(String group, TopicPartition where) {
        try (Consumer<byte[], byte[]> asking = consumer("group.id", group)) {
            return asking.committed(where);
        }
    }

    String groupConsume() throws Exception {
        String topic = "group-consume";
        TopicPartition where = new TopicPartition(topic, 0);
        List<Object> steps = new ArrayList<>();
        try (Consumer<byte[], byte[]> only = consumer("group.id", "only-commits")) {
            make(topic, only);
            only.assign(List.of(where));
            only.commitSync(Map.of(where, new OffsetAndMetadata(5, "by hand")));
        }
        steps.add("committed " + committed("only-commits", where));
        try (Member first = new Member(topic, "one")) {
            steps.add("assigned " + first.untilAssigned(1));
            if (!SINCE_0_11) return steps.toString();
            produce(records(topic, 0, values("first", 100)));
            first.untilRead(100);
        }
        steps.add("committed " + committed(topic, where));
        produce(records(topic, 0, values("second", 100)));
        try (Member second = new Member(topic, "two")) {
            second.untilRead(100);
            steps.add("resumed at " + second.offsets.get(0));
        }
        return steps + ", committed " + committed(topic, where);
    }

    /** Two members want one partition: the topic that came into being has no more. */
    String groupRebalance() throws Exception {
        try (Member one = new Member("connect", "one")) {
            List<Integer> alone = one.untilAssigned(1);
            try (Member two = new Member("connect", "two")) {
                // The first by name keeps the only partition when the other joins.
                one.untilRebalanced(2);
                two.untilRebalanced(1);
                List<Integer> waits = two.untilAssigned(0);
                one.close();
                return "one has " + alone + ", two waits with " + waits + ", one left, two has " + two.untilAssigned(1);
            }
        }
    }
}
