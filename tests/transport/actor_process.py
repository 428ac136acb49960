"""An actor without environments: steps the given address once, says so, and waits in its second step."""

import sys

import numpy as np

from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity
from seed_rl.types import EnvOutput

SPEC = EnvSpec(ArraySpec((4,), "int32"), DiscreteSpec(10_000))

if __name__ == "__main__":
    client = LearnerClient(sys.argv[1], ClientSecurity())
    client.describe(timeout=10.0)
    stream = client.open(client.join("run", SPEC, [2], timeout=10.0), 0, SPEC)
    output = EnvOutput(np.zeros(2, np.float32), np.ones(2, bool), np.ones((2, 4), np.int32))
    print(stream.step(output), flush=True)
    while True:
        stream.step(output)
