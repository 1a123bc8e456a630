// What these rows do with consumer groups: the same as in ../groups.py.
package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// member is a consumer in a group that notes what it is given, what is taken from it, and what it reads.
type member struct {
	sarama.ConsumerGroup
	lock    sync.Mutex
	session sarama.ConsumerGroupSession
	owned   []string
	changes []string
	seen    []string
	refused error
}

func (c *client) member(group string, topics []string, instance string) *member {
	config := c.config()
	config.Consumer.Group.InstanceId = instance
	config.Consumer.Return.Errors = false
	joined, err := sarama.NewConsumerGroup([]string{c.address}, group, config)
	must(err)
	m := &member{ConsumerGroup: joined}
	go func() {
		for {
			err := joined.Consume(context.Background(), topics, m)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			if err != nil {
				m.lock.Lock()
				m.refused = err
				m.lock.Unlock()
				return
			}
		}
	}()
	return m
}

// Setup is called when a generation begins.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session, m.owned = session, nil
	for topic, partitions := range session.Claims() {
		for _, partition := range partitions {
			m.owned = append(m.owned, fmt.Sprintf("%s-%d", topic, partition))
		}
	}
	sort.Strings(m.owned)
	if len(m.owned) > 0 {
		m.changes = append(m.changes, fmt.Sprint("+", len(m.owned)))
	}
	return nil
}

// Cleanup is called when it ends.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if len(m.owned) > 0 {
		m.changes = append(m.changes, fmt.Sprint("-", len(m.owned)))
	}
	m.owned = nil
	return nil
}

// ConsumeClaim reads one partition for as long as it is ours.
func (m *member) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.lock.Lock()
		m.seen = append(m.seen, fmt.Sprintf("%d:%03d", message.Partition, message.Offset))
		m.lock.Unlock()
	}
	return nil
}

// look runs with the member at rest.
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

func (m *member) commit(topic string, offsets map[int32]int64) {
	for partition, offset := range offsets {
		m.session.MarkOffset(topic, partition, offset, "a note")
	}
	m.session.Commit()
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
	until(func() bool {
		all := map[string]bool{}
		for i, m := range members {
			owned := m.partitions()
			if len(owned) != counts[i] {
				return false
			}
			for _, each := range owned {
				if all[each] {
					return false
				}
				all[each] = true
			}
		}
		return true
	}, func() string {
		return fmt.Sprintf("first owns %v after %s", members[0].partitions(), members[0].history())
	})
}

func (c *client) fill(topic string, partitions int32, count int) {
	c.create(topic, partitions)
	for partition := range partitions {
		must(c.produce(messages(topic, partition, values(topic, count))))
	}
}

func offsetsOf(partition, from, to int) (all []string) {
	for offset := from; offset < to; offset++ {
		all = append(all, fmt.Sprintf("%d:%03d", partition, offset))
	}
	return all
}

func (c *client) committed(group string, topics map[string][]int32) string {
	answer, err := c.admin.ListConsumerGroupOffsets(group, topics)
	must(err)
	var all []string
	for topic, partitions := range answer.Blocks {
		for partition, block := range partitions {
			all = append(all, fmt.Sprintf("%s-%d:%d:%s", topic, partition, block.Offset, block.Metadata))
		}
	}
	sort.Strings(all)
	return fmt.Sprint(all)
}

// ---- operations

func (c *client) groupConsume() string {
	topic := "group.consume"
	c.fill(topic, 3, 100)
	first := c.member("consume", []string{topic}, "")
	expect("read", first.read(300), append(append(offsetsOf(0, 0, 100), offsetsOf(1, 0, 100)...), offsetsOf(2, 0, 100)...))
	first.commit(topic, map[int32]int64{0: 40, 1: 50, 2: 100})
	must(first.Close())
	second := c.member("consume", []string{topic}, "")
	expect("read again", second.read(110), append(offsetsOf(0, 40, 100), offsetsOf(1, 50, 100)...))
	second.commit(topic, map[int32]int64{0: 100, 1: 99})
	must(second.Close())
	return "300 read, resumed at 40 50 100, committed " + c.committed("consume", map[string][]int32{topic: {0, 1, 2}})
}

