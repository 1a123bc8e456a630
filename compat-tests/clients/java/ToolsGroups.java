// The command line tools for groups: kafka-consumer-groups in all its views and with all ways to reset offsets,
// kafka-groups, and kafka-console-consumer as a member.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.*;

final class ToolsGroups {
    static final int PARTITIONS = 3;
    static final int PER_PARTITION = 10;
    /** The records' times are a minute apart from here on. */
    static final Instant FIRST = Instant.parse("2026-01-01T00:00:00Z");

    private ToolsGroups() {
    }

    static void run() {
        Operations.run("console-group", () -> {
            String created = topic("orders") + topic("refunds");
            return created + console("orders", "shop") + console("refunds", "shop") + console("orders", "audit");
        });
        Operations.run("groups-list", () -> groups("--list") + groups("--list", "--state") + groups("--list", "--state", "empty") + groups("--list", "--state", "stable")
            + groups("--list", "--type") + groups("--list", "--type", "classic") + groups("--list", "--type", "consumer"));
        Operations.run("groups-tool", () -> tool("GroupsCommand", "--list") + tool("GroupsCommand", "--list", "--consumer") + tool("GroupsCommand", "--list", "--group-type", "classic")
            + tool("GroupsCommand", "--list", "--protocol", "consumer") + tool("GroupsCommand", "--list", "--share") + tool("GroupsCommand", "--list", "--streams")
            + tool("consumer.group.ShareGroupCommand", "--list") + tool("streams.StreamsGroupCommand", "--list"));
        Operations.run("groups-share", () -> share("--list", "--state") + share("--list", "--state", "stable") + share("--describe", "--all-groups")
            + share("--delete", "--group", "nobody") + share("--delete", "--all-groups"));
        Operations.run("groups-share-describe", () -> share("--describe", "--group", "nobody") + share("--describe", "--group", "nobody", "--members") + share("--describe", "--group", "nobody", "--state")
            + share("--delete-offsets", "--group", "nobody", "--topic", "orders") + share("--reset-offsets", "--group", "nobody", "--topic", "orders", "--to-earliest", "--dry-run"));
        Operations.run("groups-streams", () -> streams("--list", "--state") + streams("--describe", "--all-groups") + streams("--delete", "--group", "nobody") + streams("--delete", "--all-groups")
            + streams("--delete-offsets", "--group", "nobody", "--input-topic", "refunds:0"));
        Operations.run("groups-streams-describe", () -> streams("--describe", "--group", "nobody") + streams("--describe", "--group", "nobody", "--members") + streams("--describe", "--group", "nobody", "--state")
            + streams("--reset-offsets", "--group", "nobody", "--input-topic", "refunds", "--to-earliest", "--dry-run"));
        Operations.run("groups-describe", () -> describe("--group", "shop") + describe("--group", "shop", "--offsets", "--verbose") + describe("--group", "shop", "--state")
            + describe("--group", "shop", "--state", "--verbose") + describe("--group", "shop", "--members") + describe("--group", "shop", "--members", "--verbose")
            + describe("--all-groups") + describe("--all-groups", "--state") + describe("--group", "nowhere") + describe("--group", "nowhere", "--members") + describe("--group", "nowhere", "--state"));
        Operations.run("groups-live", ToolsGroups::live);
        Operations.run("groups-reset", () -> {
            StringBuilder seen = new StringBuilder();
            for (String[] how : List.of(new String[] {"--to-earliest"}, new String[] {"--to-latest"}, new String[] {"--to-offset", "4"}, new String[] {"--to-offset", "400"},
                    new String[] {"--shift-by", "2"}, new String[] {"--shift-by", "-3"}, new String[] {"--shift-by", "-300"}, new String[] {"--to-datetime", "2026-01-01T00:06:30.000"},
                    new String[] {"--to-datetime", "2026-01-01T00:06:30.000+02:00"}, new String[] {"--by-duration", "P20000D"}, new String[] {"--by-duration", "PT1S"}, new String[] {"--to-current"}))
                seen.append(String.join(" ", how)).append(": ").append(reset("--topic", "orders", "--execute", how));
            return seen + committed();
        });
        Operations.run("groups-reset-scope", () ->
            reset("--topic", "orders:1,2", "--execute", "--to-offset", "5") + committed() + reset("--all-topics", "", "--dry-run", "--to-offset", "3") + reset("--all-topics", "", "", "--to-offset", "2") + committed()
            + reset("--topic", "orders:7", "--execute", "--to-offset", "5") + reset("--topic", "nowhere", "--execute", "--to-earliest")
            + sorted(groups("--reset-offsets", "--group", "fresh", "--topic", "refunds", "--to-earliest", "--execute"))
            + groups("--reset-offsets", "--group", "shop", "--topic", "orders", "--to-offset", "1", "--to-earliest", "--execute")
            + sorted(groups("--reset-offsets", "--all-groups", "--topic", "orders", "--to-offset", "6", "--execute")) + committed());
        Operations.run("groups-reset-file", () -> {
            String exported = reset("--all-topics", "", "--export", "--to-offset", "8");
            return exported + Tools.withFile("orders,0,1\nrefunds,2,3\n", file -> sorted(groups("--reset-offsets", "--group", "shop", "--from-file", file, "--dry-run"))
                + sorted(groups("--reset-offsets", "--group", "shop", "--from-file", file, "--execute"))) + committed();
        });
        Operations.run("groups-delete", () ->
            sorted(groups("--delete-offsets", "--group", "shop", "--topic", "refunds:0,1")) + sorted(groups("--delete-offsets", "--group", "shop", "--topic", "orders")) + committed()
            + sorted(groups("--delete-offsets", "--group", "shop", "--topic", "nowhere")) + groups("--delete-offsets", "--group", "nowhere", "--topic", "orders")
            + groups("--delete", "--group", "fresh") + groups("--delete", "--group", "nowhere") + groups("--delete", "--group", "shop", "--group", "audit") + sorted(groups("--list")));
    }

