// Row kafka-tools: Kafka's command line tools (Apache-2.0) in one virtual machine. The detail is what each prints,
// without what must differ from run to run; the exit code stands in front when it is not 0.

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.common.utils.internals.Exit;

public class Tools {
    static final int SECONDS = 60;
    static final PrintStream OUT = System.out;
    static String address;

    /** Thrown where a tool would end the virtual machine. */
    static class Exited extends Error {
    }

    interface Operation {
        String run() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        address = arguments[0];
        Exit.setExitProcedure((code, message) -> exited(code));
        Exit.setHaltProcedure((code, message) -> exited(code));

        operation("topics-create", () ->
            tool("TopicCommand", "--create", "--topic", "tools", "--partitions", "3", "--config", "retention.ms=3600000", "--config", "cleanup.policy=compact,delete")
            + tool("TopicCommand", "--create", "--topic", "a.b", "--if-not-exists"));
        operation("topics-refused", () ->
            tool("TopicCommand", "--create", "--topic", "tools")
            + tool("TopicCommand", "--create", "--topic", "a_b")
            + tool("TopicCommand", "--create", "--topic", "none", "--partitions", "1", "--replication-factor", "3")
            + tool("TopicCommand", "--create", "--topic", "key", "--config", "no.such.key=1")
            + tool("TopicCommand", "--create", "--topic", "x".repeat(250))
            + tool("TopicCommand", "--alter", "--topic", "nowhere", "--partitions", "3")
            + tool("TopicCommand", "--delete", "--topic", "nowhere"));
        operation("topics-describe", () -> tool("TopicCommand", "--describe") + tool("TopicCommand", "--describe", "--topic", "tools", "--exclude-internal"));
        operation("topics-alter", () ->
            tool("TopicCommand", "--alter", "--topic", "tools", "--partitions", "4")
            + tool("TopicCommand", "--alter", "--topic", "tools", "--partitions", "2")
            + tool("TopicCommand", "--describe", "--topic", "tools"));
        operation("topics-list", () -> tool("TopicCommand", "--list"));
        operation("console", () -> {
            System.setIn(new ByteArrayInputStream("k1:one\nk2:two\nk3:three\n".getBytes(StandardCharsets.UTF_8)));
            return tool("ConsoleProducer", "--topic", "a.b", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
                + tool("consumer.ConsoleConsumer", "--topic", "a.b", "--partition", "0", "--offset", "earliest", "--max-messages", "3",
                    "--formatter-property", "print.key=true", "--formatter-property", "print.offset=true", "--formatter-property", "print.partition=true");
        });
        operation("producer-perf", () ->
            // Only the number of records is the same each time.
            first(",", tool("ProducerPerformance", "--topic", "perf", "--num-records", "20000", "--record-size", "200", "--throughput", "-1",
                "--command-property", "compression.type=lz4")));
        operation("configs-topic", () ->
            tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--add-config", "max.message.bytes=2000000,segment.ms=600000")
            + tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--delete-config", "segment.ms")
            + tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "tools")
            + tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "tools", "--all"));
        operation("configs-refused", () ->
            tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--add-config", "max.message.bytes=-5")
            + tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "nowhere", "--add-config", "max.message.bytes=5")
            + tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", "tools", "--delete-config", "segment.ms")
            + tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "nowhere"));
        operation("configs-default", () ->
            tool("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-default", "--add-config", "log.retention.ms=7200000")
            + tool("ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-default")
            + settled(() -> tool("ConfigCommand", "--describe", "--entity-type", "topics", "--entity-name", "a.b", "--all"), "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms")
            + tool("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-default", "--delete-config", "log.retention.ms"));
        operation("configs-broker", () ->
            tool("ConfigCommand", "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config", "log.cleaner.threads=2")
            + settled(() -> tool("ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"), "log.cleaner.threads=2 sensitive"));
        operation("get-offsets", () ->
            tool("GetOffsetShell", "--topic", "a.b") + tool("GetOffsetShell", "--topic", "a.b", "--time", "earliest")
            + tool("GetOffsetShell", "--topic", "a.b", "--time", "0")
            + tool("GetOffsetShell", "--topic-partitions", "a.b:0,tools:1-2", "--time", "-2") + tool("GetOffsetShell", "--topic", "nowhere"));
        operation("records-delete", () -> {
            Path plan = Files.createTempFile("delete-records", ".json");
            try {
                Files.writeString(plan, "{\"version\":1,\"partitions\":[{\"topic\":\"a.b\",\"partition\":0,\"offset\":2}]}");
                return tool("DeleteRecordsCommand", "--offset-json-file", plan.toString())
                    + tool("GetOffsetShell", "--topic", "a.b", "--time", "earliest");
            } finally {
                Files.delete(plan);
            }
        });
        operation("log-dirs", () -> tool("LogDirsCommand", "--describe", "--topic-list", "a.b")
            .replaceAll("\"size\":\\d+", "\"size\":N"));
        operation("api-versions", () -> tool("BrokerApiVersionsCommand"));
        operation("features", () -> tool("FeatureCommand", "describe").replaceAll("Epoch: \\d+", "Epoch: N"));
        operation("cluster-id", () -> tool("ClusterTool", "cluster-id") + tool("ClusterTool", "list-endpoints"));
        operation("topics-delete", () ->
            tool("TopicCommand", "--delete", "--topic", "tools") + tool("TopicCommand", "--list") + tool("TopicCommand", "--describe", "--topic", "tools"));
        OUT.flush();
        Runtime.getRuntime().halt(0);
    }

    static void operation(String name, Operation operation) {
        String status = "ok", detail;
        ExecutorService runner = Executors.newSingleThreadExecutor();
        try {
            detail = runner.submit(operation::run).get(SECONDS, TimeUnit.SECONDS);
        } catch (Exception error) {
            status = "FAIL";
            detail = String.valueOf(error.getCause() == null ? error : error.getCause());
        }
        runner.shutdownNow();
        OUT.println(name + "\t" + status + "\t" + detail.replaceAll("\\s+", " ").strip());
        OUT.flush();
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
            System.setOut(OUT);
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

    static String first(String separator, String text) {
        return text.lines().map(line -> line.split(separator)[0]).reduce((a, b) -> b).orElse("");
    }

    /** Asks again until the answer has the text: a broker reads changes of its own settings after they are answered. */
    static String settled(Operation question, String text) throws Exception {
        String answer = question.run();
        for (int i = 0; i < 20 && !answer.contains(text); i++) {
            Thread.sleep(100);
            answer = question.run();
        }
        return answer;
    }
}
