// Row kafka-go: Segment's kafka-go (MIT), which speaks old versions of many requests. The operations in order, one line for
// each, `operation TAB ok|skip|FAIL TAB detail`.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
)

const limit = 60 * time.Second

var codecs = map[string]kafka.Compression{"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}

type client struct {
	address net.Addr
	*kafka.Client
}

// skip is the panic of an operation that the client lacks.
type skip string

type operation struct {
	name string
	run  func(context.Context) string
}

func main() {
	address := kafka.TCP(os.Args[1])
	c := &client{address, &kafka.Client{Addr: address, Timeout: limit / 2, Transport: &kafka.Transport{MetadataTTL: 100 * time.Millisecond}}}
	operations := []operation{{"connect", c.connect}, {"create-topic", c.createTopic}, {"describe", c.describe}, {"acks", c.acks}}
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		operations = append(operations, operation{name, func(ctx context.Context) string { return c.codec(ctx, name) }})
	}
	lacks := func(what string) func(context.Context) string {
		return func(context.Context) string { panic(skip("no " + what)) }
	}
	operations = append(operations, operation{"idempotent", lacks("idempotent producer")}, operation{"records", c.records}, operation{"seek", c.seek},
		operation{"add-partitions", c.addPartitions}, operation{"configs", c.configs},
		operation{"delete-records", lacks("DeleteRecords")}, operation{"delete-topic", c.deleteTopic},
		operation{"group-consume", c.groupConsume}, operation{"group-rebalance", c.groupRebalance}, operation{"static-member", lacks("group.instance.id")},
		operation{"cooperative-sticky", lacks("incremental rebalance")}, operation{"groups-admin", c.groupsAdmin})
	for _, each := range operations {
		status, detail := attempt(each.run)
		fmt.Printf("%s\t%s\t%s\n", each.name, status, strings.Join(strings.Fields(detail), " "))
	}
}

// attempt runs one operation within its time; a panic is its failure.
func attempt(run func(context.Context) string) (status, detail string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case skip:
			status, detail = "skip", string(reason)
		default:
			status, detail = "FAIL", fmt.Sprint(reason)
		}
	}()
	return "ok", run(ctx)
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
	var all kafka.WriteErrors
	var code kafka.Error
	var large kafka.MessageTooLargeError
	switch {
	case err == nil:
		return "no error"
	case errors.As(err, &large):
		return "too large"
	case errors.As(err, &all):
		return refusal(all[0])
	case errors.As(err, &code):
		return fmt.Sprint(strings.TrimSuffix(err.Error(), ": "+code.Description()))
	default:
		return err.Error()
	}
}

func values(label string, count int) (all [][]byte) {
	for i := range count {
		all = append(all, bytes.Repeat(fmt.Appendf(nil, "%s-%d ", label, i), 20))
	}
	return all
}

func messages(partition int, all [][]byte) (made []kafka.Message) {
	for _, each := range all {
		made = append(made, kafka.Message{Partition: partition, Value: each})
	}
	return made
}

func (c *client) create(ctx context.Context, topic string, partitions int) {
	must(c.createTopics(ctx, kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}))
}

func (c *client) createTopics(ctx context.Context, topic kafka.TopicConfig) error {
	answer, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
	must(err)
	if err := answer.Errors[topic.Topic]; err != nil {
		return err
	}
	for { // until this client's cache has it
		seen, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic.Topic}})
		must(err)
		if len(seen.Topics) == 1 && seen.Topics[0].Error == nil && len(seen.Topics[0].Partitions) == topic.NumPartitions {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// produce sends all to the partitions that they name.
func (c *client) produce(ctx context.Context, topic string, sent []kafka.Message, changes ...func(*kafka.Writer)) error {
	writer := &kafka.Writer{Addr: c.address, Topic: topic, RequiredAcks: kafka.RequireAll, BatchTimeout: 20 * time.Millisecond, BatchBytes: 2_000_000,
		Balancer:  kafka.BalancerFunc(func(message kafka.Message, _ ...int) int { return message.WriterData.(int) }),
		Transport: &kafka.Transport{MetadataTTL: 100 * time.Millisecond}}
	for _, change := range changes {
		change(writer)
	}
	all := append([]kafka.Message(nil), sent...)
	for i := range all { // a writer chooses the partition itself
		all[i].WriterData, all[i].Partition = all[i].Partition, 0
	}
	err := writer.WriteMessages(ctx, all...)
	must(writer.Close())
	return err
}

func (c *client) reader(topic string, partition int, from int64) *kafka.Reader {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{c.address.String()}, Topic: topic, Partition: partition, MinBytes: 1, MaxBytes: 10_000_000, MaxWait: 100 * time.Millisecond})
	must(reader.SetOffset(from))
	return reader
}

func (c *client) read(ctx context.Context, topic string, partition int, from int64, count int) (seen []kafka.Message) {
	reader := c.reader(topic, partition, from)
	defer reader.Close()
	for len(seen) < count {
		message, err := reader.ReadMessage(ctx)
		must(err)
		seen = append(seen, message)
	}
	return seen
}