    static String tool(String name, String... arguments) throws Exception {
        return Tools.tool(name, arguments);
    }

    static String sorted(String text) {
        return Tools.sorted(text);
    }

    static String share(String... arguments) throws Exception {
        return tool("consumer.group.ShareGroupCommand", arguments);
    }

    static String streams(String... arguments) throws Exception {
        return tool("streams.StreamsGroupCommand", arguments);
    }

    static String groups(String... arguments) throws Exception {
        // An error in the options brings all their descriptions with it.
        String printed = tool("consumer.group.ConsumerGroupCommand", arguments).replaceAll("(?ms)^Option {2,}Description.*", "");
        return sorted(printed).replaceAll("-[0-9a-f]{8}-[0-9a-f-]{27}", "-ID");
    }

    static String describe(String... arguments) throws Exception {
        List<String> all = new ArrayList<>(List.of("--describe"));
        all.addAll(List.of(arguments));
        return groups(all.toArray(new String[0]));
    }

    /** Resets the group shop; an empty word stands for none. */
    static String reset(String scope, String topic, String what, String... how) throws Exception {
        List<String> all = new ArrayList<>(List.of("--reset-offsets", "--group", "shop", scope, topic, what));
        all.addAll(List.of(how));
        all.removeIf(String::isEmpty);
        return groups(all.toArray(new String[0]));
    }

    static String committed() throws Exception {
        return "committed: " + describe("--group", "shop");
    }

    /** Makes a topic with records of known times in each partition. */
    static String topic(String name) throws Exception {
        String created = tool("TopicCommand", "--create", "--topic", name, "--partitions", String.valueOf(PARTITIONS), "--config", "retention.ms=-1");
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(Map.of("bootstrap.servers", Tools.address), new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < PARTITIONS * PER_PARTITION; number++) {
                long time = FIRST.plus(Duration.ofMinutes(number / PARTITIONS)).toEpochMilli();
                sent.add(producer.send(new ProducerRecord<>(name, number % PARTITIONS, time, null, ("record " + number).getBytes(StandardCharsets.UTF_8))));
            }
            for (Future<RecordMetadata> each : sent) each.get();
        }
        return created;
    }

    static String console(String topic, String group) throws Exception {
        return sorted(tool("consumer.ConsoleConsumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", String.valueOf(PARTITIONS * PER_PARTITION)));
    }

    /** The views of a group that has members, and what is refused while it has. */
    static String live() throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", Tools.address, "group.id", "live", "client.id", "one", "auto.offset.reset", "earliest", "enable.auto.commit", false));
        try (Consumer<byte[], byte[]> one = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            one.subscribe(List.of("orders"));
            for (int seen = 0; seen < PARTITIONS * PER_PARTITION; ) seen += one.poll(Duration.ofSeconds(1)).count();
            one.commitSync();
            return describe("--group", "live") + describe("--group", "live", "--offsets", "--verbose") + describe("--group", "live", "--members") + describe("--group", "live", "--members", "--verbose")
                + describe("--group", "live", "--state") + groups("--list", "--state", "stable")
                + sorted(groups("--reset-offsets", "--group", "live", "--topic", "orders", "--to-earliest", "--execute"))
                + groups("--delete", "--group", "live") + sorted(groups("--delete-offsets", "--group", "live", "--topic", "orders"));
        }
    }
}
