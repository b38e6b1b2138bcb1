// A worker on the orders of shop.mjs. It fails in three ways: for good, for now, and by mistake.
//
//   PAWL_API=http://127.0.0.1:8470 node worker.mjs

import { Client, Permanent, Throttled, Worker } from "pawl";

const worker = new Worker(new Client(), { lease: 10 });
const busy = new Set(["bank"]);

worker.topic("orders", async (d) => {
  const { customer, number } = d.json();
  if (customer === "nobody") throw new Permanent("no such customer"); // a dead letter at once
  if (busy.delete(customer)) throw new Throttled(0.5, "the bank is busy"); // again in half a second, not counted
  if (customer === "flaky" && d.attempt < 2) throw new Error("a mistake of ours"); // again when the policy says
  d.emit("shipped", { number }); // with the ack, or not at all
  console.log("shipped", customer);
}, { concurrency: 4 });

await worker.run();
