// Time and size: the first paint, the search, a program that ends and comes back, ten minutes.

import { Tab } from "./browser.mjs";
import { Program } from "./program.mjs";
import { check, demand, median, until } from "./report.mjs";

// BOUND: what the page may weigh and take.
const PAGE_BYTES = 60_000, PAINT_MS = 300, SEARCH_MS = 100, DRAWN_MS = 500, HEAP_BYTES = 20e6;

export async function size(browser, program) {
  await check(`the page is at most ${PAGE_BYTES} bytes, and one request`, async () => {
    const reply = await fetch(program.page), bytes = (await reply.arrayBuffer()).byteLength;
    demand(bytes <= PAGE_BYTES, `${bytes} bytes`);
    const tab = await Tab.open(browser, { origin: program.origin });
    const asked = [];
    tab.page.on("request", request => { if (!request.url().includes("/v1/")) asked.push(request.url()); });
    await tab.go(program.page);
    await tab.says("A token is needed");
    demand(asked.filter(url => url.startsWith("http")).length === 1, () => `requests: ${asked}`);
    await tab.close();
    return `${bytes} bytes`;
  });
  await check(`first paint within ${PAINT_MS} ms on loopback`, async () => {
    const times = [];
    for (let round = 0; round < 5; round++) {
      const tab = await Tab.open(browser);
      await tab.go(program.url);
      await tab.says("live");
      const paint = () => tab.page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
      times.push(await until("a paint", paint));
      await tab.close();
    }
    demand(median(times) <= PAINT_MS, () => `${times.map(Math.round)} ms`);
    return `median ${Math.round(median(times))} of ${times.map(Math.round)} ms`;
  });
}

/// The search among 100,000 objects, in a program of its own.
export async function search(browser, path) {
  const program = await Program.start(path, ["--widgets", "100000"]);
  try {
    for (const [what, q] of [["nearly all match", "widget"], ["a thousand match", "shop-3/00001"], ["one matches", "widget-054321"], ["none matches", "nosuchthing"]]) {
      await check(`search among 100,000 objects within ${SEARCH_MS} ms: ${what}`, async () => {
        const times = [];
        let found;
        for (let round = 0; round < 9; round++) {
          const began = performance.now();
          found = await program.json("objects?" + new URLSearchParams({ q }));
          times.push(performance.now() - began);
        }
        demand(found.searched >= 100_000, `${found.searched} objects`);
        demand(median(times) <= SEARCH_MS, () => `median of ${times.map(Math.round)} ms`);
        return `median ${median(times).toFixed(1)} ms, ${found.found} found`;
      });
    }
    await check("search in the page: from Enter until the rows are drawn", async () => {
      const tab = await Tab.open(browser);
      await tab.go(program.url);
      await tab.show("objects");
      await tab.says("200");
      const took = await tab.page.evaluate(() => new Promise(done => {
        document.getElementById("q").value = "widget-0";
        const began = performance.now();
        new MutationObserver(() => {
          if (/ of [\d,]+ objects/.test(document.querySelector("main p")?.textContent)) done(performance.now() - began);
        }).observe(document.querySelector("main"), { childList: true, subtree: true });
        document.querySelector("form").requestSubmit();
      }));
      await tab.close();
      demand(took <= DRAWN_MS, `${Math.round(took)} ms`);
      return `${Math.round(took)} ms`;
    });
  } finally {
    await program.end();
  }
}

/// A program that ends, and another start of it at the same port.
export async function ends(browser, path) {
  const first = await Program.start(path, ["--widgets", "10"]);
  const tab = await Tab.open(browser);
  await tab.go(first.url);
  await tab.says("live");
  let second;
  await check("the page says that the program was killed", async () => {
    await first.kill();
    await tab.says("the program does not answer; trying again");
    demand(await tab.page.$eval("#link", at => at.getAttribute("role") === "status" && at.className === "bad"), "it is not a status");
  });
  await check("the program comes back at its port with another token: the page asks for it, and goes on", async () => {
    second = await Program.start(path, ["--widgets", "10", "--port", String(first.port)]);
    await tab.says("The token is not known: it is that of another start");
    await tab.page.type("#token", second.token);
    await tab.page.keyboard.press("Enter");
    await tab.says("live", "configmaps");
  });
  await check("a program that is stopped for some seconds is waited for", async () => {
    process.kill(second.child.pid, "SIGSTOP");
    await new Promise(go => setTimeout(go, 3000));
    process.kill(second.child.pid, "SIGCONT");
    await tab.says("live");
    const one = await tab.page.evaluate(() => document.querySelector("main").innerHTML);
    await tab.has(old => document.querySelector("main").innerHTML !== old, "it goes on", one);
  });
  await check("the page says that the program ended in order", async () => {
    const began = Date.now();
    const code = await second.end();
    demand(code === 0, `exit code ${code}`);
    await tab.says("the program does not answer; trying again");
    return `an end in ${Date.now() - began} ms with a page open`;
  });
  await tab.close();
}

/// Open for minutes at a rate: the heap stays small, and does not grow.
export async function long(browser, path, { minutes, rate }) {
  const program = await Program.start(path, ["--rate", String(rate)]);
  const tab = await Tab.open(browser);
  await tab.go(program.url);
  await tab.says("live");
  await check(`open for ${minutes} minutes at ${rate} events a second: at most ${HEAP_BYTES / 1e6} MB, and no growth`, async () => {
    // The lines have all their points after a minute.
    const heaps = [], steps = 10, pause = Math.max(1000, minutes * 60_000 / steps);
    for (let step = 0; step < steps; step++) {
      await new Promise(go => setTimeout(go, pause));
      await tab.says("live");
      // A page that nobody sees draws nothing.
      const before = await tab.page.$eval("svg.spark", svg => svg.outerHTML);
      await tab.has(old => !document.hidden && document.querySelector("svg.spark").outerHTML !== old, "it draws", before);
      heaps.push(await tab.heap());
    }
    const text = heaps.map(bytes => (bytes / 1e6).toFixed(1)).join(", ") + " MB";
    demand(Math.max(...heaps) <= HEAP_BYTES, text);
    const points = await tab.page.$eval("svg.spark path", path => path.getAttribute("d").split(/[ML]/).length - 1);
    demand(points > 20 && points <= 120, `${points} points of a line`);
    const [early, late] = [heaps.slice(2, 5), heaps.slice(-3)].map(median);
    demand(late <= early * 1.1 + 100_000, () => `it grows: ${text}`);
    const { informers } = await program.json("pipeline");
    return `${text}; ${points} points; ${Math.round(informers.find(one => one.cache === "widgets.example.com").deltas.per_second ?? 0)} events a second`;
  });
  await tab.close();
  await program.end();
}
