// Row ui: the calls that web interfaces for Kafka (kafbat-ui, AKHQ) make of the administrator at their start and for each of
// their pages, with Kafka's own client (Apache-2.0). What a broker without security refuses, they take as "not here".

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.serialization.*;

public class Ui {
    static final List<String> TOPICS = List.of("orders", "refunds");
    static final int PARTITIONS = 2;

    final String address;
    final Admin admin;

    public static void main(String[] arguments) {
        Ui ui = new Ui(arguments[0]);
        Operations.run("prepare", ui::prepare);
        Operations.run("start", ui::start);
        Operations.run("features", ui::features);
        Operations.run("security", ui::security);
        Operations.run("brokers", ui::brokers);
        Operations.run("log-dirs", ui::logDirs);
        Operations.run("topics", ui::topics);
        Operations.run("topic-settings", ui::topicSettings);
        Operations.run("topic-change", ui::topicChange);
        Operations.run("offsets", ui::offsets);
        Operations.run("messages", ui::messages);
        Operations.run("groups", ui::groups);
        Operations.run("group-change", ui::groupChange);
        Operations.run("quorum", ui::quorum);
        Operations.run("producers", ui::producers);
        Operations.run("reassignments", ui::reassignments);
        Runtime.getRuntime().halt(0);
    }

    Ui(String address) {
        this.address = address;
        admin = Admin.create(Map.of("bootstrap.servers", address, "client.id", "ui"));
    }

    /** The result of a call by `show`, or what it was refused with. */
    static <T> String asked(KafkaFuture<T> call, Function<T, Object> show) throws Exception {
        String refusal = Operations.refusal((Future<?>) call);
        return refusal.equals("NO_ERROR") ? String.valueOf(show.apply(call.get())) : refusal;
    }

    static List<TopicPartition> partitions() {
        return TOPICS.stream().flatMap(topic -> IntStream.range(0, PARTITIONS).mapToObj(number -> new TopicPartition(topic, number))).collect(Collectors.toList());
    }

    static ConfigResource topic(String name) {
        return new ConfigResource(ConfigResource.Type.TOPIC, name);
    }

