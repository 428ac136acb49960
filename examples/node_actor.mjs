// An actor without Python: plays Catch for a learner, with nothing but what Node.js 18 or newer brings along.
//
//     seed_rl learner --gin_file=catch/vtrace --server_address=localhost:50051
//     node examples/node_actor.mjs http://localhost:50051
//
// The messages are those of seed_rl/transport/seed_rl.proto. With a library for gRPC the first half of this file goes.

import { randomUUID } from "node:crypto";
import http2 from "node:http2";

const PROTOCOL_VERSION = 5;

// ---- Protocol buffers: a message is a list of (field number, integer or bytes).

function varint(number) {
  const bytes = [];
  let rest = BigInt(number);
  for (; rest >= 128n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return Buffer.from([...bytes, Number(rest)]);
}

function message(...fields) {
  return Buffer.concat(
    fields.flatMap(([number, value]) => {
      if (typeof value === "number") return [varint(number << 3), varint(value)];
      const bytes = Buffer.from(value); // of a nested message, a string, or packed numbers
      return [varint((number << 3) | 2), varint(bytes.length), bytes];
    }),
  );
}

const packed = (numbers) => Buffer.concat(numbers.map(varint));

/** The values of each field of a message: bigint or Buffer. */
function parsed(bytes) {
  const fields = {};
  let at = 0;
  const next = () => {
    let number = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = BigInt(bytes[at++]);
      number |= (byte & 127n) << shift;
      if (byte < 128n) return number;
    }
  };
  while (at < bytes.length) {
    const tag = next();
    let value = next();
    if ((tag & 7n) === 2n) value = bytes.subarray(at, (at += Number(value)));
    (fields[tag >> 3n] ??= []).push(value);
  }
  return fields;
}

// ---- gRPC: messages over a stream of HTTP/2, each behind five bytes: 0, and its length.

/** Opens a call; `send` writes a message, `receive` waits for the next one. */
function call(connection, method, metadata = {}) {
  const stream = connection.request({
    ":method": "POST",
    ":path": `/seed_rl.Learner/${method}`,
    "content-type": "application/grpc",
    te: "trailers",
    ...metadata, // with a token: authorization: `Bearer ${token}`
  });
  let ended = "the learner has ended the call";
  const explain = (headers) => {
    const status = headers["grpc-status"];
    if (status === "0") ended = "the run is over";
    else if (status) ended = `${status}: ${decodeURIComponent(headers["grpc-message"] ?? "")}`;
  };
  stream.on("response", explain).on("trailers", explain);
  const messages = (async function* () {
    let buffer = Buffer.alloc(0);
    for await (const chunk of stream) {
      buffer = Buffer.concat([buffer, chunk]);
      while (buffer.length >= 5 && buffer.length >= 5 + buffer.readUInt32BE(1)) {
        const end = 5 + buffer.readUInt32BE(1);
        yield buffer.subarray(5, end);
        buffer = buffer.subarray(end);
      }
    }
  })();
  return {
    send(bytes) {
      const prefix = Buffer.alloc(5);
      prefix.writeUInt32BE(bytes.length, 1);
      stream.write(Buffer.concat([prefix, bytes]));
    },
    async receive() {
      const { value } = await messages.next();
      if (!value) throw new Error(ended);
      return value;
    },
    close: () => stream.end(),
  };
}

async function ask(connection, method, request) {
  const asked = call(connection, method);
  asked.send(request);
  asked.close();
  return parsed(await asked.receive());
}

// ---- The environment: a ball falls, and a paddle on the bottom row must catch it.

class Catch {
  constructor(rows, columns) {
    Object.assign(this, { rows, columns });
    this.begin();
  }

  begin() {
    Object.assign(this, { row: 0, ball: Math.floor(Math.random() * this.columns), paddle: this.columns >> 1 });
  }

  /** Reward, and whether the step ended an episode; the next one has begun then. */
  step(action) {
    this.paddle = Math.min(Math.max(this.paddle + action - 1, 0), this.columns - 1);
    this.row += 1;
    if (this.row < this.rows - 1) return { reward: 0, done: false };
    const reward = this.ball === this.paddle ? 1 : -1;
    this.begin();
    return { reward, done: true };
  }

  observation() {
    const board = Buffer.alloc(this.rows * this.columns);
    board[this.row * this.columns + this.ball] = 255;
    board[(this.rows - 1) * this.columns + this.paddle] = 255;
    return board;
  }
}

/** The payload of a step: rewards, done, last and observations of all environments, one array after the other. */
function payload(envs, outcomes) {
  const rewards = Buffer.alloc(4 * envs.length);
  outcomes.forEach(({ reward }, env) => rewards.writeFloatLE(reward, 4 * env));
  const done = Buffer.from(outcomes.map(({ done }) => Number(done)));
  const last = Buffer.alloc(envs.length); // no episode of Catch is truncated
  return Buffer.concat([rewards, done, last, ...envs.map((env) => env.observation())]);
}

async function play(connection, session, group, envs) {
  const stream = call(connection, "Act", { "seed-rl-session": session, "seed-rl-group": String(group) });
  let outcomes = envs.map(() => ({ reward: 0, done: true })); // every stream begins with new episodes
  for (;;) {
    stream.send(message([1, payload(envs, outcomes)]));
    const actions = parsed(await stream.receive())[1][0];
    outcomes = envs.map((env, index) => env.step(actions.readInt32LE(4 * index)));
  }
}

async function act(connection) {
  const described = await ask(connection, "Describe", message([1, PROTOCOL_VERSION], [2, "node"]));
  const [groups, size] = [3, 4].map((field) => Number(described[field][0]));
  const description = parsed(described[2][0]);
  const suite = description[1][0].toString();
  if (suite !== "catch") throw new Error(`the learner trains on ${suite}, and this actor plays catch`);
  const options = Object.fromEntries(
    description[2].map(parsed).map(({ 1: [name], 2: [value] }) => [name, Number(parsed(value)[2][0])]),
  );
  const { rows, columns } = options;

  const board = message([1, "uint8"], [2, packed([rows, columns, 1])]);
  const spec = message([1, message([1, ""], [2, board])], [2, message([1, 3])]); // one observation; three actions
  const sizes = packed(Array(groups).fill(size));
  const joined = await ask(
    connection, "Join", message([1, PROTOCOL_VERSION], [2, randomUUID()], [3, spec], [4, sizes]),
  );
  console.log(`joined with ${groups} groups of ${size} environments`);
  const session = joined[1][0].toString();
  await Promise.all(
    joined[2].map((_, group) => {
      const envs = Array.from({ length: size }, () => new Catch(rows, columns));
      return play(connection, session, group, envs);
    }),
  );
}

const connection = http2.connect(process.argv[2] ?? "http://localhost:50051");
const failed = (error) => {
  console.error(error.message);
  process.exit(error.message === "the run is over" ? 0 : 1);
};
connection.on("error", failed);
act(connection).catch(failed);
