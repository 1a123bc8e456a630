"""Runs tests of a Go module, built as one program, against a broker; each test and subtest is one operation.
Arguments: the program, its settings as NAME=VALUE (BROKER stands for the address), the pattern of tests, the address."""

import os
import re
import subprocess
import sys

program, *settings, pattern, address = sys.argv[1:]
environment = dict(each.replace("BROKER", address).split("=", 1) for each in settings)
done = subprocess.run([program, "-test.v", "-test.run", pattern, "-test.timeout", "280s"], env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
sys.stderr.write(done.stdout)
outcomes = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", done.stdout, re.MULTILINE)
for outcome, test in sorted(outcomes, key=lambda each: each[1]):
    print(test, {"PASS": "ok", "FAIL": "FAIL", "SKIP": "skip"}[outcome], "", sep="\t")
sys.exit(0 if outcomes else 1)
