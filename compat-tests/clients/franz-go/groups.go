// What this row does with consumer groups: the same as in ../groups.py.
package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is a consumer in a group that notes what it is given and what is taken from it.
type member struct {
	*kgo.Client
	lock    sync.Mutex
	owned   map[int32]bool
	changes []string
}

func (c *client) member(group, topic string, options ...kgo.Opt) *member {
	m := &member{owned: map[int32]bool{}}
	changed := func(sign string, own bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.lock.Lock()
			defer m.lock.Unlock()
			count := 0
			for _, each := range partitions {
				count += len(each)
				for _, partition := range each {
					m.owned[partition] = own
				}
			}
			if count > 0 {
				m.changes = append(m.changes, fmt.Sprint(sign, count))
			}
		}
	}
	connection, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.address), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(200 * time.Millisecond), kgo.SessionTimeout(20 * time.Second),
		kgo.OnPartitionsAssigned(changed("+", true)), kgo.OnPartitionsRevoked(changed("-", false)), kgo.OnPartitionsLost(changed("lost ", false)),
	}, options...)...)
	must(err)
	m.Client = connection
	return m
}

func (m *member) partitions() (all []int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for partition, own := range m.owned {
		if own {
			all = append(all, partition)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	return all
}

func (m *member) history() string {
	m.lock.Lock()
	defer m.lock.Unlock()
	return strings.Join(m.changes, " ")
}

// read returns `partition:offset` of so many records, sorted.
func (m *member) read(ctx context.Context, count int) (seen []string) {
	for len(seen) < count {
		fetched := m.PollFetches(ctx)
		must(fetched.Err())
		for _, record := range fetched.Records() {
			seen = append(seen, fmt.Sprintf("%d:%03d", record.Partition, record.Offset))
		}
	}
	sort.Strings(seen)
	return seen
}

func (m *member) commit(ctx context.Context, topic string, offsets map[int32]int64) string {
	commit := map[int32]kgo.EpochOffset{}
	for partition, offset := range offsets {
		commit[partition] = kgo.EpochOffset{Epoch: 0, Offset: offset}
	}
	outcome := "no answer"
	m.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: commit}, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		outcome = refusal(err)
		if err == nil {
			for _, topic := range answer.Topics {
				for _, partition := range topic.Partitions {
					outcome = refusal(kerr.ErrorForCode(partition.ErrorCode))
				}
			}
		}
	})
	return outcome
}

