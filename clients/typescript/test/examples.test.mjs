// The shop and its worker, on PostgreSQL.

import assert from "node:assert/strict";
import test from "node:test";
import pg from "pg";
import { Door, freePort, listens, pawl, sleep, start } from "./rig.mjs";

const server = process.env.PAWL_TEST_POSTGRES;

test("a shop and a worker", { skip: server ? false : "PAWL_TEST_POSTGRES is not set" }, async (t) => {
  const name = "shop_" + process.pid + "_" + Date.now();
  const admin = new pg.Client(server);
  await admin.connect();
  await admin.query("CREATE DATABASE " + name);
  t.after(async () => {
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`);
    await admin.end();
  });
  const url = new URL(server);
  url.pathname = name;
  pawl("migrate", "up", "--store", url.href);
  const door = await Door.open(t, url.href);
  const port = await freePort();
  start(t, process.execPath, ["examples/shop.mjs", url.href, port]);
  await listens(port);
  start(t, process.execPath, ["examples/worker.mjs"], { env: { ...process.env, PAWL_API: door.url } });
  const orders = [["ann", 10, 201], ["nobody", 1, 201], ["bank", 2, 201], ["flaky", 3, 201], ["thief", 0, 400]];
  for (const [customer, total, status] of orders) {
    const r = await fetch(`http://127.0.0.1:${port}/orders`, { method: "POST", body: JSON.stringify({ customer, total }) });
    assert.equal(r.status, status, customer);
  }
  const figures = async () => {
    const topics = await (await fetch(door.url + "/v1/topics")).json();
    const of = (topic) => topics.find((x) => x.topic === topic) ?? {};
    const orders = of("orders");
    return [orders.appended_total, orders.acked_total, orders.dead, of("shipped").waiting];
  };
  for (const end = Date.now() + 60_000; (await figures())[3] !== 3 && Date.now() < end;) await sleep(100);
  assert.deepEqual(await figures(), [4, 3, 1, 3]);
});
