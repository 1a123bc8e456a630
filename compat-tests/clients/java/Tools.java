// Row kafka-tools: Kafka's command line tools (Apache-2.0) in one virtual machine. The detail is what each prints,
// without what must differ from run to run; the exit code stands in front when it is not 0.

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.common.utils.internals.Exit;

public class Tools {
    static String address;

    /** Thrown where a tool would end the virtual machine. */
    static class Exited extends Error {
    }

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        Exit.setExitProcedure((code, message) -> exited(code));
        Exit.setHaltProcedure((code, message) -> exited(code));

        Operations.run("topics-create", () ->
            tool("TopicCommand", "--create", "--topic", "tools", "--partitions", "3", "--config", "retention.ms=3600000", "--config", "cleanup.policy=compact,delete")
            + tool("TopicCommand", "--create", "--topic", "a.b", "--if-not-exists"));
        Operations.run("topics-refused", () ->
            tool("TopicCommand", "--create", "--topic", "tools")
            + tool("TopicCommand", "--create", "--topic", "a_b")
            + tool("TopicCommand", "--create", "--topic", "none", "--partitions", "1", "--replication-factor", "3")
            + tool("TopicCommand", "--create", "--topic", "key", "--config", "no.such.key=1")
            + tool("TopicCommand", "--create", "--topic", "x".repeat(250))
            + tool("TopicCommand", "--alter", "--topic", "nowhere", "--partitions", "3")
            + tool("TopicCommand", "--delete", "--topic", "nowhere"));
        Operations.run("topics-describe", () -> tool("TopicCommand", "--describe") + tool("TopicCommand", "--describe", "--topic", "tools", "--exclude-internal"));
        Operations.run("topics-alter", () ->
            tool("TopicCommand", "--alter", "--topic", "tools", "--partitions", "4")
            + tool("TopicCommand", "--alter", "--topic", "tools", "--partitions", "2")
            + tool("TopicCommand", "--describe", "--topic", "tools"));
        Operations.run("topics-list", () -> tool("TopicCommand", "--list"));
        Operations.run("console", () -> {
            System.setIn(new ByteArrayInputStream("k1:one\nk2:two\nk3:three\n".getBytes(StandardCharsets.UTF_8)));
            return tool("ConsoleProducer", "--topic", "a.b", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
                + tool("consumer.ConsoleConsumer", "--topic", "a.b", "--partition", "0", "--offset", "earliest", "--max-messages", "3",
                    "--formatter-property", "print.key=true", "--formatter-property", "print.offset=true", "--formatter-property", "print.partition=true");
        });
        Operations.run("producer-perf", () ->
            // Only the number of records is the same each time.
            first(",", tool("ProducerPerformance", "--topic", "perf", "--num-records", "20000", "--record-size", "200", "--throughput", "-1",
                "--command-property", "compression.type=lz4")));
        Operations.run("configs-topic", () ->
            tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--add-config", "max.message.bytes=2000000,segment.ms=600000")
            + tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--delete-config", "segment.ms")
            + tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "tools")
            + tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "tools", "--all"));
        Operations.run("configs-refused", () ->
            tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--add-config", "max.message.bytes=-5")
            + tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "nowhere", "--add-config", "max.message.bytes=5")
            + tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--delete-config", "segment.ms")
            + tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "nowhere"));
        Operations.run("configs-default", () ->
            tool("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.retention.ms=7200000")
            + settled(() -> tool("ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-default"), "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms")
            + settled(() -> tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "a.b", "--all"), "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms")
            + tool("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-default", "--delete-config", "log.retention.ms"));
        Operations.run("configs-broker", () ->
            tool("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config", "log.cleaner.threads=2")
            + settled(() -> tool("ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"), "log.cleaner.threads=2 sensitive"));
        Operations.run("get-offsets", () ->
            tool("GetOffsetShell", "--topic", "a.b") + tool("GetOffsetShell", "--topic", "a.b", "--time", "earliest")
            + tool("GetOffsetShell", "--topic", "a.b", "--time", "0")
            + tool("GetOffsetShell", "--topic-partitions", "a.b:0,tools:1-2", "--time", "-2") + tool("GetOffsetShell", "--topic", "nowhere"));
        Operations.run("records-delete", () ->
            withFile("{\"version\":1,\"partitions\":[{\"topic\":\"a.b\",\"partition\":0,\"offset\":2}]}", plan ->
                tool("DeleteRecordsCommand", "--offset-json-file", plan) + tool("GetOffsetShell", "--topic", "a.b", "--time", "earliest")));
        Operations.run("log-dirs", () -> tool("LogDirsCommand", "--describe", "--topic-list", "a.b")
            .replaceAll("\"size\":\\d+", "\"size\":N"));
        Operations.run("api-versions", () -> tool("BrokerApiVersionsCommand"));
        Operations.run("features", () -> tool("FeatureCommand", "describe").replaceAll("Epoch: \\d+", "Epoch: N"));
        Operations.run("cluster-id", () -> tool("ClusterTool", "cluster-id") + tool("ClusterTool", "list-endpoints"));
        ToolsGroups.run();
        ToolsCluster.run();
        Operations.run("topics-delete", () ->
            tool("TopicCommand", "--delete", "--topic", "tools") + tool("TopicCommand", "--list", "--exclude-internal") + tool("TopicCommand", "--describe", "--topic", "tools"));
        Runtime.getRuntime().halt(0);
    }

    /** The code of the first exit of the tool that runs: a tool may catch what ends it, and exit again. */
    static Integer exitCode;

    static void exited(int code) {
        if (exitCode == null) {
            exitCode = code;
            System.out.close();
        }
        throw new Exited();
    }

    /** Runs a tool's main with its output caught. */
    static String tool(String name, String... arguments) throws Exception {
        List<String> all = new ArrayList<>(List.of("--bootstrap-server", address));
        // The word that says what to do comes first for one tool, and last for another.
        all.addAll(name.equals("ClusterTool") ? 0 : all.size(), List.of(arguments));
        ByteArrayOutputStream caught = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(caught, true, StandardCharsets.UTF_8), errors = System.err;
        exitCode = null;
        System.setOut(stream);
        System.setErr(stream);
        try {
            Class.forName("org.apache.kafka.tools." + name).getMethod("main", String[].class).invoke(null, (Object) all.toArray(new String[0]));
        } catch (java.lang.reflect.InvocationTargetException error) {
            if (!(error.getCause() instanceof Exited)) throw error;
        } finally {
            System.setOut(Operations.OUT);
            System.setErr(errors);
        }
        boolean succeeded = exitCode == null || exitCode == 0;
        return (succeeded ? "" : "exit " + exitCode + ": ") + normalised(caught.toString(StandardCharsets.UTF_8)) + "\n";
    }

    /** Takes out what differs from run to run: addresses, ids, paths, times, stack traces. */
    static String normalised(String text) {
        return text.lines()
            .filter(line -> !line.startsWith("\tat ") && !line.startsWith("\t... "))
            .map(line -> line.replaceAll("^\\[\\d{4}-\\S+ \\S+\\] ", "")
                .replace(address, "HOST:PORT")
                .replaceAll("(localhost|127\\.0\\.0\\.1)(:|\\s+)\\d+", "HOST:PORT")
                .replaceAll("TopicId: \\S{22}", "TopicId: ID")
                .replaceAll("/tmp/[A-Za-z0-9_./-]*", "DIR")
                .replaceAll("\\(org\\.apache\\.kafka\\.[A-Za-z.$]+\\)$", ""))
            .collect(Collectors.joining("\n"));
    }

    /** Runs a tool with a file that it is to read. */
    static String withFile(String content, ToolWithFile tool) throws Exception {
        Path file = Files.createTempFile("tools", ".json");
        try {
            Files.writeString(file, content);
            return tool.run(file.toString());
        } finally {
            Files.delete(file);
        }
    }

    interface ToolWithFile {
        String run(String file) throws Exception;
    }

    /** Lines in an order of their own, where a tool has none. */
    static String sorted(String text) {
        return text.lines().filter(line -> !line.isBlank()).sorted().collect(Collectors.joining("\n")) + "\n";
    }

    static String first(String separator, String text) {
        return text.lines().map(line -> line.split(separator)[0]).reduce((a, b) -> b).orElse("");
    }

    /** Asks again until the answer has the text: a broker reads changes of its own settings after they are answered. */
    static String settled(Operations.Operation question, String text) throws Exception {
        String answer = question.run();
        for (int i = 0; i < 20 && !answer.contains(text); i++) {
            Thread.sleep(100);
            answer = question.run();
        }
        return answer;
    }
}
