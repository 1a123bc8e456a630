// The frame of the Java rows: runs one operation after the other, each within a time of its own, and prints a line for
// each: `operation TAB ok|skip|FAIL TAB detail`. Uses nothing that the oldest client has not.

import java.io.PrintStream;
import java.util.concurrent.*;
import org.apache.kafka.common.protocol.Errors;

final class Operations {
    static final int SECONDS = 60;
    static final PrintStream OUT = System.out;

    interface Operation {
        String run() throws Exception;
    }

    /** Thrown by an operation whose client has no such feature. */
    static final class Skip extends RuntimeException {
        Skip(String reason) {
            super(reason);
        }
    }

    private Operations() {
    }

    static void run(String name, Operation operation) {
        long begun = System.nanoTime();
        String status = "ok", detail;
        ExecutorService runner = Executors.newSingleThreadExecutor(task -> {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            return thread;
        });
        try {
            detail = runner.submit(operation::run).get(SECONDS, TimeUnit.SECONDS);
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            status = cause instanceof Skip ? "skip" : "FAIL";
            detail = cause instanceof Skip ? cause.getMessage() : String.valueOf(cause);
        }
        runner.shutdownNow();
        OUT.println(name + "\t" + status + "\t" + detail.replaceAll("\\s+", " ").strip());
        OUT.flush();
        System.err.println(name + " took " + (System.nanoTime() - begun) / 1_000_000 + " ms");
    }

    static void expect(String what, Object seen, Object wanted) {
        if (!String.valueOf(seen).equals(String.valueOf(wanted)))
            throw new AssertionError(String.format("%s: %.200s instead of %.200s", what, seen, wanted));
    }

    /** Kafka's name of the error that a future ends with, and its text. */
    static String refusal(Future<?> future) throws Exception {
        try {
            future.get();
            return "NO_ERROR";
        } catch (ExecutionException error) {
            return refusal(error.getCause());
        }
    }

    static String refusal(Throwable error) {
        return Errors.forException(error).name() + ": " + error.getMessage();
    }
}
