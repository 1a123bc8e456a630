// What this row does with consumer groups: the same as in ../groups.py.
package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// member is a consumer in a group that notes what it is given, what is taken from it, and what it reads.
type member struct {
	*kafka.ConsumerGroup
	lock       sync.Mutex
	generation *kafka.Generation
	owned      []string
	changes    []string
	seen       []string
}

func (c *client) member(group string, topics ...string) *member {
	joined, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{c.address.String()}, Topics: topics, HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 20 * time.Second,
		RebalanceTimeout: 20 * time.Second, JoinGroupBackoff: 100 * time.Millisecond, StartOffset: kafka.FirstOffset})
	must(err)
	m := &member{ConsumerGroup: joined}
	go func() {
		for {
			generation, err := joined.Next(context.Background())
			if err == kafka.ErrGroupClosed {
				return
			}
			if err == nil {
				m.begin(c, generation)
			}
		}
	}()
	return m
}

// begin reads what a generation gives, until it ends.
func (m *member) begin(c *client, generation *kafka.Generation) {
	var owned []string
	for topic, partitions := range generation.Assignments {
		for _, partition := range partitions {
			owned = append(owned, fmt.Sprintf("%s-%d", topic, partition.ID))
			generation.Start(func(ctx context.Context) {
				reader := c.reader(topic, partition.ID, partition.Offset)
				defer reader.Close()
				for {
					message, err := reader.FetchMessage(ctx)
					if err != nil {
						return
					}
					m.look(func() { m.seen = append(m.seen, fmt.Sprintf("%d:%03d", message.Partition, message.Offset)) })
				}
			})
		}
	}
	sort.Strings(owned)
	m.look(func() {
		m.generation, m.owned = generation, owned
		if len(owned) > 0 {
			m.changes = append(m.changes, fmt.Sprint("+", len(owned)))
		}
	})
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		m.look(func() {
			if m.generation == generation && len(m.owned) > 0 {
				m.changes = append(m.changes, fmt.Sprint("-", len(m.owned)))
				m.owned = nil
			}
		})
	})
}

func (m *member) look(see func()) {
	m.lock.Lock()
	defer m.lock.Unlock()
	see()
}

func (m *member) partitions() (all []string) {
	m.look(func() { all = append(all, m.owned...) })
	return all
}

func (m *member) history() (text string) {
	m.look(func() { text = strings.Join(m.changes, " ") })
	return text
}

// read waits until so much was read, and gives it sorted.
func (m *member) read(count int) (seen []string) {
	until(func() bool {
		m.look(func() { seen = append([]string(nil), m.seen...) })
		return len(seen) >= count
	}, func() string { return fmt.Sprintf("read %d of %d", len(seen), count) })
	sort.Strings(seen)
	return seen
}

func (m *member) commit(topic string, offsets map[int]int64) string {
	return refusal(m.generation.CommitOffsets(map[string]map[int]int64{topic: offsets}))
}

func until(done func() bool, what func() string) {
	for deadline := time.Now().Add(limit / 2); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			panic(what())
		}
	}
}

// settle waits until the members own so many partitions each, none of them twice.
func settle(members []*member, counts ...int) {
	fits := func() bool {
		all, sum := map[string]bool{}, 0
		for i, m := range members {
			owned := m.partitions()
			for _, each := range owned {
				all[each] = true
			}
			if len(owned) != counts[i] {
				return false
			}
			sum += counts[i]
		}
		return len(all) == sum
	}
	until(fits, func() string {
		return fmt.Sprintf("first owns %v after %s", members[0].partitions(), members[0].history())
	})
}

func (c *client) fill(ctx context.Context, topic string, partitions int, count int) {
	c.create(ctx, topic, partitions)
	for partition := range partitions {
		must(c.produce(ctx, topic, messages(partition, values(topic, count))))
	}
}

func offsetsOf(partition, from, to int) (all []string) {
	for offset := from; offset < to; offset++ {
		all = append(all, fmt.Sprintf("%d:%03d", partition, offset))
	}
	return all
}

func (c *client) committed(ctx context.Context, group string, topics map[string][]int) string {
	answer, err := c.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: topics})
	must(err)
	var all []string
	for topic, partitions := range answer.Topics {
		for _, each := range partitions {
			all = append(all, fmt.Sprintf("%s-%d:%d:%s", topic, each.Partition, each.CommittedOffset, each.Metadata))
		}
	}
	sort.Strings(all)
	return fmt.Sprint(all)
}

