// A client for a container that has nothing else in it: `produce ADDRESS TOPIC` sends each line of its input as a record,
// `consume ADDRESS TOPIC COUNT` prints so many values from the beginning.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 3 && arguments[0] == "produce" {
		return produce(ctx, arguments[1], arguments[2])
	}
	if len(arguments) == 4 && arguments[0] == "consume" {
		count, err := strconv.Atoi(arguments[3])
		if err != nil {
			return err
		}
		return consume(ctx, arguments[1], arguments[2], count)
	}
	return fmt.Errorf("usage: produce ADDRESS TOPIC | consume ADDRESS TOPIC COUNT")
}

func produce(ctx context.Context, address, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer client.Close()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		record := &kgo.Record{Topic: topic, Value: []byte(lines.Text())}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
	}
	return lines.Err()
}

func consume(ctx context.Context, address, topic string, count int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer client.Close()
	for count > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		for records := fetches.RecordIter(); !records.Done() && count > 0; count-- {
			fmt.Println(string(records.Next().Value))
		}
	}
	return nil
}
