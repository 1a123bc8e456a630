// Row franz-go with kadm (BSD-3-Clause): the operations in order, one line for each,
// `operation TAB ok|skip|FAIL TAB detail`.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const limit = 60 * time.Second

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

type client struct {
	address string
	admin   *kadm.Client
}

type operation struct {
	name string
	run  func(context.Context) string
}

func main() {
	connection, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	must(err)
	c := &client{os.Args[1], kadm.NewClient(connection)}
	operations := []operation{{"connect", c.connect}, {"create-topic", c.createTopic}, {"describe", c.describe}, {"acks", c.acks}}
	for _, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		operations = append(operations, operation{name, func(ctx context.Context) string { return c.codec(ctx, name) }})
	}
	operations = append(operations, operation{"idempotent", c.idempotent}, operation{"records", c.records}, operation{"seek", c.seek},
		operation{"add-partitions", c.addPartitions}, operation{"configs", c.configs},
		operation{"delete-records", c.deleteRecords}, operation{"delete-topic", c.deleteTopic},
		operation{"group-consume", c.groupConsume}, operation{"group-rebalance", c.groupRebalance}, operation{"static-member", c.staticMember},
		operation{"cooperative-sticky", c.cooperativeSticky}, operation{"groups-admin", c.groupsAdmin})
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
		if reason := recover(); reason != nil {
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

// refusal is Kafka's name of an error.
func refusal(err error) string {
	var known *kerr.Error
	switch {
	case err == nil:
		return "NO_ERROR"
	case errors.As(err, &known):
		return known.Message
	default:
		panic(err)
	}
}

func values(label string, count int) [][]byte {
	all := make([][]byte, count)
	for i := range all {
		all[i] = bytes.Repeat(fmt.Appendf(nil, "%s-%d ", label, i), 20)
	}
	return all
}

func records(topic string, partition int32, all [][]byte) []*kgo.Record {
	var made []*kgo.Record
	for _, value := range all {
		made = append(made, &kgo.Record{Topic: topic, Partition: partition, Value: value})
	}
	return made
}

func (c *client) create(ctx context.Context, topic string, partitions int32) {
	_, err := c.admin.CreateTopic(ctx, partitions, 1, nil, topic)
	must(err)
}

// produce sends the records and returns the first error.
func (c *client) produce(ctx context.Context, sent []*kgo.Record, options ...kgo.Opt) error {
	options = append(options, kgo.SeedBrokers(c.address), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(20*time.Millisecond), kgo.ProducerBatchMaxBytes(2_000_000), kgo.MaxBufferedBytes(1<<26))
	producer, err := kgo.NewClient(options...)
	must(err)
	defer producer.Close()
	return producer.ProduceSync(ctx, sent...).FirstErr()
}

func (c *client) read(ctx context.Context, topic string, partition int32, from kgo.Offset, count int) []*kgo.Record {
	consumer, err := kgo.NewClient(kgo.SeedBrokers(c.address),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: from}}))
	must(err)
	defer consumer.Close()
	var seen []*kgo.Record
	for len(seen) < count {
		fetched := consumer.PollFetches(ctx)
		must(fetched.Err())
		seen = append(seen, fetched.Records()...)
	}
	return seen
}

func valuesOf(all []*kgo.Record) (seen [][]byte) {
	for _, record := range all {
		seen = append(seen, record.Value)
	}
	return seen
}

func offsetOf(listed kadm.ListedOffsets, err error) int64 {
	must(err)
	for _, partitions := range listed {
		for _, offset := range partitions {
			must(offset.Err)
			return offset.Offset
		}
	}
	panic("no offset listed")
}

// ---- operations

func (c *client) connect(ctx context.Context) string {
	metadata, err := c.admin.BrokerMetadata(ctx)
	must(err)
	return fmt.Sprintf("cluster %s, nodes %v, controller %d", metadata.Cluster, metadata.Brokers.NodeIDs(), metadata.Controller)
}

func (c *client) createTopic(ctx context.Context) string {
	_, err := c.admin.CreateTopic(ctx, 3, 1, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}, "matrix")
	must(err)
	var refused []string
	for _, bad := range []struct {
		name        string
		partitions  int32
		replication int16
		key         string
	}{{"matrix", 3, 1, ""}, {"too.many", 1, 3, ""}, {"bad name", 1, 1, ""}, {"none", 0, 1, ""}, {"config", 1, 1, "retention.ms"}, {"key", 1, 1, "no.such.key"}} {
		settings := map[string]*string{}
		if bad.key != "" {
			settings[bad.key] = kadm.StringPtr("soon")
		}
		answer, err := c.admin.CreateTopics(ctx, bad.partitions, bad.replication, settings, bad.name)
		must(err)
		refused = append(refused, refusal(answer[bad.name].Err)+": "+answer[bad.name].ErrMessage)
	}
	checked, err := c.admin.ValidateCreateTopics(ctx, -1, -1, nil, "only.checked")
	must(err)
	must(checked.Error())
	return fmt.Sprintf("refused %s, checked with %d partitions", strings.Join(refused, "; "), checked["only.checked"].NumPartitions)
}