// ---- operations

func (c *client) groupConsume(ctx context.Context) string {
	topic := "group.consume"
	c.fill(ctx, topic, 3, 100)
	first := c.member("consume", topic)
	expect("read", first.read(300), append(append(offsetsOf(0, 0, 100), offsetsOf(1, 0, 100)...), offsetsOf(2, 0, 100)...))
	commits := []string{first.commit(topic, map[int]int64{0: 40, 1: 50, 2: 100})}
	must(first.Close())
	second := c.member("consume", topic)
	expect("read again", second.read(110), append(offsetsOf(0, 40, 100), offsetsOf(1, 50, 100)...))
	commits = append(commits, second.commit(topic, map[int]int64{0: 100, 1: 99}))
	must(second.Close())
	return fmt.Sprintf("300 read, resumed at 40 50 100, commits %s, committed %s", strings.Join(commits, ", "), c.committed(ctx, "consume", map[string][]int{topic: {0, 1, 2}}))
}

func (c *client) groupRebalance(ctx context.Context) string {
	topic := "group.rebalance"
	c.fill(ctx, topic, 4, 10)
	one := c.member("rebalance", topic)
	settle([]*member{one}, 4)
	other := c.member("rebalance", topic)
	settle([]*member{one, other}, 2, 2)
	must(other.Close())
	settle([]*member{one}, 4)
	must(one.Close())
	return "alone 4, shared 2 and 2, alone again 4"
}

func (c *client) groupsAdmin(ctx context.Context) string {
	group := "admin"
	c.fill(ctx, "admin.one", 1, 10)
	c.fill(ctx, "admin.two", 1, 10)
	m := c.member(group, "admin.one", "admin.two")
	settle([]*member{m}, 2)
	var seen []string
	say := func(format string, arguments ...any) { seen = append(seen, fmt.Sprintf(format, arguments...)) }
	say("commits %s, %s", m.commit("admin.one", map[int]int64{0: 3}), m.commit("admin.two", map[int]int64{0: 4}))
	both := map[string][]int{"admin.one": {0}, "admin.two": {0}}
	say("active %s", c.described(ctx, group))
	say("offsets %s", c.committed(ctx, group, both))
	say("delete %s", c.deleteGroup(ctx, group))
	say("delete an offset %s", c.deleteOffset(ctx, group, "admin.one"))
	must(m.Close())
	say("left %s", c.described(ctx, group))
	listed, err := c.ListGroups(ctx, &kafka.ListGroupsRequest{})
	must(err)
	for _, each := range listed.Groups {
		if each.GroupID == group {
			say("listed %q at %d", each.ProtocolType, each.Coordinator)
		}
	}
	committed, err := c.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{"admin.two": {{Offset: 7, Metadata: "set"}}}})
	must(err)
	say("commit %s", refusal(committed.Topics["admin.two"][0].Error))
	say("delete an offset %s", c.deleteOffset(ctx, group, "admin.one"))
	say("offsets %s", c.committed(ctx, group, both))
	say("delete %s, again %s", c.deleteGroup(ctx, group), c.deleteGroup(ctx, group))
	say("gone %s, offsets %s", c.described(ctx, group), c.committed(ctx, group, both))
	return strings.Join(seen, "; ")
}

func (c *client) described(ctx context.Context, group string) string {
	answer, err := c.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	must(err)
	it := answer.Groups[0]
	var members []string
	for _, each := range it.Members {
		for _, topic := range each.MemberAssignments.Topics {
			members = append(members, fmt.Sprint(topic.Topic, topic.Partitions))
		}
	}
	sort.Strings(members)
	return fmt.Sprintf("%s %q members %v", refusal(it.Error), it.GroupState, members)
}

func (c *client) deleteGroup(ctx context.Context, group string) string {
	answer, err := c.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	must(err)
	return refusal(answer.Errors[group])
}

func (c *client) deleteOffset(ctx context.Context, group, topic string) string {
	answer, err := c.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{topic: {0}}})
	must(err)
	if answer.Error != nil {
		return refusal(answer.Error)
	}
	return refusal(answer.Topics[topic][0].Error)
}
