// A web shop: an order and the message about it are in one transaction, or neither is.
//
//   npm install pg
//   node shop.mjs postgres://localhost/shop 8080
//   curl -d '{"customer":"ann","total":10}' http://127.0.0.1:8080/orders
//
// The database is the shop's own and the store of `pawl api --store postgres://localhost/shop`, after `pawl migrate up`.

import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import pg from "pg";
import { sendSql } from "pawl";

const [url, port] = process.argv.slice(2);
const pool = new pg.Pool({ connectionString: url }).on("error", (why) => console.warn(why.message));
await pool.query("CREATE TABLE IF NOT EXISTS orders (number serial PRIMARY KEY, customer text, total numeric)");

async function place(order) {
  const db = await pool.connect();
  try {
    await db.query("BEGIN");
    const values = [order.customer, order.total];
    const { rows } = await db.query("INSERT INTO orders (customer, total) VALUES ($1, $2) RETURNING number", values);
    await sendSql(db, "orders", { ...rows[0], ...order }, { key: order.customer });
    if (!(order.total > 0)) throw new Error("nothing is for free");
    await db.query("COMMIT");
    return rows[0].number;
  } catch (why) {
    await db.query("ROLLBACK");
    throw why;
  } finally {
    db.release();
  }
}

createServer(async (request, response) => {
  try {
    const number = await place(await json(request));
    response.writeHead(201).end(JSON.stringify({ number }) + "\n");
  } catch (why) {
    response.writeHead(400).end(JSON.stringify({ error: why.message }) + "\n");
  }
}).listen(Number(port), "127.0.0.1");
