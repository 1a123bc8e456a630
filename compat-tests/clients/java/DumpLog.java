// Kafka's own reader of its files (kafka-dump-log, Apache-2.0) over a stopped broker's data directory: every segment
// record by record, every index against its segment, producer snapshots, the metadata log and its snapshots.
// Prints which kinds of files were read, and what it found wrong; exit code 1 when anything is.

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.regex.Pattern;
import java.util.stream.*;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.tools.DumpLogSegments;

public class DumpLog {
    static final Pattern WRONG = Pattern.compile("mismatch|isvalid: false|could not|corrupt|not valid|Exception|Error|Non-consecutive|out of order|Could not", Pattern.CASE_INSENSITIVE);

    public static void main(String[] arguments) throws Exception {
        Exit.setExitProcedure((code, message) -> { throw new IllegalStateException("kafka-dump-log ended with " + code + " " + message); });
        Map<String, List<Path>> kinds = new TreeMap<>();
        try (Stream<Path> files = Files.walk(Path.of(arguments[0]))) {
            files.filter(Files::isRegularFile).sorted().forEach(file -> kinds.computeIfAbsent(kind(file), kind -> new ArrayList<>()).add(file));
        }
        kinds.remove("");
        List<String> wrong = new ArrayList<>();
        kinds.forEach((kind, files) -> {
            for (List<String> options : options(kind)) wrong.addAll(dump(files, options));
        });
        System.out.println("read " + kinds.keySet());
        wrong.stream().limit(20).forEach(System.out::println);
        System.exit(wrong.isEmpty() ? 0 : 1);
    }

    /** What to read a file as; nothing for those that have no reader. */
    static String kind(Path file) {
        String name = file.getFileName().toString(), directory = file.getParent().getFileName().toString();
        boolean metadata = directory.startsWith("__cluster_metadata");
        if (directory.endsWith("-delete")) return "";
        if (name.endsWith(".log")) return metadata ? "metadata" : "log";
        if (name.endsWith(".checkpoint")) return "metadata-snapshot";
        if (name.endsWith(".snapshot")) return "snapshot";
        // Kafka leaves the indexes of the metadata log as it had mapped them, with an empty tail that its reader refuses.
        if (metadata) return "";
        for (String kind : List.of("timeindex", "txnindex", "index")) if (name.endsWith("." + kind)) return kind;
        return "";
    }

    static List<List<String>> options(String kind) {
        switch (kind) {
            case "metadata":
            case "metadata-snapshot":
                return List.of(List.of("--cluster-metadata-decoder"), List.of("--deep-iteration", "--print-data-log"));
            case "index":
                return List.of(List.of("--index-sanity-check"), List.of());
            case "timeindex":
                // Deep, because a mismatch is looked for only then.
                return List.of(List.of("--index-sanity-check"), List.of("--deep-iteration"));
            case "log":
                return List.of(List.of("--deep-iteration"));
            default:
                return List.of(List.of());
        }
    }

    /** Dumps the files and returns the lines that report something wrong. */
    static List<String> dump(List<Path> files, List<String> options) {
        List<String> arguments = new ArrayList<>(options);
        arguments.add("--files");
        arguments.add(files.stream().map(Path::toString).collect(Collectors.joining(",")));
        PrintStream out = System.out, err = System.err;
        ByteArrayOutputStream caught = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(caught, true, StandardCharsets.UTF_8);
        System.setOut(stream);
        System.setErr(stream);
        List<String> wrong = new ArrayList<>();
        try {
            DumpLogSegments.main(arguments.toArray(new String[0]));
        } catch (Throwable error) {
            wrong.add(arguments + ": " + error);
        } finally {
            System.setOut(out);
            System.setErr(err);
        }
        // Lines of records may hold any text: the payload of metadata records names errors, too, as may topics and headers.
        caught.toString(StandardCharsets.UTF_8).lines().filter(line -> !line.contains("payload:"))
            .map(line -> line.replaceAll("/\\S+", "/").replaceAll("headerKeys: \\[.*?\\]", ""))
            .filter(line -> WRONG.matcher(line).find()).forEach(wrong::add);
        return wrong;
    }
}
