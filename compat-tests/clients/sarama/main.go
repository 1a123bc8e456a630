// Rows sarama-…: IBM's Sarama (MIT), which speaks the versions of the Kafka that it is told. The operations in order, one
// line for each, `operation TAB ok|skip|FAIL TAB detail`.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const limit = 60 * time.Second

var codecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

type client struct {
	address string
	version sarama.KafkaVersion
	admin   sarama.ClusterAdmin
}

// skip is the panic of an operation that the client lacks.
type skip string

func main() {
	version, err := sarama.ParseKafkaVersion(os.Args[1])
	must(err)
	c := &client{address: os.Args[2], version: version}
	c.admin, err = sarama.NewClusterAdmin([]string{c.address}, c.config())
	must(err)
	type operation struct {
		name string
		run  func() string
	}
	operations := []operation{{"connect", c.connect}, {"create-topic", c.createTopic}, {"describe", c.describe}, {"acks", c.acks}}
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		operations = append(operations, operation{name, func() string { return c.codec(name) }})
	}
	operations = append(operations, operation{"idempotent", c.idempotent}, operation{"records", c.records}, operation{"seek", c.seek},
		operation{"add-partitions", c.addPartitions}, operation{"configs", c.configs},
		operation{"delete-records", c.deleteRecords}, operation{"delete-topic", c.deleteTopic},
		operation{"group-consume", c.groupConsume}, operation{"group-rebalance", c.groupRebalance}, operation{"static-member", c.staticMember},
		operation{"cooperative-sticky", func() string { panic(skip("no incremental rebalance")) }}, operation{"groups-admin", c.groupsAdmin})
	for _, each := range operations {
		status, detail := attempt(each.run)
		fmt.Printf("%s\t%s\t%s\n", each.name, status, strings.Join(strings.Fields(detail), " "))
	}
}

type outcome struct{ status, detail string }

// attempt runs one operation within its time; a panic is its failure.
func attempt(run func() string) (status, detail string) {
	done := make(chan outcome, 1)
	go func() {
		defer func() {
			switch reason := recover().(type) {
			case nil:
			case skip:
				done <- outcome{"skip", string(reason)}
			default:
				done <- outcome{"FAIL", fmt.Sprint(reason)}
			}
		}()
		done <- outcome{"ok", run()}
	}()
	select {
	case it := <-done:
		return it.status, it.detail
	case <-time.After(limit):
		return "FAIL", fmt.Sprint("not done within ", limit)
	}
}

// ---- helpers

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(what string, seen, wanted any) {
	if fmt.Sprint(seen) != fmt.Sprint(wanted) {
		panic(fmt.Sprintf("%s: %.200v instead of %.200v", what, seen, wanted))
	}
}

// refusal tells the error that Kafka gave.
func refusal(err error) string {
	var topic *sarama.TopicError
	var partition *sarama.TopicPartitionError
	var producer *sarama.ProducerError
	var code sarama.KError
	switch {
	case err == nil:
		return "no error"
	case errors.As(err, &topic):
		return fmt.Sprintf("%d %s", topic.Err, value(topic.ErrMsg))
	case errors.As(err, &partition):
		return fmt.Sprintf("%d %s", partition.Err, value(partition.ErrMsg))
	case errors.As(err, &producer):
		return refusal(producer.Err)
	case errors.As(err, &code):
		return fmt.Sprintf("%d", code)
	default:
		return err.Error()
	}
}

func value(text *string) string {
	if text == nil {
		return "-"
	}
	return *text
}

func (c *client) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = c.version
	config.Producer.Return.Successes = true
	config.Producer.MaxMessageBytes = 2_000_000
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 20 * time.Millisecond
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Return.Errors = true
	config.Consumer.Group.Heartbeat.Interval = 200 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 20 * time.Second
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	config.Metadata.Retry.Backoff = 100 * time.Millisecond
	return config
}

func (c *client) create(topic string, partitions int32) {
	must(c.admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false))
}

