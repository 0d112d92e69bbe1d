# The no-op in a process of its own, without a sandbox.
import json
import sys


def handler(payload):
    return None


sys.stdout.write(json.dumps(handler(json.loads(sys.argv[1]))))
