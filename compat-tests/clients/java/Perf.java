// kafka-producer-perf-test and kafka-consumer-perf-test (Apache-2.0), one after the other, with one partition assigned to
// the consumer instead of a group. Prints `produce MB/s p50 p99 max` and `consume MB/s`, in tabs.

import java.io.*;
import java.lang.reflect.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.function.Function;
import java.util.regex.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.internals.Exit;

public class Perf {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[0], what = arguments[1], topic = arguments[2], records = arguments[3], size = arguments[4];
        Exit.setExitProcedure((code, message) -> { throw new IllegalStateException("ended with " + code); });
        if (what.equals("produce")) {
            String seen = caught(() -> tool("ProducerPerformance").getMethod("main", String[].class).invoke(null, (Object) new String[] {
                "--bootstrap-server", address, "--topic", topic, "--num-records", records, "--record-size", size, "--throughput", "-1",
                "--command-property", "batch.size=131072", "linger.ms=5"}));
            // The last line sums up the run.
            String line = seen.lines().filter(each -> each.contains("99th")).reduce((a, b) -> b).orElseThrow(() -> new IllegalStateException(seen));
            Matcher matcher = Pattern.compile("\\(([\\d.]+) MB/sec\\).* ([\\d.]+) ms max latency, (\\d+) ms 50th.* (\\d+) ms 99th").matcher(line);
            if (!matcher.find()) throw new IllegalStateException(line);
            System.out.println(matcher.group(1) + "\t" + matcher.group(3) + "\t" + matcher.group(4) + "\t" + matcher.group(2));
        } else {
            Method run = tool("ConsumerPerformance").getDeclaredMethod("run", String[].class, Function.class);
            run.setAccessible(true);
            Function<Properties, Consumer<byte[], byte[]>> assigned = properties -> assigned(properties);
            String seen = caught(() -> run.invoke(null, new String[] {
                "--bootstrap-server", address, "--topic", topic, "--num-records", records, "--hide-header", "--timeout", "60000"}, assigned));
            String[] fields = seen.lines().filter(each -> each.split(", ").length == 10).findFirst().orElseThrow(() -> new IllegalStateException(seen)).split(", ");
            System.out.println(fields[8]);
        }
        Runtime.getRuntime().halt(0);
    }

    static Class<?> tool(String name) throws ClassNotFoundException {
        return Class.forName("org.apache.kafka.tools." + name);
    }

    interface Task {
        void run() throws Exception;
    }

    static String caught(Task task) throws Exception {
        PrintStream out = System.out;
        ByteArrayOutputStream caught = new ByteArrayOutputStream();
        System.setOut(new PrintStream(caught, true, StandardCharsets.UTF_8));
        try {
            task.run();
        } finally {
            System.setOut(out);
        }
        return caught.toString(StandardCharsets.UTF_8);
    }

    /** A consumer that takes all partitions of what it is to subscribe to, from their beginning. */
    @SuppressWarnings("unchecked")
    static Consumer<byte[], byte[]> assigned(Properties properties) {
        Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
        return (Consumer<byte[], byte[]>) Proxy.newProxyInstance(Perf.class.getClassLoader(), new Class<?>[] {Consumer.class}, (proxy, method, arguments) -> {
            if (!method.getName().equals("subscribe")) return method.invoke(consumer, arguments);
            List<TopicPartition> partitions = ((Collection<String>) arguments[0]).stream().flatMap(topic -> consumer.partitionsFor(topic).stream())
                .map(each -> new TopicPartition(each.topic(), each.partition())).collect(Collectors.toList());
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            return null;
        });
    }
}
