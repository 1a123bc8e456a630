"""Row kafka-python-tests: the integration tests in kafka-python's source archive (Apache-2.0), each test one operation.
They run against the one broker that they are given; those in kafka_python_tests.tsv are left out, each for its reason."""

import os
import sys
import types
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LEFT_OUT = dict(line.split("\t") for line in (HERE / "kafka_python_tests.tsv").read_text().splitlines() if not line.startswith("#"))


class ExternalService:
    """A broker that is there already. The tests want a module with this name, which the archive lacks."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


def provide(sources):
    """The package `test` of the archive, in place of Python's own, with what it lacks."""
    package, service = types.ModuleType("test"), types.ModuleType("test.service")
    package.__path__ = [str(sources / "test")]
    service.ExternalService, service.SpawnedService = ExternalService, None
    sys.modules.update({"test": package, "test.service": service})


class Report:
    """Prints a line for each test; a test fails with its preparation or its cleaning up."""

    def pytest_collection_modifyitems(self, config, items):
        kept = [item for item in items if item.name.split("[")[0] not in LEFT_OUT and item.path.name not in LEFT_OUT]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            status = {"passed": "ok", "failed": "FAIL", "skipped": "skip"}[report.outcome]
            reason = str(report.longrepr[2]) if report.outcome == "skipped" else ""
            if report.outcome == "failed":
                reason = f"{report.when}: {report.longrepr.reprcrash.message}" if hasattr(report.longrepr, "reprcrash") else report.when
            print(report.nodeid.split("::", 1)[1], status, " ".join(reason.split()), sep="\t", file=OUT, flush=True)


sources, address = Path(sys.argv[1]), sys.argv[2]
OUT, sys.stdout = sys.stdout, sys.stderr
os.environ.update(KAFKA_URI=f"kafka://{address}", KAFKA_VERSION="4.4.0", KAFKA_ROOT=str(sources))
provide(sources)
code = pytest.main(["-p", "no:cacheprovider", "-q", "-o", "addopts=", "--timeout=60", "--timeout-method=signal", "--log-level=ERROR",
                    str(sources / "test" / "integration")], plugins=[Report()])
# Tests that failed are told by their lines.
sys.exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else code)
