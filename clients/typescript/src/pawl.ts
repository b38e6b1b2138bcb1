/** Send messages to Pawl, and work on them, over its HTTP API. */

import { hostname } from "node:os";

/** The fields of a message besides its topic and body. */
export interface Options {
  id?: string;
  key?: string;
  key_base64?: string;
  priority?: number;
  headers?: Record<string, string>;
  delay_seconds?: number;
  retry_for_seconds?: number;
  attempts?: number;
  timeout_seconds?: number;
  not_before?: string;
  unique?: { key: string; scope?: string; for_seconds?: number; until_claimed?: boolean };
}

/** A message, as sendMany takes it: its body is a text, bytes, or anything else as JSON. */
export interface Message extends Options {
  topic: string;
  body?: unknown;
}

export interface Receipt {
  id: string;
  duplicate_of?: string;
  error?: string;
}

/** An answer that is not a success. */
export class Problem extends Error {
  readonly status: number;
  readonly next: string;
  readonly fields: { field: string; why: string }[];

  constructor(status: number, document: Record<string, any>) {
    super(`${status} ${document.title ?? ""}: ${document.detail ?? ""}`);
    this.name = "Problem";
    this.status = status;
    this.next = document.next ?? "";
    this.fields = document.fields ?? [];
  }
}

/** The API did not answer for as long as the client was patient. */
export class Unavailable extends Error {
  override name = "Unavailable";
}

/** The work fails, and no repetition will help. */
export class Permanent extends Error {
  override name = "Permanent";
}

/** The other side wants to be asked again after that many seconds. */
export class Throttled extends Error {
  override name = "Throttled";
  readonly after: number;

  constructor(after: number, reason = "throttled") {
    super(reason);
    this.after = after;
  }
}

/** Give the message back, uncounted, for that many seconds. */
export class Release extends Error {
  override name = "Release";
  readonly after: number;

  constructor(after = 0, reason = "released") {
    super(reason);
    this.after = after;
  }
}

function message(topic: string | undefined, body: unknown, options: Options): Record<string, unknown> {
  const m: Record<string, unknown> = { ...options };
  if (topic !== undefined) m.topic = topic;
  if (typeof body === "string") m.body = body;
  else if (body instanceof Uint8Array) m.body_base64 = Buffer.from(body).toString("base64");
  else if (body !== undefined && body !== null) m.json = body;
  return m;
}

const sleep = (seconds: number) => new Promise<void>((done) => setTimeout(done, seconds * 1000));

/** A client of one API, or of several that serve the same store. */
export class Client {
  readonly urls: string[];
  readonly token: string | undefined;
  readonly patience: number;

  /** patience is for how many seconds a call is repeated. */
  constructor(url?: string | string[], options: { token?: string; patience?: number } = {}) {
    const urls = url === undefined || url.length === 0 ? (process.env.PAWL_API ?? "http://127.0.0.1:8470") : url;
    this.urls = (typeof urls === "string" ? [urls] : urls).map((u) => u.replace(/\/+$/, ""));
    this.token = options.token ?? process.env.PAWL_TOKEN;
    this.patience = options.patience ?? 60;
  }

  /** Append a message; it is durable when this resolves. */
  async send(topic: string, body?: unknown, options: Options = {}): Promise<Receipt> {
    return this.call(`/v1/topics/${encodeURIComponent(topic)}/messages`, message(undefined, body, options), { once: true });
  }

  /** Append up to 10,000 messages, each with its topic, in order. */
  async sendMany(messages: Message[]): Promise<Receipt[]> {
    const all = messages.map(({ topic, body, ...options }) => message(topic, body, options));
    return (await this.call("/v1/messages", all, { once: true })).receipts;
  }

