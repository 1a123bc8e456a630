// The administrator of Kafka 2.0's client: a class of its own, because clients before 0.11 cannot load it.

import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

final class ClientOldAdmin {
    final ClientOld client;
    final AdminClient admin;

    ClientOldAdmin(ClientOld client) {
        this.client = client;
        admin = AdminClient.create(client.settings());
    }

    String createTopic() throws Exception {
        List<String> outcomes = new ArrayList<>();
        for (NewTopic topic : List.of(new NewTopic("matrix", 3, (short) 1).configs(Map.of("retention.ms", "3600000")), new NewTopic("matrix", 3, (short) 1),
                new NewTopic("too.many", 1, (short) 3), new NewTopic("bad name", 1, (short) 1), new NewTopic("key", 1, (short) 1).configs(Map.of("no.such.key", "1"))))
            outcomes.add(Operations.refusal(admin.createTopics(List.of(topic)).all()));
        return outcomes.toString();
    }

    String describe() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster();
        TopicDescription topic = admin.describeTopics(List.of("matrix")).values().get("matrix").get();
        return "cluster " + cluster.clusterId().get() + ", nodes " + cluster.nodes().get().stream().map(Node::id).collect(Collectors.toList())
            + ", partitions " + topic.partitions().stream().map(each -> each.partition() + " leader " + each.leader().id() + " isr " + each.isr().size()).collect(Collectors.toList())
            + ", unknown " + Operations.refusal(admin.describeTopics(List.of("nowhere")).all()) + ", listed " + new TreeSet<>(admin.listTopics().names().get());
    }

    /** The groups that the operations before have left, and one with a member. */
    String groups() throws Exception {
        List<Object> steps = new ArrayList<>();
        steps.add("listed " + listed());
        try (ClientOld.Member one = client.new Member("connect", "one")) {
            one.untilAssigned(1);
            steps.add(describe("connect") + ", deleted " + Operations.refusal(admin.deleteConsumerGroups(List.of("connect")).all()));
        }
        steps.add(describe("connect"));
        steps.add("offsets " + admin.listConsumerGroupOffsets("group-consume").partitionsToOffsetAndMetadata().get());
        for (int i = 0; i < 2; i++) steps.add("deleted " + Operations.refusal(admin.deleteConsumerGroups(List.of("group-consume")).all()));
        steps.add("gone " + describe("group-consume") + ", listed " + listed());
        return steps.toString();
    }

    String listed() throws Exception {
        return admin.listConsumerGroups().all().get().stream().map(each -> each.groupId() + (each.isSimpleConsumerGroup() ? "/simple" : "")).sorted()
            .collect(Collectors.toList()).toString();
    }

    String describe(String group) throws Exception {
        try {
            ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
            return described.state() + " '" + described.partitionAssignor() + "' "
                + described.members().stream().map(each -> each.clientId() + " at " + each.host() + " has " + each.assignment().topicPartitions()).collect(Collectors.toList());
        } catch (ExecutionException error) {
            return Operations.refusal(error.getCause());
        }
    }

    String addPartitions() throws Exception {
        List<String> outcomes = new ArrayList<>();
        for (int partitions : List.of(5, 5, 2))
            outcomes.add(Operations.refusal(admin.createPartitions(Map.of("matrix", NewPartitions.increaseTo(partitions))).all()));
        return outcomes.toString();
    }

    String configs() throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "matrix"), broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        List<String> outcomes = new ArrayList<>();
        // This way of altering replaces all that was set.
        for (String value : List.of("2000000", "soon"))
            outcomes.add(Operations.refusal(admin.alterConfigs(Map.of(topic, new Config(List.of(new ConfigEntry("max.message.bytes", value))))).all()));
        Config described = admin.describeConfigs(List.of(topic)).all().get().get(topic);
        String set = described.entries().stream().filter(each -> !each.isDefault()).map(each -> each.name() + "=" + each.value() + "/" + each.source()).sorted().collect(Collectors.joining(" "));
        Config ofBroker = admin.describeConfigs(List.of(broker)).all().get().get(broker);
        return outcomes + ", topic " + set + ", broker node.id=" + ofBroker.get("node.id").value() + (ofBroker.get("node.id").isReadOnly() ? " read-only" : "");
    }

    String deleteRecords() throws Exception {
        client.produce(ClientOld.records("delete-records", 0, ClientOld.values("delete", 100)));
        TopicPartition where = new TopicPartition("delete-records", 0);
        List<String> outcomes = new ArrayList<>();
        for (long before : List.of(40L, 1000L, -1L))
            outcomes.add(before + " " + Operations.refusal(admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(before))).all()));
        return outcomes.toString();
    }

    String deleteTopic() throws Exception {
        List<String> outcomes = new ArrayList<>();
        for (int i = 0; i < 2; i++) outcomes.add(Operations.refusal(admin.deleteTopics(List.of("matrix")).all()));
        return outcomes.toString();
    }
}
