"""Requests as raw bytes, for programs that choose each byte on the wire and cost little beside the broker. Their versions have
no compact fields, so the fields of an answer stand at places that can be counted."""

import socket
import struct
import time

PRODUCE, FETCH, METADATA, API_VERSIONS, CREATE_TOPICS = 0, 1, 3, 18, 19


def text(value):
    return struct.pack(">h", len(value)) + value.encode()


def blob(value):
    return struct.pack(">i", len(value)) + value


def array(items):
    return struct.pack(">i", len(items)) + b"".join(items)


def frame(key, version, body, correlation=0):
    header = struct.pack(">hhi", key, version, correlation) + text("raw")
    return struct.pack(">i", len(header) + len(body)) + header + body


def varint(value):
    rest, out = (value << 1) ^ (value >> 63), bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def _crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC32C = _crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC32C[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def batch(values):
    """A record batch of format 2 without keys, codec or producer."""
    records = b""
    for number, value in enumerate(values):
        record = b"\0\0" + varint(number) + varint(-1) + varint(len(value)) + value + b"\0"
        records += varint(len(record)) + record
    now = int(time.time() * 1000)
    covered = struct.pack(">hiqqqhii", 0, len(values) - 1, now, now, -1, -1, -1, len(values)) + records
    return struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, crc32c(covered)) + covered


def api_versions():
    return frame(API_VERSIONS, 2, b"")


def produce(topic, batches, acks=-1):
    """`batches`: {partition: batch}."""
    partitions = [struct.pack(">i", partition) + blob(each) for partition, each in batches.items()]
    return frame(PRODUCE, 7, struct.pack(">hhi", -1, acks, 30_000) + array([text(topic) + array(partitions)]))


def produced(topic, answer):
    """The error and the offset in an answer to a Produce of one partition."""
    return struct.unpack_from(">hq", answer, 4 + 2 + len(topic) + 4 + 4)


def fetch(topic, offsets, wait_ms=0, partition_bytes=1 << 20, most_bytes=50 << 20):
    """`offsets`: {partition: offset}; no session."""
    partitions = [struct.pack(">iiqqi", partition, -1, offset, -1, partition_bytes) for partition, offset in offsets.items()]
    return frame(FETCH, 11, struct.pack(">iiiibii", -1, wait_ms, 1, most_bytes, 0, 0, -1)
                 + array([text(topic) + array(partitions)]) + array([]) + text(""))


def metadata(topics=None):
    """By default of all topics."""
    return frame(METADATA, 8, (struct.pack(">i", -1) if topics is None else array([text(topic) for topic in topics])) + b"\0\0\0")


def create_topics(name, partitions):
    return frame(CREATE_TOPICS, 2, array([text(name) + struct.pack(">ih", partitions, 1) + array([]) + array([])]) + struct.pack(">i?", 30_000, False))


class Connection:
    """`receive_buffer` and `send_buffer` are what the kernel is asked to hold at most, in bytes."""

    def __init__(self, address, receive_buffer=None, send_buffer=None, timeout=60):
        host, port = address.split(":")
        self.socket = socket.socket()
        for option, size in ((socket.SO_RCVBUF, receive_buffer), (socket.SO_SNDBUF, send_buffer)):
            if size:
                self.socket.setsockopt(socket.SOL_SOCKET, option, size)
        self.socket.settimeout(timeout)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, request):
        self.socket.sendall(request)

    def call(self, request):
        self.send(request)
        return self.read()

    def read(self):
        """One answer without its correlation id."""
        while len(self.buffer) < 4 or len(self.buffer) < 4 + struct.unpack_from(">i", self.buffer)[0]:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("the broker has hung up")
            self.buffer += more
        size = 4 + struct.unpack_from(">i", self.buffer)[0]
        answer, self.buffer = self.buffer[8:size], self.buffer[size:]
        return answer

    def close(self):
        self.socket.close()


def create_topic(address, name, partitions=1):
    """Creates a topic and waits until its last partition is served."""
    connection = Connection(address)
    answer = connection.call(create_topics(name, partitions))
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name))
    if error:
        raise RuntimeError(f"creating {name} was refused with {error}")
    while True:
        answer = connection.call(fetch(name, {partitions - 1: 0}))
        (error,) = struct.unpack_from(">h", answer, 4 + 2 + 4 + 4 + 2 + len(name) + 4 + 4)
        if error not in (3, 6):
            break
        time.sleep(0.01)
    connection.close()
