// The command line tools for the cluster, for settings of what is neither topic nor broker, for replicas and for what a
// broker without security refuses; ClientCompatibilityTest of Kafka's own system tests.

import java.util.*;
import java.util.stream.*;

final class ToolsCluster {
    private ToolsCluster() {
    }

    static void run() {
        Operations.run("configs-brokers", () -> {
            StringBuilder seen = new StringBuilder();
            for (String setting : List.of("num.io.threads=9", "message.max.bytes=2000000", "log.cleaner.backoff.ms=20000", "background.threads=12", "max.connections.per.ip=500"))
                seen.append(broker("--alter", "--add-config", setting));
            for (String refused : List.of("num.io.threads=900", "num.io.threads=many", "node.id=2", "log.dirs=/tmp/other", "no.such.key=1"))
                seen.append(broker("--alter", "--add-config", refused));
            seen.append(Tools.settled(() -> broker("--describe"), "max.connections.per.ip=500"));
            return seen + broker("--alter", "--delete-config", "num.io.threads,message.max.bytes,log.cleaner.backoff.ms,background.threads,max.connections.per.ip") + broker("--describe");
        });
        Operations.run("configs-throttles", () -> {
            String rates = "leader.replication.throttled.rate=1000000,follower.replication.throttled.rate=2000000,replica.alter.log.dirs.io.max.bytes.per.second=3000000";
            String names = rates.replaceAll("=\\d+", "");
            String set = broker("--alter", "--add-config", rates) + everyBroker("--alter", "--add-config", "leader.replication.throttled.rate=4000000");
            String shown = Tools.settled(() -> broker("--describe"), "4000000") + everyBroker("--describe");
            StringBuilder refused = new StringBuilder();
            for (String bad : List.of("-1", "many", "1.5", ""))
                refused.append(broker("--alter", "--add-config", "replica.alter.log.dirs.io.max.bytes.per.second=" + bad));
            return set + shown + refused + broker("--alter", "--delete-config", names) + everyBroker("--alter", "--delete-config", "leader.replication.throttled.rate")
                + Tools.settled(() -> everyBroker("--describe") + broker("--describe"), "cluster are:\nDynamic");
        });
        Operations.run("configs-groups", () -> entity("groups", "shop", "consumer.session.timeout.ms=50000", "consumer.heartbeat.interval.ms=6000")
            + configs("--describe", "--entity-type", "groups", "--entity-name", "shop", "--all")
            + configs("--alter", "--entity-type", "groups", "--entity-name", "shop", "--add-config", "no.such.key=1")
            + configs("--alter", "--entity-type", "groups", "--entity-name", "shop", "--add-config", "consumer.session.timeout.ms=1"));
        Operations.run("client-metrics", () -> entity("client-metrics", "watched", "interval.ms=1000", "metrics=org.apache.kafka.producer.")
            + configs("--alter", "--entity-type", "client-metrics", "--entity-name", "watched", "--add-config", "interval.ms=1")
            + configs("--alter", "--entity-type", "client-metrics", "--entity-name", "watched", "--add-config", "match=nonsense")
            + Tools.tool("ClientMetricsCommand", "--alter", "--name", "second", "--interval", "2000", "--metrics", "*", "--match", "client_id=x")
            + Tools.sorted(Tools.tool("ClientMetricsCommand", "--list")) + Tools.sorted(Tools.tool("ClientMetricsCommand", "--describe", "--name", "second"))
            + Tools.tool("ClientMetricsCommand", "--delete", "--name", "second") + Tools.tool("ClientMetricsCommand", "--list"));
        Operations.run("client-metrics-tool", () -> {
            String made = metrics("--alter", "--name", "third", "--metrics", "a.,b.", "--interval", "1000", "--match", "client_id=a.*,client_software_name=b");
            return made + metrics("--describe") + metrics("--alter", "--name", "third", "--interval", "5") + metrics("--alter", "--name", "third", "--match", "what=y")
                + metrics("--alter", "--name", "third", "--interval", "", "--metrics", "", "--match", "") + metrics("--describe", "--name", "third")
                + metrics("--describe", "--name", "none") + metrics("--delete", "--name", "none") + metrics("--delete", "--name", "third") + metrics("--list");
        });
        Operations.run("features-refused", () -> features("upgrade", "--feature", "no.such.version=1") + features("disable", "--feature", "no.such.version")
            + features("upgrade", "--feature", "metadata.version=99") + features("downgrade", "--feature", "metadata.version=25", "--dry-run")
            + features("disable", "--feature", "metadata.version", "--unsafe", "--dry-run") + features("downgrade", "--feature", "kraft.version=0")
            + features("upgrade", "--feature", "kraft.version=1") + features("disable", "--feature", "group.version", "--dry-run")
            + features("upgrade", "--feature", "group.version=-1"));
        Operations.run("features-upgrade", () -> features("upgrade", "--feature", "group.version=1") + features("upgrade", "--release-version", "4.3", "--dry-run"));
        Operations.run("configs-quotas", () -> configs("--describe", "--entity-type", "users") + configs("--describe", "--entity-type", "clients") + configs("--describe", "--entity-type", "ips"));
        Operations.run("metadata-quorum", () -> steady(Tools.tool("MetadataQuorumCommand", "describe", "--status")) + steady(Tools.tool("MetadataQuorumCommand", "describe", "--replication")));
        Operations.run("leader-election", () -> election("preferred", "--all-topic-partitions") + election("preferred", "--topic", "tools", "--partition", "1")
            + election("unclean", "--topic", "tools", "--partition", "1") + election("preferred", "--topic", "nowhere", "--partition", "0") + election("preferred", "--topic", "tools", "--partition", "77"));
        Operations.run("reassign", ToolsCluster::reassign);
        Operations.run("transactions-producers", () -> Tools.tool("TransactionsCommand", "describe-producers", "--topic", "perf", "--partition", "0").replaceAll("\\d{13}", "TIME"));
        Operations.run("transactions-list", () -> Tools.tool("TransactionsCommand", "list") + Tools.tool("TransactionsCommand", "find-hanging", "--broker-id", "1"));
        Operations.run("transactions-find", () -> transactions("find-hanging", "--topic", "perf") + transactions("find-hanging", "--topic", "perf", "--partition", "0")
            + transactions("find-hanging") + transactions("abort", "--topic", "perf", "--partition", "0", "--start-offset", "0"));
        Operations.run("transactions-describe", () -> transactions("describe", "--transactional-id", "nobody")
            + transactions("abort", "--topic", "perf", "--partition", "0", "--producer-id", "1", "--producer-epoch", "0", "--coordinator-epoch", "0"));
        Operations.run("acls", () -> Tools.tool("AclCommand", "--list") + Tools.tool("AclCommand", "--list", "--topic", "tools") + Tools.tool("AclCommand", "--list", "--principal", "User:a") + Tools.tool("AclCommand", "--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "tools")
            + Tools.tool("AclCommand", "--remove", "--force", "--allow-principal", "User:a", "--operation", "Read", "--topic", "tools"));
        Operations.run("delegation-tokens", () -> withConfiguration("DelegationTokenCommand", "--describe") + withConfiguration("DelegationTokenCommand", "--create", "--max-life-time-period", "-1")
            + withConfiguration("DelegationTokenCommand", "--renew", "--renew-time-period", "-1", "--hmac", "YQ==") + withConfiguration("DelegationTokenCommand", "--expire", "--expiry-time-period", "-1", "--hmac", "YQ=="));
        Operations.run("cluster-endpoints", () -> Tools.tool("ClusterTool", "list-endpoints", "--include-fenced-brokers") + Tools.tool("ClusterTool", "unregister", "--id", "77"));
        Operations.run("e2e-latency", () -> Tools.tool("EndToEndLatency", "--topic", "latency", "--num-records", "100", "--producer-acks", "all", "--record-size", "100").replaceAll("\\d+\\.\\d+|\\b\\d+ ms|\\b\\d+$", "N")
            .replaceAll("\\b\\d+\\b", "N"));
        Operations.run("consumer-perf", () -> {
            String printed = Tools.tool("ConsumerPerformance", "--topic", "perf", "--num-records", "20000", "--timeout", "30000");
            return printed.lines().map(line -> line.split(", *")).map(words -> words.length > 5 ? words[4] : String.join(",", words)).collect(Collectors.joining(" "));
        });
        Operations.run("client-compatibility", () -> {
            String[] supported = {"offsets-for-times", "cluster-id", "create-topics", "describe-acls", "describe-configs", "idempotent-producer"};
            Stream<String> options = Stream.concat(Arrays.stream(supported).flatMap(each -> Stream.of("--" + each + "-supported", "true")),
                Stream.of("--topic", "compatibility", "--num-cluster-nodes", "1", "--expect-record-too-large-exception", "false"));
            return Tools.tool("ClientCompatibilityTest", options.toArray(String[]::new)).replaceAll("\\d{6,}", "N");
        });
    }

    static String configs(String... arguments) throws Exception {
        return Tools.tool("ConfigCommand", arguments);
    }

    static String broker(String what, String... arguments) throws Exception {
        List<String> all = new ArrayList<>(List.of(what, "--entity-type", "brokers", "--entity-name", "1"));
        all.addAll(List.of(arguments));
        return configs(all.toArray(new String[0]));
    }

    static String everyBroker(String what, String... arguments) throws Exception {
        return with(new String[] {"--entity-type", "brokers", "--entity-default"}, Stream.concat(Stream.of(what), Arrays.stream(arguments)).toArray(String[]::new));
    }

    static String metrics(String... arguments) throws Exception {
        return Tools.sorted(Tools.tool("ClientMetricsCommand", arguments));
    }

    static String features(String... arguments) throws Exception {
        return Tools.tool("FeatureCommand", arguments);
    }

    static String transactions(String... arguments) throws Exception {
        return Tools.tool("TransactionsCommand", arguments);
    }

    /** Sets, shows and takes back the settings of an entity. */
    static String entity(String type, String name, String... settings) throws Exception {
        String[] named = {"--entity-type", type, "--entity-name", name};
        String keys = Arrays.stream(settings).map(each -> each.substring(0, each.indexOf('='))).collect(Collectors.joining(","));
        return with(named, "--alter", "--add-config", String.join(",", settings)) + with(named, "--describe") + configs("--describe", "--entity-type", type)
            + with(named, "--alter", "--delete-config", keys) + with(named, "--describe");
    }

    static String with(String[] named, String... arguments) throws Exception {
        return configs(Stream.concat(Arrays.stream(named), Arrays.stream(arguments)).toArray(String[]::new));
    }

    static String withConfiguration(String tool, String... arguments) throws Exception {
        return Tools.withFile("", file -> {
            List<String> all = new ArrayList<>(List.of(arguments));
            all.addAll(List.of("--command-config", file));
            return Tools.tool(tool, all.toArray(new String[0]));
        });
    }

    /** A quorum's state without what time and chance decide. */
    static String steady(String text) {
        return text.replaceAll("HighWatermark:\\s+\\d+", "HighWatermark: N").replaceAll("[A-Za-z0-9_-]{22}", "ID").replaceAll("\\b\\d{13}\\b", "TIME")
            .replaceAll("(?m)^(\\d+)\\s+ID\\s+\\d+\\s+", "$1 ID N ");
    }

    static String election(String type, String... arguments) throws Exception {
        List<String> all = new ArrayList<>(List.of("--election-type", type));
        all.addAll(List.of(arguments));
        return Tools.tool("LeaderElectionCommand", all.toArray(new String[0]));
    }

    /** What one node can be asked: everything moves from it to itself, and nothing to a broker that is not there. */
    static String reassign() throws Exception {
        String plan = "{\"version\":1,\"partitions\":[{\"topic\":\"tools\",\"partition\":0,\"replicas\":[%d],\"log_dirs\":[\"any\"]}]}";
        return Tools.withFile("{\"topics\":[{\"topic\":\"tools\"}],\"version\":1}", topics -> moved("--generate", "--topics-to-move-json-file", topics, "--broker-list", "1"))
            + Tools.withFile(String.format(plan, 1), file -> moved("--execute", "--reassignment-json-file", file) + moved("--verify", "--reassignment-json-file", file)
                + moved("--cancel", "--reassignment-json-file", file) + moved("--execute", "--reassignment-json-file", file, "--throttle", "1000000")
                + moved("--verify", "--reassignment-json-file", file))
            + moved("--list") + Tools.withFile(String.format(plan, 7), file -> moved("--execute", "--reassignment-json-file", file));
    }

    static String moved(String... arguments) throws Exception {
        return Tools.tool("reassign.ReassignPartitionsCommand", arguments);
    }
}