func values(label string, count int) (all [][]byte) {
	for i := range count {
		all = append(all, bytes.Repeat(fmt.Appendf(nil, "%s-%d ", label, i), 20))
	}
	return all
}

func messages(topic string, partition int32, all [][]byte) (made []*sarama.ProducerMessage) {
	for _, each := range all {
		made = append(made, &sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.ByteEncoder(each)})
	}
	return made
}

// produce sends all and returns the first error.
func (c *client) produce(sent []*sarama.ProducerMessage, changes ...func(*sarama.Config)) error {
	config := c.config()
	for _, change := range changes {
		change(config)
	}
	producer, err := sarama.NewSyncProducer([]string{c.address}, config)
	must(err)
	defer producer.Close()
	err = producer.SendMessages(sent)
	var all sarama.ProducerErrors
	if errors.As(err, &all) {
		return all[0].Err
	}
	return err
}

func (c *client) read(topic string, partition int32, from int64, count int) (seen []*sarama.ConsumerMessage) {
	consumer, err := sarama.NewConsumer([]string{c.address}, c.config())
	must(err)
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, partition, from)
	must(err)
	defer reader.Close()
	for len(seen) < count {
		select {
		case message := <-reader.Messages():
			seen = append(seen, message)
		case failed := <-reader.Errors():
			panic(failed)
		case <-time.After(limit / 2):
			panic(fmt.Sprintf("read %d of %d", len(seen), count))
		}
	}
	return seen
}

func valuesOf(all []*sarama.ConsumerMessage) (seen [][]byte) {
	for _, message := range all {
		seen = append(seen, message.Value)
	}
	return seen
}

func (c *client) offset(topic string, at int64) int64 {
	connection, err := sarama.NewClient([]string{c.address}, c.config())
	must(err)
	defer connection.Close()
	offset, err := connection.GetOffset(topic, 0, at)
	must(err)
	return offset
}

// ---- operations

func (c *client) connect() string {
	brokers, controller, err := c.admin.DescribeCluster()
	must(err)
	return fmt.Sprintf("%d node, its id %d, controller %d", len(brokers), brokers[0].ID(), controller)
}

func (c *client) createTopic() string {
	hour, soon, one := "3600000", "soon", "1"
	must(c.admin.CreateTopic("matrix", &sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &hour}}, false))
	var refused []string
	for _, bad := range []struct {
		name   string
		detail sarama.TopicDetail
	}{
		{"matrix", sarama.TopicDetail{NumPartitions: 3, ReplicationFactor: 1}}, {"too.many", sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 3}},
		{"bad name", sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}}, {"none", sarama.TopicDetail{NumPartitions: 0, ReplicationFactor: 1}},
		{"config", sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &soon}}},
		{"key", sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: map[string]*string{"no.such.key": &one}}},
	} {
		refused = append(refused, refusal(c.admin.CreateTopic(bad.name, &bad.detail, false)))
	}
	checked := c.admin.CreateTopic("only.checked", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, true)
	return fmt.Sprintf("refused %s; checked %s", strings.Join(refused, "; "), refusal(checked))
}

func (c *client) describe() string {
	topics, err := c.admin.DescribeTopics([]string{"matrix", "no.where"})
	must(err)
	var seen []string
	for _, topic := range topics {
		sort.Slice(topic.Partitions, func(i, j int) bool { return topic.Partitions[i].ID < topic.Partitions[j].ID })
		for _, partition := range topic.Partitions {
			seen = append(seen, fmt.Sprintf("%s-%d leader %d replicas %v isr %v", topic.Name, partition.ID, partition.Leader, partition.Replicas, partition.Isr))
		}
		seen = append(seen, fmt.Sprintf("%s %d internal %v", topic.Name, topic.Err, topic.IsInternal))
	}
	return strings.Join(seen, "; ")
}

