// kafka-producer-perf-test, kafka-consumer-perf-test and EndToEndLatency (Apache-2.0), one of them at a time. Prints, in tabs:
// `produce`: MB/s, p50, p99 and max in ms; `consume`: MB/s without the time of joining; `latency`: mean, p50 and p99 in ms.

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.*;
import org.apache.kafka.common.utils.internals.Exit;

public class Perf {
    public static void main(String[] arguments) throws Exception {
        String address = arguments[0], what = arguments[1], topic = arguments[2], records = arguments[3], size = arguments[4];
        Exit.setExitProcedure((code, message) -> {
            if (code != 0) throw new IllegalStateException("ended with " + code + ": " + message);
        });
        String line = switch (what) {
            case "produce" -> last("99th", "ProducerPerformance", "--bootstrap-server", address, "--topic", topic, "--num-records", records,
                "--record-size", size, "--throughput", "-1", "--command-property", "batch.size=131072", "linger.ms=5");
            case "consume" -> last("\\d, \\d", "ConsumerPerformance", "--bootstrap-server", address, "--topic", topic, "--num-records", records,
                "--hide-header", "--timeout", "60000");
            case "latency" -> last("Avg latency|Percentiles", "EndToEndLatency", "--bootstrap-server", address, "--topic", topic,
                "--num-records", records, "--producer-acks", "1", "--record-size", size);
            default -> throw new IllegalArgumentException(what);
        };
        System.out.println(switch (what) {
            case "produce" -> found(line, "\\(([\\d.]+) MB/sec\\).* ([\\d.]+) ms max latency, (\\d+) ms 50th.* (\\d+) ms 99th", 1, 3, 4, 2);
            case "consume" -> line.split(", ")[8];
            default -> found(line, "latency: ([\\d.]+).* 50th = (\\d+), 99th = (\\d+)", 1, 2, 3);
        });
        Runtime.getRuntime().halt(0);
    }

    /** What a tool prints last in lines that match: as many of them as it sums up in. */
    static String last(String pattern, String tool, String... arguments) throws Exception {
        PrintStream out = System.out;
        ByteArrayOutputStream caught = new ByteArrayOutputStream();
        System.setOut(new PrintStream(caught, true, StandardCharsets.UTF_8));
        try {
            Class.forName("org.apache.kafka.tools." + tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } finally {
            System.setOut(out);
        }
        String seen = caught.toString(StandardCharsets.UTF_8);
        Pattern wanted = Pattern.compile(pattern);
        List<String> lines = seen.lines().filter(line -> wanted.matcher(line).find()).toList();
        int summary = pattern.contains("|") ? 2 : 1;
        if (lines.size() < summary) throw new IllegalStateException(seen);
        return String.join(" ", lines.subList(lines.size() - summary, lines.size()));
    }

    static String found(String line, String pattern, int... groups) {
        Matcher matcher = Pattern.compile(pattern).matcher(line);
        if (!matcher.find()) throw new IllegalStateException(line);
        StringBuilder fields = new StringBuilder();
        for (int group : groups) fields.append(fields.isEmpty() ? "" : "\t").append(matcher.group(group));
        return fields.toString();
    }
}
