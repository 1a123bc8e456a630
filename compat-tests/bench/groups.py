"""What groups cost a broker: many groups of one member each, which sends heartbeats and commits; many members that join one
group at once; and how long many commits take to be loaded again. Requests are raw bytes, so that the client costs little
beside the broker."""

import collections
import selectors
import struct
import time

from rig.wire import Connection, array, blob, frame, text

TOPIC = "t"  # of 100 partitions, made before
LOADING = {14: "COORDINATOR_LOAD_IN_PROGRESS", 15: "COORDINATOR_NOT_AVAILABLE", 16: "NOT_COORDINATOR"}


def join(group, member=""):
    subscription = struct.pack(">h", 0) + array([text(TOPIC)]) + struct.pack(">i", -1)
    return frame(11, 2, text(group) + struct.pack(">ii", 30_000, 60_000) + text(member) + text("consumer")
                 + array([text("range") + blob(subscription)]))


def sync(group, member):
    return frame(14, 1, text(group) + struct.pack(">i", 1) + text(member) + array([text(member) + blob(b"\0\0\0\0\0\0\0\0\0\0")]))


def heartbeat(group, member):
    return frame(12, 1, text(group) + struct.pack(">i", 1) + text(member))


def commit(group, member, generation, partitions, offset):
    wanted = [struct.pack(">iq", partition, offset) + text("") for partition in partitions]
    return frame(8, 2, text(group) + struct.pack(">i", generation) + text(member) + struct.pack(">q", -1) + array([text(TOPIC) + array(wanted)]))


def describe(groups):
    return frame(15, 0, array([text(group) for group in groups]))


def member_of(answer):
    """Member id in an answer to a JoinGroup of version 2."""
    error, generation = struct.unpack_from(">hi", answer, 4)
    if error or generation != 1:
        raise RuntimeError(f"error {error}, generation {generation}")
    at = 10
    for _ in range(3):  # protocol, leader, member
        (size,) = struct.unpack_from(">h", answer, at)
        value, at = answer[at + 2:at + 2 + size].decode(), at + 2 + size
    return value


def ready(connection, groups):
    """Waits until the coordinators of these groups answer; how long that took."""
    begun = time.monotonic()
    while True:
        connection.call(frame(10, 0, text(groups[0])))
        answer, at, loading = connection.call(describe(groups)), 4, 0
        for _ in groups:
            (error,) = struct.unpack_from(">h", answer, at)
            loading += error in LOADING
            at += 2
            for _ in range(4):  # group, in any order; state, kind, protocol
                (size,) = struct.unpack_from(">h", answer, at)
                at += 2 + size
            (members,) = struct.unpack_from(">i", answer, at)
            at += 4
            for _ in range(members):
                for _ in range(3):
                    (size,) = struct.unpack_from(">h", answer, at)
                    at += 2 + size
                for _ in range(2):
                    (size,) = struct.unpack_from(">i", answer, at)
                    at += 4 + max(size, 0)
        if not loading:
            return time.monotonic() - begun
        time.sleep(0.002)


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def live(broker, prefix, groups, seconds):
    """Groups whose members only send heartbeats (each 3 s) and commits (each 5 s)."""
    connection = Connection(broker.address)
    names = [f"{prefix}-{number}" for number in range(groups)]
    ready(connection, names[:200])
    memory = broker.resident_mebibytes()
    connections = [Connection(broker.address) for _ in names]
    for connection, name in zip(connections, names):
        connection.send(join(name))
    who = [member_of(connection.read()) for connection in connections]
    for connection, name, member in zip(connections, names, who):
        connection.send(sync(name, member))
    for connection in connections:
        connection.read()
    selector = selectors.DefaultSelector()
    for number, connection in enumerate(connections):
        selector.register(connection.socket, selectors.EVENT_READ, number)
    # Each member at its own times.
    begun = time.monotonic()
    due = collections.deque(sorted([(3 * number / groups, number, "beat") for number in range(groups)]
                                   + [(5 * number / groups, number, "commit") for number in range(groups)]))
    waiting, took = [collections.deque() for _ in names], {"beat": [], "commit": []}
    before = broker.processor_seconds()
    while time.monotonic() - begun < seconds:
        now = time.monotonic() - begun
        while due and due[0][0] <= now:
            at, number, what = due.popleft()
            request = heartbeat(names[number], who[number]) if what == "beat" else commit(names[number], who[number], 1, range(1), int(now * 100))
            connections[number].send(request)
            waiting[number].append((what, time.monotonic()))
            again = (at + (3 if what == "beat" else 5), number, what)
            place = len(due)
            while place and due[place - 1] > again:
                place -= 1
            due.insert(place, again)
        for key, _ in selector.select(max(0, min(0.01, due[0][0] - (time.monotonic() - begun)))):
            what, since = waiting[key.data].popleft()
            answer = connections[key.data].read()
            error = struct.unpack_from(">h", answer, 4)[0] if what == "beat" else struct.unpack_from(">h", answer, len(answer) - 2)[0]
            if error:
                raise RuntimeError(f"a {what} was refused with {error}")
            took[what].append(time.monotonic() - since)
    used = (broker.processor_seconds() - before) / (time.monotonic() - begun)
    return {f"{groups} groups, processor, %": used * 100, "heartbeat p99, ms": percentile(took["beat"], 0.99) * 1000,
            "commit p99, ms": percentile(took["commit"], 0.99) * 1000,
            "memory, KiB a group": (broker.resident_mebibytes() - memory) * 1024 / groups}


def storm(broker, members):
    """Members that join one group at once, the leader's assignment, and its way to all of them."""
    connections = [Connection(broker.address) for _ in range(members)]
    ready(connections[0], ["storm"])
    begun, before = time.monotonic(), broker.processor_seconds()
    for connection in connections:
        connection.send(join("storm"))
    who = [member_of(connection.read()) for connection in connections]
    joined = time.monotonic()
    # Only the leader's assignment counts, and each gives one.
    for connection, member in zip(connections, who):
        connection.send(sync("storm", member))
    for connection in connections:
        (error,) = struct.unpack_from(">h", connection.read(), 4)
        if error:
            raise RuntimeError(f"SyncGroup was refused with {error}")
    return {f"{members} members join, s": joined - begun, f"{members} members are told, ms": (time.monotonic() - joined) * 1000,
            "join and assignment, processor, s": broker.processor_seconds() - before}


def reload(broker, commits, per_group=100):
    """Commits for many partitions of many groups, then starts that must load them."""
    connection = Connection(broker.address)
    groups = [f"reload-{number}" for number in range(commits // per_group)]
    ready(connection, groups[:200])
    begun, window = time.monotonic(), 64
    for number, group in enumerate(groups):
        connection.send(commit(group, "", -1, range(per_group), number))
        if number >= window:
            connection.read()
    for _ in range(min(window, len(groups))):
        answer = connection.read()
    if answer[-2:] != b"\0\0":
        raise RuntimeError("commits are refused")
    written = time.monotonic() - begun
    figures = {f"{commits} commits, s": written}
    for end in (broker.stop, broker.kill):
        end()
        broker.start()
        began = time.monotonic() - broker.ready_seconds
        ready(Connection(broker.address), groups[:200])
        what = "a stop" if end == broker.stop else "kill -9"
        figures[f"loaded after {what}, ms"] = (time.monotonic() - began) * 1000
    return figures | {"memory, MiB": broker.resident_mebibytes()}