func (c *client) acks() string {
	c.create("acks", 1)
	var wanted [][]byte
	for _, acks := range []sarama.RequiredAcks{sarama.WaitForAll, sarama.WaitForLocal, sarama.NoResponse} {
		sent := values(fmt.Sprint(acks), 10)
		must(c.produce(messages("acks", 0, sent), func(config *sarama.Config) { config.Producer.RequiredAcks = acks }))
		wanted = append(wanted, sent...)
	}
	expect("read", valuesOf(c.read("acks", 0, 0, 30)), wanted)
	return "30 records"
}

func (c *client) codec(codec string) string {
	if codec == "zstd" && !c.version.IsAtLeast(sarama.V2_1_0_0) {
		panic(skip("not in this version"))
	}
	c.create(codec, 1)
	sent := values(codec, 1000)
	must(c.produce(messages(codec, 0, sent), func(config *sarama.Config) { config.Producer.Compression = codecs[codec] }))
	expect("read", valuesOf(c.read(codec, 0, 0, 1000)), sent)
	return "1000 records"
}

func (c *client) idempotent() string {
	c.create("idempotent", 3)
	var sent []*sarama.ProducerMessage
	wanted := make([][][]byte, 3)
	for number := range 10_000 {
		value := fmt.Append(nil, number)
		wanted[number%3] = append(wanted[number%3], value)
		sent = append(sent, messages("idempotent", int32(number%3), [][]byte{value})...)
	}
	must(c.produce(sent, func(config *sarama.Config) { config.Producer.Idempotent, config.Net.MaxOpenRequests = true, 1 }))
	for partition, values := range wanted {
		expect("read", valuesOf(c.read("idempotent", int32(partition), 0, len(values))), values)
	}
	return "10000 records, none twice, in order"
}

func (c *client) records() string {
	c.create("records", 1)
	header := func(key, value string) sarama.RecordHeader {
		return sarama.RecordHeader{Key: []byte(key), Value: []byte(value)}
	}
	bytes := func(text string) sarama.Encoder { return sarama.StringEncoder(text) }
	sent := []*sarama.ProducerMessage{
		{Key: bytes("key"), Value: bytes("value")},
		{Key: bytes("headers"), Value: bytes("value"), Headers: []sarama.RecordHeader{header("a", "1"), header("a", "2"), {Key: []byte("null")}, header("empty", "")}},
		{Value: bytes("no key")},
		{Key: bytes("no value")},
		{Key: bytes(""), Value: bytes("")},
		{Key: bytes("ключ"), Value: bytes("значение")},
		{Key: bytes("large"), Value: bytes(strings.Repeat("x", 1_000_000))},
	}
	var wanted, seen []string
	for _, message := range sent {
		message.Topic = "records"
		wanted = append(wanted, fmt.Sprint(message.Key, message.Value, message.Headers))
	}
	must(c.produce(sent))
	text := func(bytes []byte) sarama.Encoder {
		if bytes == nil {
			return nil
		}
		return sarama.StringEncoder(bytes)
	}
	for _, message := range c.read("records", 0, 0, len(sent)) {
		var headers []sarama.RecordHeader
		for _, each := range message.Headers {
			headers = append(headers, *each)
		}
		seen = append(seen, fmt.Sprint(text(message.Key), text(message.Value), headers))
	}
	expect("read", seen, wanted)
	tooLarge := c.produce(messages("records", 0, [][]byte{[]byte(strings.Repeat("x", 1_100_000))}))
	return fmt.Sprintf("%d records, too large: %s", len(sent), refusal(tooLarge))
}