  /** Post JSON. What failed on the way, or is to be tried later, is repeated with one Idempotency-Key. */
  async call(path: string, body: unknown, how: { once?: boolean; timeout?: number; patience?: number } = {}): Promise<any> {
    const headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json" };
    if (this.token) headers.Authorization = "Bearer " + this.token;
    if (how.once) headers["Idempotency-Key"] = crypto.randomUUID();
    const text = JSON.stringify(body);
    const end = performance.now() + (how.patience ?? this.patience) * 1000;
    for (let pause = 0.05; ; pause = Math.min(pause * 2, 5)) {
      let error: Error;
      let cut = false;
      let wait = pause * (0.5 + Math.random() / 2);
      const url = this.urls[Math.floor(Math.random() * this.urls.length)]!;
      try {
        const signal = AbortSignal.timeout((how.timeout ?? 40) * 1000);
        const r = await fetch(url + path, { method: "POST", headers, body: text, signal });
        const answer = await r.text();
        if (r.ok) return JSON.parse(answer);
        const document = parsed(answer);
        error = new Problem(r.status, document);
        cut = r.status === 400 && document.status === undefined; // the headers took over a second to arrive
        const after = Number(r.headers.get("Retry-After"));
        if (after > 0) wait = after;
      } catch (failed) {
        error = failed as Error;
      }
      if (error instanceof Problem && !cut && ![408, 429, 502, 503, 504].includes(error.status)) throw error;
      if (performance.now() + wait * 1000 > end) {
        throw error instanceof Problem ? error : new Unavailable(String(error.cause ?? error), { cause: error });
      }
      await sleep(wait);
    }
  }
}

function parsed(text: string): Record<string, any> {
  try {
    const document = JSON.parse(text);
    if (document !== null && typeof document === "object") return document;
  } catch {
    // a proxy has answered
  }
  return { title: text.slice(0, 200) };
}

/** What sendSql needs of a client of PostgreSQL, such as that of the package pg. */
export interface Database {
  query(text: string, values: unknown[]): Promise<{ rows: any[] }>;
}

/**
 * Append a message in the transaction of a client of PostgreSQL: it exists if, and only if, that commits. `pawl migrate up`
 * has installed pawl_send there.
 */
export async function sendSql(db: Database, topic: string, body: unknown, options: Record<string, unknown> = {}): Promise<string> {
  const { key, ...rest } = options;
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const values = [topic, text, key ?? null, JSON.stringify(rest)];
  return (await db.query("select pawl_send($1, $2::text, $3, $4::jsonb) as id", values)).rows[0].id;
}

/** A message that is being worked on. */
export class Delivery {
  readonly id: string;
  readonly topic: string;
  readonly key: string | null;
  readonly attempt: number;
  readonly priority: number;
  readonly headers: Record<string, string>;
  readonly body: Uint8Array;
  readonly token: string;
  readonly deadlineSeconds: number;
  /** How long the lane stays closed after this message. */
  holdSeconds = 0;
  readonly emits: Record<string, unknown>[] = [];
  readonly #gone = new AbortController();

  constructor(d: Record<string, any>) {
    this.id = d.id;
    this.topic = d.topic;
    this.key = d.key;
    this.attempt = d.attempt;
    this.priority = d.priority;
    this.headers = d.headers;
    this.body = "body_base64" in d ? Buffer.from(d.body_base64, "base64") : Buffer.from(d.body);
    this.token = d.token;
    this.deadlineSeconds = d.deadline_seconds;
  }

  /** Aborted when the lease is gone: somebody else works on the message by now. */
  get lost(): AbortSignal {
    return this.#gone.signal;
  }

  lose(): void {
    this.#gone.abort();
  }

  text(): string {
    return Buffer.from(this.body).toString();
  }

  json(): any {
    return JSON.parse(this.text());
  }

  /** Append a message if, and only if, this one is acked. */
  emit(topic: string, body?: unknown, options: Options = {}): void {
    this.emits.push(message(topic, body, options));
  }
}

export type Handler = (d: Delivery) => unknown;

/** Works on topics until it is stopped. */
export class Worker {
  readonly client: Client;
  readonly name: string;
  readonly lease: number;
  readonly #topics: { name: string; concurrency: number; handler: Handler }[] = [];
  readonly #held = new Map<string, Delivery>();
  readonly #verdicts: Record<string, unknown>[] = [];
  #bell: () => void = () => {};
  #stopping = false;
  #done = false;

