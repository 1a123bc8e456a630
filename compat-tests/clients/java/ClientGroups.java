// The client's operations on consumer groups. Members are named, because assignors go by the names; one thread polls them
// all in turn, so that each run sees the same steps.

import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class ClientGroups {
    static final int PARTITIONS = 4;
    static final int PER_PARTITION = 25;

    final Client client;

    ClientGroups(Client client) {
        this.client = client;
    }

    /** A subscribed consumer that remembers what it was given and what it read. */
    static final class Member implements AutoCloseable, ConsumerRebalanceListener {
        final Consumer<byte[], byte[]> consumer;
        final List<String> changes = new ArrayList<>();
        final List<ConsumerRecord<byte[], byte[]>> seen = new ArrayList<>();

        Member(Map<String, Object> settings, String topic) {
            consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            consumer.subscribe(List.of(topic), this);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> given) {
            if (!given.isEmpty()) changes.add("+" + numbers(given));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> taken) {
            if (!taken.isEmpty()) changes.add("-" + numbers(taken));
        }

        List<Integer> assigned() {
            return numbers(consumer.assignment());
        }

        int generation() {
            return consumer.groupMetadata().generationId();
        }

        /** How many records of each partition it read since it was asked last. */
        Map<Integer, Long> taken() {
            Map<Integer, Long> counts = seen.stream().collect(Collectors.groupingBy(ConsumerRecord::partition, TreeMap::new, Collectors.counting()));
            seen.clear();
            return counts;
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    static List<Integer> numbers(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::partition).sorted().collect(Collectors.toList());
    }

    Member member(String group, String name, Object... more) {
        Map<String, Object> settings = client.settings(more);
        settings.putAll(Map.of("group.id", group, "client.id", name, "enable.auto.commit", false, "auto.offset.reset", "earliest"));
        return new Member(settings, group);
    }

    /** Polls the members in turn until the condition holds. */
    static void until(BooleanSupplier condition, Member... members) {
        while (!condition.getAsBoolean())
            for (Member each : members) each.consumer.poll(Duration.ofMillis(50)).forEach(each.seen::add);
    }

    static void untilRead(int records, Member... members) {
        until(() -> Arrays.stream(members).mapToInt(each -> each.seen.size()).sum() >= records, members);
    }

    static void untilShared(Member... members) {
        until(() -> Arrays.stream(members).allMatch(each -> each.assigned().size() == PARTITIONS / members.length), members);
    }

    void fill(String topic) throws Exception {
        List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (int number = 0; number < PARTITIONS * PER_PARTITION; number++)
            records.add(new ProducerRecord<>(topic, number % PARTITIONS, null, Client.bytes(number)));
        client.produce(records);
    }

    static String show(Map<TopicPartition, OffsetAndMetadata> offsets) {
        return new TreeMap<>(offsets.entrySet().stream().collect(Collectors.toMap(each -> each.getKey().toString(), each -> {
            OffsetAndMetadata offset = each.getValue();
            return offset == null ? "none" : offset.offset() + "/" + offset.leaderEpoch().map(String::valueOf).orElse("-") + "/" + offset.metadata();
        }))).toString();
    }

    String committed(String group) throws Exception {
        return show(client.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
    }

    // ---- operations

    String consume() throws Exception {
        String topic = "group-consume";
        client.create(topic, PARTITIONS);
        fill(topic);
        List<Object> steps = new ArrayList<>();
        try (Member first = member(topic, "one")) {
            untilRead(PARTITIONS * PER_PARTITION, first);
            steps.add("read " + first.taken() + " in generation " + first.generation());
            first.consumer.commitSync();
            first.consumer.commitSync(Map.of(new TopicPartition(topic, 3), new OffsetAndMetadata(20, Optional.of(0), "again from 20")));
            steps.add("committed " + show(first.consumer.committed(first.consumer.assignment())));
        }
        fill(topic);
        try (Member second = member(topic, "two")) {
            untilRead(PARTITIONS * PER_PARTITION + 5, second);
            Map<Integer, Long> from = new TreeMap<>();
            second.seen.forEach(each -> from.merge(each.partition(), each.offset(), Math::min));
            steps.add("resumed at " + from + ", read " + second.taken() + " in generation " + second.generation());
            second.consumer.commitSync();
        }
        steps.add("committed " + committed(topic));
        return steps.toString();
    }

    String rebalance() throws Exception {
        String topic = "group-rebalance";
        client.create(topic, PARTITIONS);
        List<Object> steps = new ArrayList<>();
        try (Member one = member(topic, "one")) {
            untilShared(one);
            steps.add("one has " + one.assigned());
            try (Member two = member(topic, "two")) {
                untilShared(one, two);
                steps.add("shared " + one.assigned() + two.assigned() + " in generation " + one.generation() + "=" + two.generation());
                fill(topic);
                untilRead(PARTITIONS * PER_PARTITION, one, two);
                steps.add("read " + one.taken() + two.taken());
                one.consumer.commitSync();
                two.consumer.commitSync();
            }
            untilShared(one);
            fill(topic);
            untilRead(PARTITIONS * PER_PARTITION, one);
            steps.add("two left, one has " + one.assigned() + " in generation " + one.generation() + ", read " + one.taken() + ", changes " + one.changes);
        }
        return steps.toString();
    }

    String staticMember() throws Exception {
        String topic = "static-member";
        client.create(topic, PARTITIONS);
        List<Object> steps = new ArrayList<>();
        Object[] instance = {"group.instance.id", "instance-a"};
        try (Member first = member(topic, "one", instance)) {
            untilShared(first);
            steps.add("joined in generation " + first.generation());
        }
        steps.add("closed: " + describe(topic));
        try (Member second = member(topic, "one", instance)) {
            untilShared(second);
            steps.add("back in generation " + second.generation());
            try (Member third = member(topic, "one", instance)) {
                untilShared(third);
                steps.add("replaced in generation " + third.generation() + ": " + fenced(second));
                steps.add(describe(topic));
            }
        }
        for (int i = 0; i < 2; i++)
            steps.add("removed " + Operations.refusal(client.admin.removeMembersFromConsumerGroup(topic,
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("instance-a")))).memberResult(new MemberToRemove("instance-a"))));
        steps.add(describe(topic));
        return steps.toString();
    }

    static String fenced(Member member) {
        try {
            until(() -> false, member);
            return "";
        } catch (FencedInstanceIdException fenced) {
            return Operations.refusal(fenced);
        }
    }

    String cooperativeSticky() throws Exception {
        String topic = "cooperative-sticky";
        client.create(topic, PARTITIONS);
        Object[] strategy = {"partition.assignment.strategy", CooperativeStickyAssignor.class.getName()};
        try (Member one = member(topic, "one", strategy)) {
            untilShared(one);
            List<String> changesOfTwo;
            try (Member two = member(topic, "two", strategy)) {
                untilShared(one, two);
                // One who reads keeps what it has, through the whole rebalance.
                fill(topic);
                untilRead(PARTITIONS * PER_PARTITION, one, two);
                changesOfTwo = List.copyOf(two.changes);
            }
            untilShared(one);
            return "one " + one.changes + " generation " + one.generation() + ", two " + changesOfTwo;
        }
    }

    String administration() throws Exception {
        String group = "groups-admin";
        Admin admin = client.admin;
        client.create(group, PARTITIONS);
        TopicPartition where = new TopicPartition(group, 0), elsewhere = new TopicPartition("group-consume", 1);
        List<Object> steps = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(where, new OffsetAndMetadata(7, "by hand"), elsewhere, new OffsetAndMetadata(9));
        steps.add("altered " + Operations.refusal(admin.alterConsumerGroupOffsets(group, offsets).all()) + " " + committed(group));
        steps.add("listed " + listed(new ListConsumerGroupsOptions()));
        try (Member one = member(group, "one")) {
            untilShared(one);
            steps.add(describe(group));
            steps.add("alive: alter " + Operations.refusal(admin.alterConsumerGroupOffsets(group, offsets).all())
                + ", delete " + Operations.refusal(admin.deleteConsumerGroups(List.of(group)).all())
                + ", delete offsets " + Operations.refusal(admin.deleteConsumerGroupOffsets(group, Set.of(where)).partitionResult(where))
                + " " + Operations.refusal(admin.deleteConsumerGroupOffsets(group, Set.of(elsewhere)).partitionResult(elsewhere)));
            steps.add("stable " + listed(new ListConsumerGroupsOptions().inStates(Set.of(org.apache.kafka.common.ConsumerGroupState.STABLE))));
        }
        TopicPartition nowhere = new TopicPartition("nowhere", 0);
        steps.add("left " + committed(group) + ", delete offsets " + Operations.refusal(admin.deleteConsumerGroupOffsets(group, Set.of(where)).partitionResult(where))
            + " " + Operations.refusal(admin.deleteConsumerGroupOffsets(group, Set.of(nowhere)).partitionResult(nowhere)) + " " + committed(group));
        for (int i = 0; i < 2; i++) steps.add("deleted " + Operations.refusal(admin.deleteConsumerGroups(List.of(group)).all()));
        steps.add("gone: " + describe(group) + " " + committed(group) + ", delete offsets "
            + Operations.refusal(admin.deleteConsumerGroupOffsets(group, Set.of(where)).all()));
        steps.add("listed " + listed(new ListConsumerGroupsOptions()));
        return steps.toString();
    }

    String listed(ListConsumerGroupsOptions options) throws Exception {
        return client.admin.listConsumerGroups(options).all().get().stream()
            .map(each -> each.groupId() + "/" + each.state().map(String::valueOf).orElse("-") + (each.isSimpleConsumerGroup() ? "/simple" : ""))
            .sorted().collect(Collectors.toList()).toString();
    }

    /** A group as the administrator sees it: state, assignor, members with what they have. */
    String describe(String group) throws Exception {
        ConsumerGroupDescription described;
        try {
            described = client.admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
        } catch (ExecutionException error) {
            return Operations.refusal(error.getCause());
        }
        List<String> members = described.members().stream()
            .map(each -> each.clientId() + " instance " + each.groupInstanceId().orElse("-") + " at " + each.host() + " has " + numbers(each.assignment().topicPartitions()))
            .sorted().collect(Collectors.toList());
        return described.state() + " '" + described.partitionAssignor() + "' " + members + (described.isSimpleConsumerGroup() ? " simple" : "")
            + " coordinator " + described.coordinator().id();
    }
}