    Consumer<String, String> consumer(Object... more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", address, "enable.auto.commit", false, "auto.offset.reset", "earliest"));
        for (int i = 0; i < more.length; i += 2) settings.put((String) more[i], more[i + 1]);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    // ---- what there is to see

    /** Two topics with records, a group with commits, and one that a single partition has been committed for. */
    String prepare() throws Exception {
        admin.createTopics(TOPICS.stream().map(name -> new NewTopic(name, PARTITIONS, (short) 1).configs(Map.of("retention.ms", "-1"))).collect(Collectors.toList())).all().get();
        try (Producer<String, String> producer = new KafkaProducer<>(Map.of("bootstrap.servers", address), new StringSerializer(), new StringSerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (TopicPartition each : partitions())
                for (int number = 0; number < 50; number++) sent.add(producer.send(new ProducerRecord<>(each.topic(), each.partition(), 1_000_000L + number, "key", "value " + number)));
            for (Future<RecordMetadata> each : sent) each.get();
        }
        try (Consumer<String, String> one = consumer("group.id", "shop", "client.id", "one")) {
            one.subscribe(TOPICS);
            for (int seen = 0; seen < 200; ) seen += one.poll(Duration.ofSeconds(1)).count();
            one.commitSync();
        }
        admin.alterConsumerGroupOffsets("audit", Map.of(partitions().get(1), new OffsetAndMetadata(20, "by hand"))).all().get();
        return "2 topics, 200 records, 2 groups";
    }

    // ---- pages

    String start() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true));
        return "cluster " + cluster.clusterId().get() + ", nodes " + asked(cluster.nodes(), nodes -> nodes.stream().map(Node::id).collect(Collectors.toList()))
            + ", controller " + cluster.controller().get().id() + ", may " + asked(cluster.authorizedOperations(), operations -> operations == null ? "unknown" : new TreeSet<>(operations));
    }

    /** Features that Kafka finalizes and a broker may not serve yet are left to the row of the command line tools. */
    String features() throws Exception {
        FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
        return Stream.of("metadata.version", "kraft.version").map(name -> name + " " + features.finalizedFeatures().get(name)).collect(Collectors.joining(", "));
    }

    String security() throws Exception {
        return "acls " + asked(admin.describeAcls(AclBindingFilter.ANY).values(), Object::toString)
            + ", scram users " + asked(admin.describeUserScramCredentials().all(), Object::toString)
            + ", quotas " + asked(admin.describeClientQuotas(ClientQuotaFilter.all()).entities(), Object::toString)
            + ", tokens " + asked(admin.describeDelegationToken().delegationTokens(), Object::toString);
    }

    /** All settings of a resource: how many, from where, of which types, how many explained. */
    String settings(ConfigResource resource) throws Exception {
        DescribeConfigsOptions all = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        return asked(admin.describeConfigs(List.of(resource), all).values().get(resource), config -> {
            Collection<ConfigEntry> entries = config.entries();
            return entries.size() + " settings, sources " + counted(entries, ConfigEntry::source) + ", types " + counted(entries, ConfigEntry::type)
                + ", without explanation " + entries.stream().filter(each -> each.documentation() == null || each.documentation().isEmpty()).map(ConfigEntry::name).sorted().collect(Collectors.toList())
                + ", read-only " + entries.stream().filter(ConfigEntry::isReadOnly).count() + ", sensitive " + entries.stream().filter(ConfigEntry::isSensitive).count()
                + ", synonyms " + entries.stream().mapToInt(each -> each.synonyms().size()).sum();
        });
    }

    static <T> Map<String, Long> counted(Collection<ConfigEntry> entries, Function<ConfigEntry, T> what) {
        return entries.stream().collect(Collectors.groupingBy(each -> String.valueOf(what.apply(each)), TreeMap::new, Collectors.counting()));
    }

    String brokers() throws Exception {
        return "broker " + settings(new ConfigResource(ConfigResource.Type.BROKER, "1")) + ", all brokers " + settings(new ConfigResource(ConfigResource.Type.BROKER, ""));
    }

    String logDirs() throws Exception {
        return asked(admin.describeLogDirs(List.of(1)).allDescriptions(), brokers -> brokers.get(1).values().stream().map(directory ->
            "error " + directory.error() + ", sizes " + directory.replicaInfos().entrySet().stream().filter(each -> TOPICS.contains(each.getKey().topic()))
                .map(each -> each.getKey() + (each.getValue().size() > 0 ? " has some" : " has none") + " lag " + each.getValue().offsetLag() + (each.getValue().isFuture() ? " future" : "")).sorted().collect(Collectors.toList())
                + ", room " + (directory.totalBytes().isPresent() && directory.usableBytes().isPresent() ? "known" : "unknown")).collect(Collectors.toList()))
            + ", replica " + asked(admin.describeReplicaLogDirs(List.of(new TopicPartitionReplica("orders", 0, 1))).all(), all -> all.values().stream().map(each ->
                each.getCurrentReplicaLogDir() != null && each.getFutureReplicaLogDir() == null).collect(Collectors.toList()));
    }

    String topics() throws Exception {
        Collection<TopicListing> listed = admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get();
        Map<String, TopicDescription> described = admin.describeTopics(listed.stream().map(TopicListing::name).collect(Collectors.toList()),
            new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get();
        return new TreeMap<>(described).values().stream().map(each -> each.name() + (each.isInternal() ? " internal" : "") + " " + each.partitions().size() + " partitions, leaders "
            + each.partitions().stream().map(partition -> partition.leader().id()).distinct().collect(Collectors.toList()) + ", may " + new TreeSet<>(Objects.requireNonNullElse(each.authorizedOperations(), Set.of()))).collect(Collectors.joining("; "));
    }

    String topicSettings() throws Exception {
        return "orders " + settings(topic("orders")) + ", groups' topic " + settings(topic("__consumer_offsets")) + ", unknown " + settings(topic("nowhere"));
    }

    /** The page of a topic: settings changed, partitions added, records deleted, topic made and removed. */
    String topicChange() throws Exception {
        List<Object> steps = new ArrayList<>();
        steps.add(Operations.refusal(admin.incrementalAlterConfigs(Map.of(topic("refunds"), List.of(new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE)))).all()));
        steps.add(admin.describeConfigs(List.of(topic("refunds"))).all().get().get(topic("refunds")).get("cleanup.policy").value());
        steps.add(Operations.refusal(admin.createPartitions(Map.of("refunds", NewPartitions.increaseTo(PARTITIONS + 1))).all()));
        steps.add(Operations.refusal(admin.deleteRecords(Map.of(partitions().get(0), RecordsToDelete.beforeOffset(10))).all()));
        steps.add(Operations.refusal(admin.createTopics(List.of(new NewTopic("by.hand", Optional.of(4), Optional.empty()))).all()));
        steps.add(Operations.refusal(admin.deleteTopics(List.of("by.hand")).all()));
        return steps.toString();
    }

    String offsets() throws Exception {
        List<String> seen = new ArrayList<>();
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.maxTimestamp(), OffsetSpec.forTimestamp(1_000_025))) {
            Map<TopicPartition, OffsetSpec> wanted = partitions().stream().collect(Collectors.toMap(each -> each, each -> spec));
            ListOffsetsResult listed = admin.listOffsets(wanted);
            seen.add(asked(listed.all(), all -> partitions().stream().map(each -> all.get(each).offset() + "@" + all.get(each).timestamp()).collect(Collectors.toList())));
        }
        return seen.toString();
    }

    /** The page of messages: the last ones of each partition, and those from some time on. */
    String messages() {
        try (Consumer<String, String> reader = consumer()) {
            reader.assign(partitions());
            Map<TopicPartition, Long> ends = reader.endOffsets(partitions());
            ends.forEach((each, end) -> reader.seek(each, Math.max(0, end - 5)));
            List<String> last = read(reader, 20);
            reader.offsetsForTimes(partitions().stream().collect(Collectors.toMap(each -> each, each -> 1_000_048L))).forEach((each, found) -> reader.seek(each, found.offset()));
            return "last " + last + ", from a time on " + read(reader, 8);
        }
    }

    static List<String> read(Consumer<String, String> reader, int count) {
        List<String> seen = new ArrayList<>();
        while (seen.size() < count) reader.poll(Duration.ofSeconds(1)).forEach(record -> seen.add(record.topic() + "-" + record.partition() + "@" + record.offset() + "=" + record.value()));
        Collections.sort(seen);
        return seen;
    }

    String groups() throws Exception {
        List<String> ids = admin.listGroups().all().get().stream().map(each -> each.groupId() + " " + each.type().orElse(null) + " " + each.groupState().orElse(null) + " '" + each.protocol() + "'").sorted().collect(Collectors.toList());
        Map<String, ConsumerGroupDescription> described = admin.describeConsumerGroups(List.of("audit", "shop"), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all().get();
        Map<String, Map<TopicPartition, OffsetAndMetadata>> committed = admin.listConsumerGroupOffsets(Map.of("audit", new ListConsumerGroupOffsetsSpec(), "shop", new ListConsumerGroupOffsetsSpec())).all().get();
        return ids + ", " + new TreeMap<>(described).values().stream().map(each -> each.groupId() + " " + each.groupState() + " members " + each.members().size() + (each.isSimpleConsumerGroup() ? " simple" : "")
            + " may " + new TreeSet<>(Objects.requireNonNullElse(each.authorizedOperations(), Set.of()))).collect(Collectors.toList())
            + ", committed " + new TreeMap<>(committed).values().stream().map(each -> each.entrySet().stream().map(entry -> entry.getKey() + "=" + entry.getValue().offset()).sorted().collect(Collectors.toList())).collect(Collectors.toList());
    }

    String groupChange() throws Exception {
        List<Object> steps = new ArrayList<>();
        steps.add(Operations.refusal(admin.alterConsumerGroupOffsets("shop", Map.of(partitions().get(0), new OffsetAndMetadata(10))).all()));
        steps.add(Operations.refusal(admin.deleteConsumerGroupOffsets("shop", Set.of(partitions().get(1))).all()));
        steps.add(admin.listConsumerGroupOffsets("shop").partitionsToOffsetAndMetadata().get().size() + " committed");
        steps.add(Operations.refusal(admin.deleteConsumerGroups(List.of("audit")).all()));
        return steps.toString();
    }

    String quorum() throws Exception {
        return asked(admin.describeMetadataQuorum().quorumInfo(), quorum -> "leader " + quorum.leaderId() + ", voters "
            + quorum.voters().stream().map(each -> each.replicaId() + " at its end " + (each.logEndOffset() > 0)).collect(Collectors.toList()) + ", observers " + quorum.observers().size()
            + ", nodes " + quorum.nodes().keySet());
    }

    String producers() throws Exception {
        return asked(admin.describeProducers(partitions()).all(), all -> partitions().stream().map(each -> all.get(each).activeProducers().stream()
            .map(producer -> "epoch " + producer.producerEpoch() + " sequence " + producer.lastSequence() + " transaction " + producer.currentTransactionStartOffset()).collect(Collectors.toList())).collect(Collectors.toList()))
            + ", transactions " + asked(admin.listTransactions().all(), Object::toString);
    }

    String reassignments() throws Exception {
        return "under way " + asked(admin.listPartitionReassignments().reassignments(), Object::toString)
            + ", elected " + asked(admin.electLeaders(ElectionType.PREFERRED, Set.of(partitions().get(0))).partitions(), all -> all.values().stream().map(each -> each.map(Operations::refusal).orElse("done")).collect(Collectors.toList()));
    }
}