// settle waits until the members own so many partitions each, none of them twice.
func settle(ctx context.Context, members []*member, counts ...int) {
	for {
		all, fits := map[int32]bool{}, true
		for i, m := range members {
			owned := m.partitions()
			fits = fits && len(owned) == counts[i]
			for _, partition := range owned {
				fits = fits && !all[partition]
				all[partition] = true
			}
		}
		if fits {
			return
		}
		select {
		case <-ctx.Done():
			panic(fmt.Sprintf("first member owns %v after %s", members[0].partitions(), members[0].history()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *client) fill(ctx context.Context, topic string, partitions int32, count int) {
	c.create(ctx, topic, partitions)
	for partition := range partitions {
		must(c.produce(ctx, records(topic, partition, values(topic, count))))
	}
}

func offsetsOf(partition, from, to int) (all []string) {
	for offset := from; offset < to; offset++ {
		all = append(all, fmt.Sprintf("%d:%03d", partition, offset))
	}
	return all
}

// ---- operations

func (c *client) groupConsume(ctx context.Context) string {
	topic := "group.consume"
	c.fill(ctx, topic, 3, 100)
	first := c.member("consume", topic)
	expect("read", first.read(ctx, 300), append(append(offsetsOf(0, 0, 100), offsetsOf(1, 0, 100)...), offsetsOf(2, 0, 100)...))
	commits := []string{first.commit(ctx, topic, map[int32]int64{0: 40, 1: 50, 2: 100})}
	first.Close()
	second := c.member("consume", topic)
	expect("read again", second.read(ctx, 110), append(offsetsOf(0, 40, 100), offsetsOf(1, 50, 100)...))
	commits = append(commits, second.commit(ctx, topic, map[int32]int64{0: 100, 1: 99}))
	second.Close()
	return fmt.Sprintf("300 read, resumed at 40 50 100, commits %s, committed %s", strings.Join(commits, " "), c.committed(ctx, "consume"))
}

func (c *client) groupRebalance(ctx context.Context) string {
	topic := "group.rebalance"
	c.fill(ctx, topic, 4, 10)
	one := c.member("rebalance", topic)
	settle(ctx, []*member{one}, 4)
	other := c.member("rebalance", topic)
	settle(ctx, []*member{one, other}, 2, 2)
	other.Close()
	settle(ctx, []*member{one}, 4)
	one.Close()
	return fmt.Sprintf("alone 4, shared 2 and 2, alone again 4; changes %s, %s", one.history(), other.history())
}

func (c *client) staticMember(ctx context.Context) string {
	topic := "static.member"
	c.fill(ctx, topic, 4, 10)
	stays := c.member("static", topic, kgo.InstanceID("stays"))
	settle(ctx, []*member{stays}, 4)
	leaves := c.member("static", topic, kgo.InstanceID("leaves"))
	settle(ctx, []*member{stays, leaves}, 2, 2)
	before, changes := leaves.partitions(), stays.history()
	leaves.Close()
	back := c.member("static", topic, kgo.InstanceID("leaves"))
	settle(ctx, []*member{stays, back}, 2, 2)
	time.Sleep(500 * time.Millisecond) // two heartbeats, which would tell of a rebalance
	expect("partitions after the return", back.partitions(), before)
	expect("changes of the other", stays.history(), changes)
	usurper := c.member("static", topic, kgo.InstanceID("leaves"))
	settle(ctx, []*member{stays, usurper}, 2, 2)
	fenced := back.commit(ctx, topic, map[int32]int64{before[0]: 1})
	for _, m := range []*member{usurper, back, stays} {
		m.Close()
	}
	return "came back to its 2 of 4, no rebalance; commit of the one replaced: " + fenced
}

func (c *client) cooperativeSticky(ctx context.Context) string {
	topic, sticky := "cooperative.sticky", kgo.Balancers(kgo.CooperativeStickyBalancer())
	c.fill(ctx, topic, 4, 10)
	one := c.member("cooperative", topic, sticky)
	settle(ctx, []*member{one}, 4)
	other := c.member("cooperative", topic, sticky)
	settle(ctx, []*member{one, other}, 2, 2)
	other.Close()
	settle(ctx, []*member{one}, 4)
	one.Close()
	return fmt.Sprintf("changes %s, %s", one.history(), other.history())
}

func (c *client) groupsAdmin(ctx context.Context) string {
	group := "admin"
	c.fill(ctx, "admin.one", 1, 10)
	c.fill(ctx, "admin.two", 1, 10)
	m := c.member(group, "admin.one", kgo.ConsumeTopics("admin.one", "admin.two"))
	for m.history() != "+2" {
		time.Sleep(10 * time.Millisecond)
		must(ctx.Err())
	}
	seen := []string{m.commit(ctx, "admin.one", map[int32]int64{0: 3}), m.commit(ctx, "admin.two", map[int32]int64{0: 4})}
	say := func(format string, arguments ...any) { seen = append(seen, fmt.Sprintf(format, arguments...)) }
	say("active %s", c.described(ctx, group))
	say("offsets %s", c.committed(ctx, group))
	say("lag %d", c.lag(ctx, group))
	say("delete %s", c.deleteGroup(ctx, group))
	say("delete an offset %s", c.deleteOffset(ctx, group, "admin.one"))
	m.Close()
	say("left %s", c.described(ctx, group))
	for _, states := range [][]string{nil, {"Stable"}, {"Empty"}} {
		say("listed %v %s", states, c.listed(ctx, group, states))
	}
	say("commit %s", c.commitAsAdmin(ctx, group, "admin.two", 7))
	say("delete an offset %s", c.deleteOffset(ctx, group, "admin.one"))
	say("offsets %s", c.committed(ctx, group))
	say("delete %s, again %s", c.deleteGroup(ctx, group), c.deleteGroup(ctx, group))
	say("gone %s, offsets %s", c.described(ctx, group), c.committed(ctx, group))
	return strings.Join(seen, "; ")
}

func (c *client) described(ctx context.Context, group string) string {
	answer, err := c.admin.DescribeGroups(ctx, group)
	must(err)
	it := answer[group]
	var members []string
	for _, each := range it.Members {
		assigned, _ := each.Assigned.AsConsumer()
		for _, topic := range assigned.Topics {
			members = append(members, fmt.Sprint(topic.Topic, topic.Partitions))
		}
	}
	sort.Strings(members)
	return fmt.Sprintf("%s %q %q %q coordinator %d members %v", refusal(it.Err), it.State, it.ProtocolType, it.Protocol, it.Coordinator.NodeID, members)
}

func (c *client) listed(ctx context.Context, group string, states []string) string {
	answer, err := c.admin.ListGroups(ctx, states...)
	must(err)
	it, found := answer[group]
	return fmt.Sprintf("%v %s %s", found, it.State, it.ProtocolType)
}

func (c *client) committed(ctx context.Context, group string) string {
	answer, err := c.admin.FetchOffsets(ctx, group)
	must(err)
	var all []string
	for _, each := range answer.Sorted() {
		all = append(all, fmt.Sprintf("%s-%d:%d", each.Topic, each.Partition, each.At))
	}
	return fmt.Sprint(all)
}

func (c *client) lag(ctx context.Context, group string) int64 {
	answer, err := c.admin.Lag(ctx, group)
	must(err)
	return answer[group].Lag.Total()
}

func (c *client) deleteGroup(ctx context.Context, group string) string {
	answer, err := c.admin.DeleteGroups(ctx, group)
	must(err)
	return refusal(answer[group].Err)
}

func (c *client) deleteOffset(ctx context.Context, group, topic string) string {
	var set kadm.TopicsSet
	set.Add(topic, 0)
	answer, err := c.admin.DeleteOffsets(ctx, group, set)
	must(err)
	refused, _ := answer.Lookup(topic, 0)
	return refusal(refused)
}

func (c *client) commitAsAdmin(ctx context.Context, group, topic string, offset int64) string {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, offset, -1)
	answer, err := c.admin.CommitOffsets(ctx, group, offsets)
	must(err)
	return refusal(answer.Error())
}
