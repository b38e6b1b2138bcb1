import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const binary = process.env.PAWL_BINARY ?? new URL("../../../bin/pawl", import.meta.url).pathname;

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** A folder that is removed after a test. */
export function folder(t) {
  const dir = mkdtempSync(join(tmpdir(), "pawl-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A port that is free, and below those that the system gives to connections: one of them could take it any time. */
export async function freePort() {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 10_000);
    const server = createServer().listen(port, "127.0.0.1");
    try {
      await once(server, "listening");
      await new Promise((closed) => server.close(closed));
      return port;
    } catch (error) {
      if (error.code !== "EADDRINUSE") throw error;
    }
  }
}

/** Resolves when something listens at a port. */
export async function listens(port) {
  for (let n = 0; n < 400; n++) {
    const socket = connect(port, "127.0.0.1");
    try {
      await once(socket, "connect");
      return;
    } catch {
      await sleep(50);
    } finally {
      socket.destroy();
    }
  }
  throw new Error(`nothing listens at ${port}`);
}

/** A process that is killed after a test. */
export function start(t, command, args, options = {}) {
  const child = spawn(command, args, { stdio: ["ignore", "ignore", "inherit"], ...options });
  t.after(() => child.kill("SIGKILL"));
  return child;
}

/** Runs pawl, and returns what it prints. */
export function pawl(...args) {
  const { status, stdout, stderr } = spawnSync(binary, args, { encoding: "utf8" });
  if (status !== 0) throw new Error(`pawl ${args.join(" ")}: ${stderr}`);
  return stdout;
}

/** A pawl api on a port of its own. */
export class Door {
  static async open(t, store) {
    const d = new Door();
    Object.assign(d, { t, store, port: await freePort() });
    d.url = `http://127.0.0.1:${d.port}`;
    await d.start();
    return d;
  }

  async start() {
    this.process = start(this.t, binary, ["api", "--listen", `127.0.0.1:${this.port}`, "--store", this.store],
      { cwd: tmpdir(), stdio: "ignore" });
    this.ended = once(this.process, "exit");
    await Promise.race([listens(this.port), this.ended]);
    const code = this.process.exitCode;
    if (code !== null) throw new Error(`pawl api ended with exit code ${code}`);
  }

  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }
}