func valuesOf(all []kafka.Message) (seen [][]byte) {
	for _, message := range all {
		seen = append(seen, message.Value)
	}
	return seen
}

// offset gives what is found for a time (or kafka.FirstOffset, kafka.LastOffset).
func (c *client) offset(ctx context.Context, topic string, at int64) (found int64) {
	answer, err := c.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {{Partition: 0, Timestamp: at}}}})
	must(err)
	it := answer.Topics[topic][0]
	must(it.Error)
	switch at {
	case kafka.FirstOffset:
		return it.FirstOffset
	case kafka.LastOffset:
		return it.LastOffset
	}
	found = -1
	for offset := range it.Offsets {
		found = offset
	}
	return found
}

// ---- operations

func (c *client) connect(ctx context.Context) string {
	metadata, err := c.Metadata(ctx, &kafka.MetadataRequest{})
	must(err)
	versions, err := c.ApiVersions(ctx, &kafka.ApiVersionsRequest{})
	must(err)
	return fmt.Sprintf("cluster %s, %d node, its id %d, controller %d, ApiVersions %v", metadata.ClusterID, len(metadata.Brokers), metadata.Brokers[0].ID, metadata.Controller.ID, versions.Error)
}

func (c *client) createTopic(ctx context.Context) string {
	entry := func(name, value string) []kafka.ConfigEntry {
		return []kafka.ConfigEntry{{ConfigName: name, ConfigValue: value}}
	}
	must(c.createTopics(ctx, kafka.TopicConfig{Topic: "matrix", NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: entry("retention.ms", "3600000")}))
	var refused []string
	for _, bad := range []kafka.TopicConfig{
		{Topic: "matrix", NumPartitions: 3, ReplicationFactor: 1}, {Topic: "too.many", NumPartitions: 1, ReplicationFactor: 3}, {Topic: "bad name", NumPartitions: 1, ReplicationFactor: 1},
		{Topic: "none", NumPartitions: 0, ReplicationFactor: 1}, {Topic: "config", NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: entry("retention.ms", "soon")},
		{Topic: "key", NumPartitions: 1, ReplicationFactor: 1, ConfigEntries: entry("no.such.key", "1")},
	} {
		refused = append(refused, refusal(c.createTopics(ctx, bad)))
	}
	checked, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: "only.checked", NumPartitions: 1, ReplicationFactor: 1}}, ValidateOnly: true})
	must(err)
	return fmt.Sprintf("refused %s; checked %v", strings.Join(refused, "; "), checked.Errors["only.checked"])
}

func (c *client) describe(ctx context.Context) string {
	metadata, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{"matrix", "no.where"}})
	must(err)
	var seen []string
	for _, topic := range metadata.Topics {
		for _, partition := range topic.Partitions {
			seen = append(seen, fmt.Sprintf("%s-%d leader %d replicas %d isr %d", topic.Name, partition.ID, partition.Leader.ID, len(partition.Replicas), len(partition.Isr)))
		}
		seen = append(seen, fmt.Sprintf("%s %s internal %v", topic.Name, refusal(topic.Error), topic.Internal))
	}
	sort.Strings(seen)
	return strings.Join(seen, "; ")
}

func (c *client) acks(ctx context.Context) string {
	c.create(ctx, "acks", 1)
	var wanted [][]byte
	for _, acks := range []kafka.RequiredAcks{kafka.RequireAll, kafka.RequireOne, kafka.RequireNone} {
		sent := values(acks.String(), 10)
		must(c.produce(ctx, "acks", messages(0, sent), func(writer *kafka.Writer) { writer.RequiredAcks = acks }))
		wanted = append(wanted, sent...)
	}
	expect("read", valuesOf(c.read(ctx, "acks", 0, 0, 30)), wanted)
	return "30 records"
}

func (c *client) codec(ctx context.Context, codec string) string {
	c.create(ctx, codec, 1)
	sent := values(codec, 1000)
	must(c.produce(ctx, codec, messages(0, sent), func(writer *kafka.Writer) { writer.Compression = codecs[codec] }))
	expect("read", valuesOf(c.read(ctx, codec, 0, 0, 1000)), sent)
	return "1000 records"
}

func (c *client) records(ctx context.Context) string {
	c.create(ctx, "records", 1)
	sent := []kafka.Message{
		{Key: []byte("key"), Value: []byte("value")},
		{Key: []byte("headers"), Value: []byte("value"), Headers: []kafka.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "empty", Value: []byte{}}}},
		{Value: []byte("no key")},
		{Key: []byte("no value")},
		{Key: []byte("ключ"), Value: []byte("значение")},
		{Key: []byte("large"), Value: bytes.Repeat([]byte{7, 255}, 500_000)},
	}
	show := func(all []kafka.Message) string {
		var text strings.Builder
		for _, message := range all {
			fmt.Fprintf(&text, "%q %q", message.Key, message.Value)
			for _, header := range message.Headers {
				fmt.Fprintf(&text, " %s=%q", header.Key, header.Value)
			}
			fmt.Fprintln(&text)
		}
		return text.String()
	}
	must(c.produce(ctx, "records", sent))
	expect("read", show(c.read(ctx, "records", 0, 0, len(sent))) == show(sent), true)
	tooLarge := c.produce(ctx, "records", messages(0, [][]byte{bytes.Repeat([]byte("x"), 1_100_000)}))
	return fmt.Sprintf("%d records, too large: %s", len(sent), refusal(tooLarge))
}

