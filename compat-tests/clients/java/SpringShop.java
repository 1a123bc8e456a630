// Row spring-boot: an application as Spring Boot's users write it (spring-kafka, Apache-2.0): topics declared as beans, orders
// sent by a template, a listener in a group that answers each on another topic, one that fails on some and is retried,
// and what it cannot handle on a dead letter topic.

import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootConfiguration;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.KafkaListenerEndpointRegistry;
import org.springframework.kafka.config.TopicBuilder;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.CommonErrorHandler;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.support.SendResult;
import org.springframework.messaging.handler.annotation.SendTo;
import org.springframework.util.backoff.FixedBackOff;

@SpringBootConfiguration(proxyBeanMethods = false)
@EnableAutoConfiguration
public class SpringShop {
    static final int ORDERS = 60;
    static final int PARTITIONS = 3;

    final BlockingQueue<ConsumerRecord<String, String>> invoices = new LinkedBlockingQueue<>();
    final BlockingQueue<ConsumerRecord<String, String>> letters = new LinkedBlockingQueue<>();
    final Map<String, Integer> attempts = new ConcurrentHashMap<>();

    public static void main(String[] arguments) {
        SpringApplication application = new SpringApplication(SpringShop.class);
        application.setDefaultProperties(Map.of(
            "spring.main.banner-mode", "off", "logging.level.root", "OFF",
            "spring.kafka.bootstrap-servers", arguments[0],
            "spring.kafka.consumer.group-id", "shop", "spring.kafka.consumer.auto-offset-reset", "earliest",
            "spring.kafka.listener.concurrency", String.valueOf(PARTITIONS),
            "spring.kafka.producer.acks", "all", "spring.kafka.producer.compression-type", "lz4"));
        ConfigurableApplicationContext[] context = new ConfigurableApplicationContext[1];
        Operations.run("start", () -> {
            context[0] = application.run();
            return "the application is up";
        });
        if (context[0] == null) System.exit(1);
        SpringShop shop = context[0].getBean(SpringShop.class);
        Operations.run("topics", () -> shop.topics(context[0].getBean(KafkaAdmin.class)));
        Operations.run("send", () -> shop.send(context[0].getBean(KafkaTemplate.class)));
        Operations.run("listen-and-answer", shop::answers);
        Operations.run("retry-and-dead-letter", () -> shop.deadLetters(context[0].getBean(KafkaTemplate.class)));
        Operations.run("listener-restart", () -> shop.restart(context[0].getBean(KafkaListenerEndpointRegistry.class), context[0].getBean(KafkaTemplate.class)));
        Operations.run("close", () -> {
            context[0].close();
            return "the application is down";
        });
        Runtime.getRuntime().halt(0);
    }

    // ---- the application

    @Bean
    KafkaAdmin.NewTopics declared() {
        return new KafkaAdmin.NewTopics(topic("orders"), topic("invoices"), topic("orders-dlt"));
    }

    static NewTopic topic(String name) {
        return TopicBuilder.name(name).partitions(PARTITIONS).replicas(1).config("retention.ms", "86400000").build();
    }

    @Bean
    CommonErrorHandler errorHandler(KafkaTemplate<Object, Object> template) {
        return new DefaultErrorHandler(new DeadLetterPublishingRecoverer(template), new FixedBackOff(10, 2));
    }

    @KafkaListener(id = "orders", topics = "orders")
    @SendTo("invoices")
    String order(ConsumerRecord<String, String> order) {
        attempts.merge(order.value(), 1, Integer::sum);
        if (order.value().startsWith("bad")) throw new IllegalStateException("cannot be made");
        return "invoice for " + order.value();
    }

    @KafkaListener(id = "invoices", topics = "invoices", groupId = "accounting")
    void invoice(ConsumerRecord<String, String> invoice) {
        invoices.add(invoice);
    }

    @KafkaListener(id = "letters", topics = "orders-dlt", groupId = "post")
    void letter(ConsumerRecord<String, String> letter) {
        letters.add(letter);
    }

    // ---- operations

    String topics(KafkaAdmin admin) {
        return new TreeMap<>(admin.describeTopics("orders", "invoices", "orders-dlt")).values().stream()
            .map(each -> each.name() + " " + each.partitions().size()).collect(Collectors.toList()) + " in " + admin.clusterId();
    }

    String send(KafkaTemplate<String, String> template) throws Exception {
        List<CompletableFuture<SendResult<String, String>>> sent = new ArrayList<>();
        for (int number = 0; number < ORDERS; number++) sent.add(template.send("orders", number % PARTITIONS, "customer " + number, "order " + number));
        for (CompletableFuture<SendResult<String, String>> each : sent) each.get();
        return ORDERS + " orders, " + sent.stream().map(each -> each.join().getRecordMetadata().offset()).max(Long::compare).get() + " the last offset";
    }

    static List<String> take(BlockingQueue<ConsumerRecord<String, String>> queue, int count) throws InterruptedException {
        List<String> taken = new ArrayList<>();
        while (taken.size() < count) taken.add(queue.take().value());
        Collections.sort(taken);
        return taken;
    }

    String answers() throws Exception {
        List<String> wanted = IntStream.range(0, ORDERS).mapToObj(number -> "invoice for order " + number).sorted().collect(Collectors.toList());
        Operations.expect("invoices", take(invoices, ORDERS), wanted);
        return ORDERS + " invoices, none twice: " + (invoices.isEmpty() ? "yes" : "no");
    }

    String deadLetters(KafkaTemplate<String, String> template) throws Exception {
        template.send("orders", 1, "customer", "bad order").get();
        ConsumerRecord<String, String> letter = letters.take();
        return letter.value() + " after " + attempts.get(letter.value()) + " attempts in partition " + letter.partition() + " with headers "
            + Arrays.stream(letter.headers().toArray()).map(each -> each.key()).distinct().sorted().collect(Collectors.toList());
    }

    /** Records sent while the listener is stopped are read by the next one, from the committed offsets on. */
    String restart(KafkaListenerEndpointRegistry registry, KafkaTemplate<String, String> template) throws Exception {
        registry.getListenerContainer("orders").stop();
        for (int number = 0; number < 10; number++) template.send("orders", number % PARTITIONS, "customer", "late order " + number).get();
        registry.getListenerContainer("orders").start();
        List<String> late = take(invoices, 10);
        return late.size() + " invoices, from " + late.get(0) + " to " + late.get(9) + ", others " + invoices.size() + ", attempts " + attempts.get("order 0");
    }
}
