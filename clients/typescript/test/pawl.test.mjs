// Tests of the client against a built pawl, whose processes are killed.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { join } from "node:path";
import test from "node:test";
import { Client, Permanent, Problem, Worker } from "pawl";
import { Door, folder, sleep } from "./rig.mjs";

async function doors(t) {
  const store = "sqlite:" + join(folder(t), "pawl.db");
  return [await Door.open(t, store), await Door.open(t, store)];
}

test("nothing is lost and nothing stored twice while two APIs are killed in turns; keys keep their order", async (t) => {
  const both = await doors(t);
  const client = new Client(both.map((d) => d.url), { patience: 60 });
  const seen = new Map();
  const worker = new Worker(client, { lease: 3 });
  worker.topic("work", async (d) => {
    const [key, n] = d.text().split(" ");
    if (d.attempt === 1 && Math.random() < 0.05) throw new Error("once more");
    await sleep(5);
    seen.set(key, [...(seen.get(key) ?? []), Number(n)]);
  }, { concurrency: 4 });
  const running = worker.run();
  let killing = true;
  const killer = (async () => {
    while (killing) {
      await sleep(700);
      const d = both[Math.floor(Math.random() * 2)];
      await d.kill();
      await d.start();
    }
  })();
  const want = 150;
  const ids = new Set();
  for (let n = 0; n < want; n++) ids.add((await client.send("work", `k${n % 5} ${n}`, { key: `k${n % 5}` })).id);
  killing = false;
  await killer;
  assert.equal(ids.size, want);
  const done = () => [...seen.values()].reduce((sum, all) => sum + new Set(all).size, 0);
  for (const end = Date.now() + 90_000; done() < want && Date.now() < end;) await sleep(50);
  worker.stop();
  await running;
  assert.equal(done(), want);
  for (const [key, all] of seen) {
    const first = [...new Set(all)];
    assert.deepEqual(first, first.toSorted((a, b) => a - b), "order of " + key);
  }
});

test("a server that cut the headers of a request off says 400 without a document: the request is repeated", async (t) => {
  const asked = [];
  const server = createServer((q, r) => {
    asked.push(q.headers["idempotency-key"]);
    if (asked.length === 1) r.writeHead(400).end("400 Bad Request");
    else r.writeHead(201).end('{"id":"m"}');
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  t.after(() => server.close());
  const { id } = await new Client(`http://127.0.0.1:${server.address().port}`).send("mail", "x");
  assert.equal(id, "m");
  assert.equal(asked[0], asked[1]);
});

test("verdicts, emits, and what is invalid", async (t) => {
  const [door] = await doors(t);
  const client = new Client(door.url);
  const worker = new Worker(client, { lease: 5 });
  let shipped;
  const done = new Promise((resolve) => (shipped = resolve));
  worker.topic("mail", (d) => {
    if (d.json().to === "nobody") throw new Permanent("no such address");
    d.emit("sent", new Uint8Array([0, 255]));
  });
  worker.topic("sent", (d) => shipped([...d.body]));
  await client.sendMany([{ topic: "mail", body: { to: "nobody" } }, { topic: "mail", body: { to: "ann" } }]);
  const running = worker.run();
  assert.deepEqual(await done, [0, 255]);
  worker.stop();
  await running;
  const letters = await (await fetch(door.url + "/v1/dead")).json();
  assert.deepEqual(letters.map((l) => [l.kind, l.reason]), [["Permanent", "no such address"]]);
  await assert.rejects(client.send("mail", "x", { priority: 101 }),
    (e) => e instanceof Problem && e.status === 422 && e.fields[0].field === "priority");
});
