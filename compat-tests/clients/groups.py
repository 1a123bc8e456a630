"""What the Python rows do with consumer groups; the scenarios of the other languages are the same.

A client gives `member(group, topics, strategy, instance)`: a consumer with
`poll()` (a fraction of a second of work; returns [(topic, partition, offset)]), `owned()` (what is assigned to it now),
`changes` (how many partitions it was given or had taken away, in order), `commit({(topic, partition): offset}, note)`
(returns the error's name), `committed([(topic, partition)])` and `close()`."""

import time

from operations import expect, values

SECONDS = 30


def until(done, *members):
    """Lets the members work until it is so; returns what they read meanwhile."""
    seen, deadline = [], time.monotonic() + SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"members own {[sorted(member.owned()) for member in members]} after {SECONDS} s, changes {[member.changes for member in members]}")
        for member in members:
            seen += member.poll()
    return seen


def settle(members, *counts):
    """Lets the members work until they own so many partitions each, none of them twice."""
    seen = until(lambda: [len(member.owned()) for member in members] == list(counts), *members)
    expect("partitions owned by one alone", len(set().union(*(member.owned() for member in members))), sum(counts))
    return seen


def fill(client, topic, partitions, count):
    """A new topic with records in each partition."""
    client.create(topic, partitions)
    client.produce_values(topic, [(partition, value) for partition in range(partitions) for value in values(topic, count)])


def group_consume(client):
    """All is read and partly committed; the next member goes on where the commit stands."""
    topic = "group.consume"
    fill(client, topic, 3, 100)
    first, seen = client.member("consume", [topic]), []
    while len(seen) < 300:
        seen += first.poll()
    expect("read", sorted(seen), [(topic, partition, offset) for partition in range(3) for offset in range(100)])
    commits = [first.commit({(topic, 0): 40, (topic, 1): 50, (topic, 2): 100}, "a note")]
    first.close()
    second, again = client.member("consume", [topic]), []
    while len(again) < 110:
        again += second.poll()
    expect("read again", sorted(again), [(topic, 0, offset) for offset in range(40, 100)] + [(topic, 1, offset) for offset in range(50, 100)])
    commits.append(second.commit({(topic, 0): 100, (topic, 1): 99}, ""))
    committed = second.committed([(topic, partition) for partition in range(3)])
    second.close()
    return f"300 read, resumed at 40 50 100, commits {' '.join(commits)}, committed {' '.join(map(str, committed))}"


def group_rebalance(client):
    """Two share; when one leaves, the other takes all."""
    topic = "group.rebalance"
    fill(client, topic, 4, 10)
    one = client.member("rebalance", [topic])
    settle([one], 4)
    other = client.member("rebalance", [topic])
    settle([one, other], 2, 2)
    other.close()
    settle([one], 4)
    one.close()
    return f"alone 4, shared 2 and 2, alone again 4; changes {' '.join(one.changes)}, {' '.join(other.changes)}"


def static_member(client):
    """A member with an instance id comes back within its session: nobody rebalances. Who takes its id fences it."""
    topic = "static.member"
    fill(client, topic, 4, 10)
    stays = client.member("static", [topic], instance="stays")
    settle([stays], 4)
    leaves = client.member("static", [topic], instance="leaves")
    settle([stays, leaves], 2, 2)
    before, changes = leaves.owned(), list(stays.changes)
    leaves.close()
    back = client.member("static", [topic], instance="leaves")
    until(lambda: len(back.owned()) == 2, stays, back)
    for _ in range(5):
        stays.poll(), back.poll()
    expect("partitions after the return", back.owned(), before)
    expect("changes of the other", stays.changes, changes)
    usurper = client.member("static", [topic], instance="leaves")
    until(lambda: len(usurper.owned()) == 2, stays, usurper)
    fenced = back.commit({sorted(before)[0]: 1}, "")
    for member in (usurper, back, stays):
        member.close()
    return f"came back to its 2 of 4, no rebalance; commit of the one replaced: {fenced}"


def cooperative_sticky(client):
    """Only what goes to the newcomer is taken away; what is left behind is only added."""
    topic = "cooperative.sticky"
    fill(client, topic, 4, 10)
    one = client.member("cooperative", [topic], strategy="cooperative-sticky")
    settle([one], 4)
    before = one.owned()
    other = client.member("cooperative", [topic], strategy="cooperative-sticky")
    settle([one, other], 2, 2)
    expect("kept", one.owned() < before, True)
    other.close()
    settle([one], 4)
    one.close()
    return f"changes {' '.join(one.changes)}, {' '.join(other.changes)}"


SCENARIOS = {"group-consume": group_consume, "group-rebalance": group_rebalance, "static-member": static_member,
             "cooperative-sticky": cooperative_sticky}