  /** lease is how many seconds a message is held without a sign of life. */
  constructor(client: Client, options: { name?: string; lease?: number } = {}) {
    this.client = client;
    this.name = options.name ?? `${hostname()}/${process.pid}`;
    this.lease = options.lease ?? 30;
  }

  /** Names the function that works on a topic, and how many messages it works on at once. */
  topic(name: string, handler: Handler, options: { concurrency?: number } = {}): this {
    this.#topics.push({ name, concurrency: options.concurrency ?? 1, handler });
    return this;
  }

  /** Lets what is being worked on end, and takes no more. */
  stop = (): void => {
    this.#stopping = true;
  };

  /** Works until stop, SIGTERM or SIGINT. */
  async run(): Promise<void> {
    process.on("SIGTERM", this.stop).on("SIGINT", this.stop);
    const beat = setInterval(() => void this.#beat(), (this.lease * 1000) / 3);
    const settled = this.#settle();
    try {
      const lanes = this.#topics.flatMap((t) => Array.from({ length: t.concurrency }, () => this.#lane(t.name, t.handler)));
      await Promise.all(lanes);
    } finally {
      this.#done = true;
      this.#bell();
      await settled;
      clearInterval(beat);
      process.off("SIGTERM", this.stop).off("SIGINT", this.stop);
    }
  }

  async #lane(topic: string, handler: Handler): Promise<void> {
    const want = { topics: [topic], limit: 1, wait_seconds: 2, lease_seconds: this.lease, worker: this.name };
    while (!this.#stopping) {
      try {
        const got = await this.client.call("/v1/lease", want, { timeout: 20 });
        for (const d of got.deliveries) await this.#work(new Delivery(d), handler);
      } catch (why) {
        console.warn("pawl: no lease:", why);
        if (why instanceof Problem) await sleep(1);
      }
    }
  }

  async #work(d: Delivery, handler: Handler): Promise<void> {
    this.#held.set(d.token, d);
    const verdict = await this.#handle(d, handler);
    this.#held.delete(d.token);
    if (d.lost.aborted) return;
    this.#verdicts.push({ token: d.token, ...verdict, ...(d.holdSeconds > 0 && { hold_seconds: d.holdSeconds }) });
    this.#bell();
  }

  async #handle(d: Delivery, handler: Handler): Promise<Record<string, unknown>> {
    if (this.#stopping) return { verdict: "release" };
    try {
      await handler(d);
    } catch (e) {
      const error = e instanceof Error ? e.message : String(e);
      if (e instanceof Release) return { verdict: "release", after_seconds: e.after, error };
      if (e instanceof Throttled) return { verdict: "fail", class: "throttled", after_seconds: e.after, error };
      const kind = e instanceof Error ? e.name : "Error";
      return { verdict: "fail", kind, error, ...(e instanceof Permanent && { class: "permanent" }) };
    }
    return { verdict: "ack", ...(d.emits.length > 0 && { emit: d.emits }) };
  }

  /** Sends verdicts, many at a time while a call is on its way. */
  async #settle(): Promise<void> {
    for (;;) {
      const settlements = this.#verdicts.splice(0, 500);
      if (settlements.length === 0) {
        if (this.#done) return;
        await new Promise<void>((rung) => (this.#bell = rung));
        continue;
      }
      try {
        const got = await this.client.call("/v1/settle", { settlements }, { once: true, patience: this.lease });
        for (const r of got.results) {
          if (r.action === "lost" || r.action === "refused") {
            console.warn(`pawl: a verdict is ${r.action}: ${r.error ?? "its lease had ended"}`);
          }
        }
      } catch (why) {
        console.warn(`pawl: ${settlements.length} verdicts are not settled, the messages come back:`, why);
      }
    }
  }

  /** Extends the leases of what is being worked on. */
  async #beat(): Promise<void> {
    const tokens = [...this.#held.keys()];
    if (tokens.length === 0) return;
    const third = this.lease / 3;
    try {
      const got = await this.client.call("/v1/extend", { tokens, by_seconds: this.lease }, { timeout: third, patience: third });
      for (const token of got.lost) this.#held.get(token)?.lose();
    } catch (why) {
      console.warn("pawl: leases are not extended:", why);
    }
  }
}
