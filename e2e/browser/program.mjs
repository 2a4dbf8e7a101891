// The program that is looked at, as a process: commands to its stdin, all that it prints kept.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

// BOUND: the time for a command to have its effect.
const PATIENCE = 90_000;

export class Program {
  /// Starts it, and waits for the address of its page.
  static async start(path, flags = []) {
    const program = new Program();
    const env = { ...process.env, RUST_LOG: "debug" };
    program.child = spawn(path, flags, { env, stdio: ["pipe", "pipe", "pipe"] });
    program.said = "";
    program.lines = [];
    program.read = 0;
    program.waiting = new Set();
    createInterface({ input: program.child.stdout }).on("line", line => {
      program.lines.push(line);
      for (const look of program.waiting) look();
    });
    // BOUND: 64 MB of a log.
    program.child.stderr.on("data", text => { if (program.said.length < 64e6) program.said += text; });
    program.ended = new Promise(end => program.child.on("exit", end));
    const line = await program.line(/^url /);
    program.url = line.slice(4);
    [program.page, program.token] = program.url.split("#token=");
    program.origin = new URL(program.url).origin;
    program.port = Number(new URL(program.url).port);
    return program;
  }

  /// The next line that matches; lines before it are not looked at again.
  line(pattern) {
    return new Promise((found, fail) => {
      const timer = setTimeout(() => done(fail, new Error(`no line ${pattern}: ${this.said.slice(-2000)}`)), PATIENCE);
      const look = () => {
        const at = this.lines.findIndex((one, at) => at >= this.read && pattern.test(one));
        if (at < 0) return;
        this.read = at + 1;
        done(found, this.lines[at]);
      };
      const done = (call, value) => { clearTimeout(timer); this.waiting.delete(look); call(value); };
      this.waiting.add(look);
      this.ended.then(code => done(fail, new Error(`it ended (${code}): ${this.said.slice(-2000)}`)));
      look();
    });
  }

  /// Has it do what a word says.
  async obey(word) {
    this.child.stdin.write(word + "\n");
    const line = await this.line(new RegExp(`^(done|failed) ${word}\\b`));
    if (line.startsWith("failed")) throw new Error(line);
  }

  /// Ends it in order.
  async end() {
    this.child.stdin.end("end\n");
    return this.ended;
  }

  /// Kills it.
  async kill() {
    this.child.kill("SIGKILL");
    return this.ended;
  }

  /// All that it has printed, but for the address, which it prints on purpose.
  printed() {
    return this.lines.filter(line => !line.startsWith("url ")).join("\n") + this.said;
  }

  /// The reply to a GET of a view.
  async get(path, headers = { authorization: `Bearer ${this.token}` }) {
    const reply = await fetch(`${this.page}v1/${path}`, { headers });
    return { status: reply.status, text: await reply.text() };
  }

  /// The same, as JSON.
  async json(path) {
    const { status, text } = await this.get(path);
    if (status !== 200) throw new Error(`${path}: ${status} ${text}`);
    return JSON.parse(text);
  }

  /// The first events of a stream.
  async events(query, milliseconds = 1200) {
    const abort = new AbortController();
    const headers = { authorization: `Bearer ${this.token}` };
    const reply = await fetch(`${this.page}v1/events?${query}`, { headers, signal: abort.signal });
    setTimeout(() => abort.abort(), milliseconds);
    let text = "";
    try {
      for await (const piece of reply.body.pipeThrough(new TextDecoderStream())) text += piece;
    } catch { /* It was long enough. */ }
    return text;
  }

  /// The seconds of a processor that it has used.
  seconds() {
    return secondsOf(this.child.pid);
  }
}

/// The seconds of a processor that a process has used; 0 if it is gone.
export function secondsOf(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
    // In ticks: 100 a second on Linux.
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return 0;
  }
}