func (c *client) describe(ctx context.Context) string {
	metadata, err := c.admin.Metadata(ctx, "matrix", "nowhere")
	must(err)
	topic := metadata.Topics["matrix"]
	must(topic.Err)
	request := kmsg.NewMetadataRequest()
	wanted := kmsg.NewMetadataRequestTopic()
	wanted.TopicID = topic.ID
	request.Topics = append(request.Topics, wanted)
	connection, err := kgo.NewClient(kgo.SeedBrokers(c.address))
	must(err)
	defer connection.Close()
	byID, err := request.RequestWith(ctx, connection)
	must(err)
	var seen []string
	for _, partition := range topic.Partitions.Sorted() {
		seen = append(seen, fmt.Sprintf("%d leader %d epoch %d replicas %v isr %v", partition.Partition, partition.Leader, partition.LeaderEpoch, partition.Replicas, partition.ISR))
	}
	return fmt.Sprintf("partitions %s, by id %s, unknown %s", strings.Join(seen, "; "), *byID.Topics[0].Topic, refusal(metadata.Topics["nowhere"].Err))
}

func (c *client) acks(ctx context.Context) string {
	c.create(ctx, "acks", 1)
	var wanted [][]byte
	for _, acks := range []kgo.Acks{kgo.AllISRAcks(), kgo.LeaderAck(), kgo.NoAck()} {
		sent := values(fmt.Sprint(acks), 10)
		must(c.produce(ctx, records("acks", 0, sent), kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite()))
		wanted = append(wanted, sent...)
	}
	expect("read", valuesOf(c.read(ctx, "acks", 0, kgo.NewOffset().AtStart(), 30)), wanted)
	return "30 records"
}

func (c *client) codec(ctx context.Context, codec string) string {
	c.create(ctx, codec, 1)
	sent := values(codec, 1000)
	must(c.produce(ctx, records(codec, 0, sent), kgo.ProducerBatchCompression(codecs[codec])))
	expect("read", valuesOf(c.read(ctx, codec, 0, kgo.NewOffset().AtStart(), 1000)), sent)
	return "1000 records"
}

func (c *client) idempotent(ctx context.Context) string {
	c.create(ctx, "idempotent", 3)
	var sent []*kgo.Record
	wanted := make([][][]byte, 3)
	for number := range 10_000 {
		record := &kgo.Record{Topic: "idempotent", Partition: int32(number % 3), Value: fmt.Append(nil, number)}
		wanted[number%3] = append(wanted[number%3], record.Value)
		sent = append(sent, record)
	}
	must(c.produce(ctx, sent))
	for partition, values := range wanted {
		expect("read", valuesOf(c.read(ctx, "idempotent", int32(partition), kgo.NewOffset().AtStart(), len(values))), values)
	}
	return "10000 records, none twice, in order"
}

func (c *client) records(ctx context.Context) string {
	c.create(ctx, "records", 1)
	headers := []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}, {Key: "null"}, {Key: "empty", Value: []byte{}}}
	sent := []*kgo.Record{
		{Key: []byte("key"), Value: []byte("value")},
		{Key: []byte("headers"), Value: []byte("value"), Headers: headers},
		{Value: []byte("no key")},
		{Key: []byte("no value")},
		{Key: []byte{}, Value: []byte{}},
		{Key: []byte("ключ"), Value: []byte("значение")},
		{Key: []byte("large"), Value: bytes.Repeat([]byte{7, 255}, 500_000)},
	}
	show := func(all []*kgo.Record) string {
		var text strings.Builder
		for _, record := range all {
			fmt.Fprintf(&text, "%#v %#v %#v\n", record.Key, record.Value, record.Headers)
		}
		return text.String()
	}
	wanted := show(sent)
	for _, record := range sent {
		record.Topic = "records"
	}
	must(c.produce(ctx, sent))
	seen := show(c.read(ctx, "records", 0, kgo.NewOffset().AtStart(), len(sent)))
	expect("read", seen == wanted, true)
	tooLarge := c.produce(ctx, records("records", 0, [][]byte{bytes.Repeat([]byte("x"), 1_100_000)}), kgo.ProducerBatchCompression(kgo.NoCompression()))
	return fmt.Sprintf("%d records, too large: %s", len(sent), refusal(tooLarge))
}