func (c *client) seek() string {
	c.create("seek", 1)
	first := time.Now().Add(-time.Hour).Truncate(time.Second)
	sent := messages("seek", 0, values("seek", 100))
	for number, message := range sent {
		message.Timestamp = first.Add(time.Duration(number) * time.Second)
	}
	must(c.produce(sent))
	start := first.UnixMilli()
	var looked []int64
	for _, at := range []int64{sarama.OffsetOldest, sarama.OffsetNewest, 0, start + 49_001, start + 99_000, start + 99_001} {
		looked = append(looked, c.offset("seek", at))
	}
	at50 := c.read("seek", 0, 50, 1)[0]
	expect("timestamp", at50.Timestamp.UnixMilli(), start+50_000)
	consumer, err := sarama.NewConsumer([]string{c.address}, c.config())
	must(err)
	defer consumer.Close()
	_, beyond := consumer.ConsumePartition("seek", 0, 1000)
	return fmt.Sprintf("looked up %v, at 50 %d, beyond the end %s", looked, at50.Offset, refusal(beyond))
}

func (c *client) addPartitions() string {
	if !c.version.IsAtLeast(sarama.V1_0_0_0) {
		panic(skip("not in this version"))
	}
	var outcomes []string
	for _, count := range []int32{5, 5, 2} {
		outcomes = append(outcomes, refusal(c.admin.CreatePartitions("matrix", count, nil, false)))
	}
	must(c.produce(messages("matrix", 4, values("fifth", 1))))
	expect("read", valuesOf(c.read("matrix", 4, 0, 1)), values("fifth", 1))
	return strings.Join(outcomes, "; ")
}

func (c *client) configs() string {
	if !c.version.IsAtLeast(sarama.V2_0_0_0) {
		panic(skip("its version of DescribeConfigs is no longer in Kafka 4"))
	}
	two, soon, one, compact := "2000000", "soon", "1", "compact"
	var outcomes []string
	if c.version.IsAtLeast(sarama.V2_3_0_0) {
		for _, change := range []struct {
			key   string
			entry sarama.IncrementalAlterConfigsEntry
		}{
			{"max.message.bytes", sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &two}},
			{"retention.ms", sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationDelete}},
			{"cleanup.policy", sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationAppend, Value: &compact}},
			{"retention.ms", sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &soon}},
		} {
			outcomes = append(outcomes, refusal(c.admin.IncrementalAlterConfig(sarama.TopicResource, "matrix", map[string]sarama.IncrementalAlterConfigsEntry{change.key: change.entry}, false)))
		}
	}
	for _, change := range []map[string]*string{{"segment.ms": &two, "cleanup.policy": &compact}, {"retention.ms": &soon}, {"no.such.key": &one}} {
		outcomes = append(outcomes, refusal(c.admin.AlterConfig(sarama.TopicResource, "matrix", change, false)))
	}
	var seen []string
	entries, err := c.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: "matrix"})
	must(err)
	for _, entry := range entries {
		seen = append(seen, fmt.Sprintf("%s=%s/%v/%v", entry.Name, entry.Value, entry.Source, entry.Default))
	}
	sort.Strings(seen)
	broker, err := c.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: "1", ConfigNames: []string{"message.max.bytes"}})
	must(err)
	_, unknown := c.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: "nowhere"})
	return fmt.Sprintf("altered %s; broker %s=%s, unknown %s, topic %s", strings.Join(outcomes, "; "), broker[0].Name, broker[0].Value, refusal(unknown), strings.Join(seen, " "))
}

func (c *client) deleteRecords() string {
	c.create("delete.records", 1)
	must(c.produce(messages("delete.records", 0, values("delete", 100))))
	var outcomes []string
	for _, before := range []int64{40, 1000, -1} {
		refused := c.admin.DeleteRecords("delete.records", map[int32]int64{0: before})
		outcomes = append(outcomes, fmt.Sprintf("%d %s earliest %d", before, refusal(refused), c.offset("delete.records", sarama.OffsetOldest)))
	}
	return strings.Join(outcomes, "; ")
}

func (c *client) deleteTopic() string {
	deleted, again := c.admin.DeleteTopic("matrix"), c.admin.DeleteTopic("matrix")
	c.create("matrix", 1)
	must(c.produce(messages("matrix", 0, values("new", 1))))
	return fmt.Sprintf("%s, again %s, created anew, end %d", refusal(deleted), refusal(again), c.offset("matrix", sarama.OffsetNewest))
}