func (c *client) groupRebalance() string {
	topic := "group.rebalance"
	c.fill(topic, 4, 10)
	one := c.member("rebalance", []string{topic}, "")
	settle([]*member{one}, 4)
	other := c.member("rebalance", []string{topic}, "")
	settle([]*member{one, other}, 2, 2)
	must(other.Close())
	settle([]*member{one}, 4)
	must(one.Close())
	return fmt.Sprintf("alone 4, shared 2 and 2, alone again 4; changes %s, %s", one.history(), other.history())
}

func (c *client) staticMember() string {
	if !c.version.IsAtLeast(sarama.V2_3_0_0) {
		panic(skip("not in this version"))
	}
	topic := "static.member"
	c.fill(topic, 4, 10)
	stays := c.member("static", []string{topic}, "stays")
	settle([]*member{stays}, 4)
	leaves := c.member("static", []string{topic}, "leaves")
	settle([]*member{stays, leaves}, 2, 2)
	before, changes := leaves.partitions(), stays.history()
	must(leaves.Close())
	back := c.member("static", []string{topic}, "leaves")
	settle([]*member{stays, back}, 2, 2)
	time.Sleep(500 * time.Millisecond) // two heartbeats, which would tell of a rebalance
	expect("partitions after the return", back.partitions(), before)
	expect("changes of the other", stays.history(), changes)
	usurper := c.member("static", []string{topic}, "leaves")
	var refused error
	until(func() bool { back.look(func() { refused = back.refused }); return refused != nil }, func() string { return "nobody was fenced" })
	settle([]*member{stays, usurper}, 2, 2)
	for _, m := range []*member{usurper, back, stays} {
		must(m.Close())
	}
	return "came back to its 2 of 4, no rebalance; the one replaced: " + refusal(refused)
}

func (c *client) groupsAdmin() string {
	group := "admin"
	c.fill("admin.one", 1, 10)
	c.fill("admin.two", 1, 10)
	m := c.member(group, []string{"admin.one", "admin.two"}, "")
	settle([]*member{m}, 2)
	m.commit("admin.one", map[int32]int64{0: 3})
	m.commit("admin.two", map[int32]int64{0: 4})
	var seen []string
	say := func(format string, arguments ...any) { seen = append(seen, fmt.Sprintf(format, arguments...)) }
	both := map[string][]int32{"admin.one": {0}, "admin.two": {0}}
	say("active %s", c.described(group))
	say("offsets %s", c.committed(group, both))
	say("delete %s", refusal(c.admin.DeleteConsumerGroup(group)))
	if c.version.IsAtLeast(sarama.V2_4_0_0) {
		say("delete an offset %s", refusal(c.admin.DeleteConsumerGroupOffset(group, "admin.one", 0)))
	}
	must(m.Close())
	say("left %s", c.described(group))
	groups, err := c.admin.ListConsumerGroups()
	must(err)
	kind, found := groups[group]
	say("listed %v %s", found, kind)
	answer, err := c.admin.AlterConsumerGroupOffsets(group, map[string]map[int32]sarama.OffsetAndMetadata{"admin.two": {0: {Offset: 7, Metadata: "set"}}}, nil)
	must(err)
	say("alter %d", answer.Errors["admin.two"][0])
	if c.version.IsAtLeast(sarama.V2_4_0_0) {
		say("delete an offset %s", refusal(c.admin.DeleteConsumerGroupOffset(group, "admin.one", 0)))
	}
	say("offsets %s", c.committed(group, both))
	say("delete %s, again %s", refusal(c.admin.DeleteConsumerGroup(group)), refusal(c.admin.DeleteConsumerGroup(group)))
	say("gone %s, offsets %s", c.described(group), c.committed(group, both))
	return strings.Join(seen, "; ")
}

func (c *client) described(group string) string {
	answer, err := c.admin.DescribeConsumerGroups([]string{group})
	must(err)
	it := answer[0]
	var members []string
	for _, each := range it.Members {
		assigned, err := each.GetMemberAssignment()
		must(err)
		for topic, partitions := range assigned.Topics {
			members = append(members, fmt.Sprint(topic, partitions))
		}
	}
	sort.Strings(members)
	return fmt.Sprintf("%d %q %q %q members %v", it.Err, it.State, it.ProtocolType, it.Protocol, members)
}