func (c *client) seek(ctx context.Context) string {
	c.create(ctx, "seek", 1)
	first := time.Now().Add(-time.Hour).Truncate(time.Second)
	sent := messages(0, values("seek", 100))
	for number := range sent {
		sent[number].Time = first.Add(time.Duration(number) * time.Second)
	}
	must(c.produce(ctx, "seek", sent))
	start := first.UnixMilli()
	var looked []int64
	for _, at := range []int64{kafka.FirstOffset, kafka.LastOffset, 1, start + 49_001, start + 99_000, start + 99_001} {
		looked = append(looked, c.offset(ctx, "seek", at))
	}
	at50 := c.read(ctx, "seek", 0, 50, 1)[0]
	expect("timestamp", at50.Time.UnixMilli(), start+50_000)
	reader := c.reader("seek", 0, kafka.FirstOffset)
	defer reader.Close()
	must(reader.SetOffsetAt(ctx, first.Add(30*time.Second)))
	atTime, err := reader.ReadMessage(ctx)
	must(err)
	beyond, err := c.Fetch(ctx, &kafka.FetchRequest{Topic: "seek", Offset: 1000, MinBytes: 1, MaxBytes: 1000, MaxWait: 100 * time.Millisecond})
	must(err)
	return fmt.Sprintf("looked up %v, at 50 %d, at time %d, beyond the end %s", looked, at50.Offset, atTime.Offset, refusal(beyond.Error))
}

func (c *client) addPartitions(ctx context.Context) string {
	var outcomes []string
	for _, count := range []int32{5, 5, 2} {
		answer, err := c.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: "matrix", Count: count}}})
		must(err)
		outcomes = append(outcomes, refusal(answer.Errors["matrix"]))
	}
	must(c.produce(ctx, "matrix", messages(4, values("fifth", 1))))
	expect("read", valuesOf(c.read(ctx, "matrix", 4, 0, 1)), values("fifth", 1))
	return strings.Join(outcomes, "; ")
}

func (c *client) configs(ctx context.Context) string {
	var outcomes, seen []string
	for _, change := range []kafka.IncrementalAlterConfigsRequestConfig{
		{Name: "max.message.bytes", Value: "2000000", ConfigOperation: kafka.ConfigOperationSet}, {Name: "retention.ms", ConfigOperation: kafka.ConfigOperationDelete},
		{Name: "cleanup.policy", Value: "compact", ConfigOperation: kafka.ConfigOperationAppend}, {Name: "cleanup.policy", Value: "delete", ConfigOperation: kafka.ConfigOperationSubtract},
		{Name: "retention.ms", Value: "soon", ConfigOperation: kafka.ConfigOperationSet}, {Name: "no.such.key", Value: "1", ConfigOperation: kafka.ConfigOperationSet},
	} {
		answer, err := c.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{
			{ResourceType: kafka.ResourceTypeTopic, ResourceName: "matrix", Configs: []kafka.IncrementalAlterConfigsRequestConfig{change}}}})
		must(err)
		outcomes = append(outcomes, refusal(answer.Resources[0].Error))
	}
	answer, err := c.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{IncludeSynonyms: true, Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: "matrix"}}})
	must(err)
	for _, entry := range answer.Resources[0].ConfigEntries {
		seen = append(seen, fmt.Sprintf("%s=%s/%d[%d]", entry.ConfigName, entry.ConfigValue, entry.ConfigSource, len(entry.ConfigSynonyms)))
	}
	sort.Strings(seen)
	replaced, err := c.AlterConfigs(ctx, &kafka.AlterConfigsRequest{Resources: []kafka.AlterConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: "matrix", Configs: []kafka.AlterConfigRequestConfig{{Name: "segment.ms", Value: "3600000"}}}}})
	must(err)
	for _, err := range replaced.Errors {
		outcomes = append(outcomes, "replaced "+refusal(err))
	}
	return fmt.Sprintf("altered %s; topic %s", strings.Join(outcomes, "; "), strings.Join(seen, " "))
}

func (c *client) deleteTopic(ctx context.Context) string {
	var outcomes []string
	for range 2 {
		answer, err := c.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{"matrix"}})
		must(err)
		outcomes = append(outcomes, refusal(answer.Errors["matrix"]))
	}
	c.create(ctx, "matrix", 1)
	must(c.produce(ctx, "matrix", messages(0, values("new", 1))))
	return fmt.Sprintf("%s, created anew, end %d", strings.Join(outcomes, ", again "), c.offset(ctx, "matrix", kafka.LastOffset))
}
