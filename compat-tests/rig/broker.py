"""One broker under test: Ottla, or Apache Kafka in its place. Both get the same server.properties."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

from rig import software, wire

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
STARTED = b"Kafka Server started"
START_SECONDS = 180
STOP_SECONDS = 30


def free_ports(count):
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Broker:
    """A single combined node with its data in `directory/data`. Formatted once; may be stopped, killed and started again,
    keeping its ports, and another kind of broker may be given the same directory."""

    def __init__(self, directory, kafka=False, binary=None, ports=None, settings=(), prefix=(), jvm=("-Xms256m", "-Xmx1g")):
        self.prefix, self.jvm = prefix, jvm
        self.directory = Path(directory)
        self.kafka = kafka
        self.data = self.directory / "data"
        self.log = self.directory / "broker.log"
        self.properties = self.directory / "server.properties"
        self.ports = ports or free_ports(2)
        self.binary = None if kafka else binary or software.ottla()
        self.process = None
        self.ready_seconds = None
        self.directory.mkdir(parents=True, exist_ok=True)
        self.properties.write_text(self._properties(settings))

    @property
    def address(self):
        return f"127.0.0.1:{self.ports[0]}"

    def _properties(self, settings):
        broker, controller = self.ports
        return "\n".join([
            "process.roles=broker,controller",
            "node.id=1",
            f"controller.quorum.bootstrap.servers=127.0.0.1:{controller}",
            f"listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names=CONTROLLER",
            f"log.dirs={self.data}",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
            *settings, ""])

    def format(self, features=()):
        """Makes the data directory; `features` are levels that Kafka is to start with, where they are not its newest."""
        arguments = ["format", "-t", CLUSTER_ID, "-c", self.properties, "--standalone"]
        if self.kafka:
            levels = [word for feature in features for word in ("--feature", feature)]
            software.sh(software.kafka_command("kafka.tools.StorageTool", *arguments, *levels))
        else:
            software.sh([self.binary, "storage", *arguments])
        return self

    def start(self):
        self.spawn()
        return self.wait_until_ready()

    def spawn(self):
        """Starts the process and does not wait for it."""
        command = [self.binary, self.properties]
        if self.kafka:
            command = software.kafka_command("kafka.Kafka", self.properties, log_level="INFO", jvm=["java", *self.jvm])
        self._begun = time.monotonic()
        with open(self.log, "ab") as log:
            self._log_seen = log.tell()
            self.process = subprocess.Popen(list(map(str, [*self.prefix, *command])), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True)

    def wait_until_ready(self):
        while STARTED not in self._log_since_start():
            if self.process.poll() is not None:
                raise RuntimeError(f"the broker ended with {self.process.returncode}:\n{self.tail()}")
            if time.monotonic() - self._begun > START_SECONDS:
                self.kill()
                raise RuntimeError(f"the broker is not ready after {START_SECONDS} s:\n{self.tail()}")
            time.sleep(0.005)
        self.ready_seconds = time.monotonic() - self._begun
        return self

    def wait_until_answering(self):
        """Until ApiVersions is answered, which may be long before the broker says that it has started."""
        while True:
            try:
                return wire.Connection(self.address).call(wire.api_versions())
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError(self.tail()) from None
                time.sleep(0.001)

    def _log_since_start(self):
        with open(self.log, "rb") as log:
            log.seek(self._log_seen)
            return log.read()

    def stop(self):
        """Asks it to end; returns the exit code."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        finally:
            self.process = None

    def kill(self):
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def tail(self, lines=40):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def resident_mebibytes(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def processor_seconds(self):
        """What the process has used so far, of all processors."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
