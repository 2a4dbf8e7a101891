// Lines of results: `ok NAME` or `FAILED NAME: why`, counted.

let passed = 0;
const failed = [];

/// Runs one check. It fails by an exception.
export async function check(name, run) {
  try {
    const detail = await run();
    passed++;
    console.log(`ok ${name}${detail ? ` (${detail})` : ""}`);
  } catch (error) {
    failed.push(name);
    console.log(`FAILED ${name}: ${error.message.split("\n").slice(0, 12).join(" | ")}`);
  }
}

/// Fails the check.
export function demand(holds, why) {
  if (!holds) throw new Error(typeof why === "function" ? why() : why);
}

/// Prints the row of the table, and returns the exit code.
export function close(what) {
  console.log(`RESULT | ${what} | embedded | ${passed} checks passed, ${failed.length} failed |`);
  for (const name of failed) console.log(`failed: ${name}`);
  return failed.length || !passed ? 1 : 0;
}

/// Waits until something holds; returns it.
export async function until(what, holds, limit = 20_000) {
  const end = Date.now() + limit;
  for (;;) {
    const found = await holds();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what}: not within ${limit} ms`);
    await new Promise(go => setTimeout(go, 50));
  }
}

/// The value in the middle.
export const median = values => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