func (c *client) seek(ctx context.Context) string {
	c.create(ctx, "seek", 1)
	first := time.Now().Add(-time.Hour).Truncate(time.Second)
	var sent []*kgo.Record
	for number := range 100 {
		sent = append(sent, &kgo.Record{Topic: "seek", Value: []byte("x"), Timestamp: first.Add(time.Duration(number) * time.Second)})
	}
	must(c.produce(ctx, sent))
	start := first.UnixMilli()
	var looked []int64
	for _, at := range []int64{0, start + 49_001, start + 99_000, start + 99_001} {
		looked = append(looked, offsetOf(c.admin.ListOffsetsAfterMilli(ctx, at, "seek")))
	}
	looked = append(looked, offsetOf(c.admin.ListStartOffsets(ctx, "seek")), offsetOf(c.admin.ListEndOffsets(ctx, "seek")),
		offsetOf(c.admin.ListCommittedOffsets(ctx, "seek")), offsetOf(c.admin.ListMaxTimestampOffsets(ctx, "seek")),
		offsetOf(c.admin.ListLocalLogStartOffsets(ctx, "seek")))
	at50 := c.read(ctx, "seek", 0, kgo.NewOffset().At(50), 1)[0].Offset
	atTime := c.read(ctx, "seek", 0, kgo.NewOffset().AfterMilli(start+29_500), 1)[0].Offset
	fromEnd := c.read(ctx, "seek", 0, kgo.NewOffset().AtEnd().Relative(-5), 1)[0].Offset
	return fmt.Sprintf("looked up %v, at 50 %d, at time %d, five from the end %d", looked, at50, atTime, fromEnd)
}

func (c *client) addPartitions(ctx context.Context) string {
	var outcomes []string
	for _, count := range []int{5, 5, 2} {
		answer, err := c.admin.UpdatePartitions(ctx, count, "matrix")
		must(err)
		outcomes = append(outcomes, refusal(answer["matrix"].Err)+": "+answer["matrix"].ErrMessage)
	}
	must(c.produce(ctx, records("matrix", 4, values("fifth", 1))))
	expect("read", valuesOf(c.read(ctx, "matrix", 4, kgo.NewOffset().AtStart(), 1)), values("fifth", 1))
	return strings.Join(outcomes, "; ")
}

func (c *client) configs(ctx context.Context) string {
	var outcomes []string
	for _, change := range []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "max.message.bytes", Value: kadm.StringPtr("2000000")}, {Op: kadm.DeleteConfig, Name: "retention.ms"},
		{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")},
		{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: kadm.StringPtr("delete")},
		{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("soon")}, {Op: kadm.SetConfig, Name: "no.such.key", Value: kadm.StringPtr("1")},
	} {
		answer, err := c.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{change}, "matrix")
		must(err)
		outcomes = append(outcomes, refusal(answer[0].Err)+" "+answer[0].ErrMessage)
	}
	described, err := c.admin.DescribeTopicConfigs(ctx, "matrix", "nowhere")
	must(err)
	var settings, unknown []string
	for _, topic := range described {
		if topic.Err != nil {
			unknown = append(unknown, refusal(topic.Err))
		}
		for _, config := range topic.Configs {
			var synonyms []string
			for _, synonym := range config.Synonyms {
				synonyms = append(synonyms, fmt.Sprintf("%s=%s/%v", synonym.Key, *synonym.Value, synonym.Source))
			}
			settings = append(settings, fmt.Sprintf("%s=%s/%v%v", config.Key, config.MaybeValue(), config.Source, synonyms))
		}
	}
	sort.Strings(settings)
	return fmt.Sprintf("altered %s, unknown %v, topic %v", strings.Join(outcomes, "; "), unknown, settings)
}

func (c *client) deleteRecords(ctx context.Context) string {
	c.create(ctx, "delete.records", 1)
	must(c.produce(ctx, records("delete.records", 0, values("delete", 100))))
	var outcomes []string
	for _, before := range []int64{40, 1000, -1} {
		var offsets kadm.Offsets
		offsets.AddOffset("delete.records", 0, before, -1)
		answer, err := c.admin.DeleteRecords(ctx, offsets)
		must(err)
		deleted, _ := answer.Lookup("delete.records", 0)
		outcomes = append(outcomes, fmt.Sprint(before, " ", refusal(deleted.Err), " low ", deleted.LowWatermark, " earliest ", offsetOf(c.admin.ListStartOffsets(ctx, "delete.records"))))
	}
	return strings.Join(outcomes, "; ")
}

func (c *client) deleteTopic(ctx context.Context) string {
	var outcomes []string
	for range 2 {
		answer, err := c.admin.DeleteTopics(ctx, "matrix")
		must(err)
		outcomes = append(outcomes, refusal(answer["matrix"].Err))
	}
	c.create(ctx, "matrix", 1)
	must(c.produce(ctx, records("matrix", 0, values("new", 1))))
	return fmt.Sprintf("%v, created anew with end %d", outcomes, offsetOf(c.admin.ListEndOffsets(ctx, "matrix")))
}
