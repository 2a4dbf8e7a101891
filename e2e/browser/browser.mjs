// Chromium without a window, and pages that tell everything that went wrong in them.

import { readdirSync, readFileSync } from "node:fs";
import axe from "axe-core";
import puppeteer from "puppeteer-core";
import { secondsOf } from "./program.mjs";
import { until } from "./report.mjs";

export const VIEWS = ["pipeline", "caches", "queues", "objects", "memory", "problems"];

/// A text that each view has as soon as it is drawn.
const DRAWN = { pipeline: "Queue → reconcile", caches: "Handlers and streams", queues: "Now", objects: " objects", object: "Managers of fields",
  memory: "By cache", problems: "What to do" };

/// Starts the browser.
export function launch(path, flags = []) {
  const args = ["--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars=false", "--lang=en-US", ...flags];
  // Its sandbox does not run as root, as in a container.
  if (process.getuid() === 0) args.push("--no-sandbox");
  return puppeteer.launch({ executablePath: path, headless: true, args });
}

/// A tab of a context of its own, that keeps what went wrong.
export class Tab {
  static async open(browser, { width = 1280, height = 900, scale = 1, scheme = "light", origin = null } = {}) {
    const tab = new Tab();
    tab.context = await browser.createBrowserContext();
    tab.page = await tab.context.newPage();
    tab.faults = [];
    tab.foreign = [];
    const { page } = tab;
    await page.setViewport({ width, height, deviceScaleFactor: scale });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.evaluateOnNewDocument(() => {
      addEventListener("securitypolicyviolation", event => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
    });
    page.on("console", line => { if (["error", "warn", "assert"].includes(line.type())) tab.faults.push(`console: ${line.text()}`); });
    page.on("pageerror", error => tab.faults.push(`error: ${error.message}`));
    page.on("dialog", dialog => { tab.faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    if (origin) {
      await page.setRequestInterception(true);
      page.on("request", request => {
        const url = request.url();
        if (url.startsWith(origin + "/") || url === "data:,") return request.continue();
        tab.foreign.push(url);
        request.abort();
      });
    }
    return tab;
  }

  /// Goes to an address; a stream never ends, so the page is ready when it shows something.
  async go(url) {
    await this.page.goto(url, { waitUntil: "domcontentloaded" });
  }

  /// Shows a view, and waits until it has been drawn.
  async show(view, query = "") {
    await this.page.evaluate(to => {
      if (location.hash === to) return dispatchEvent(new HashChangeEvent("hashchange"));
      // The page hears it before this does.
      return new Promise(heard => {
        addEventListener("hashchange", heard, { once: true });
        location.hash = to;
      }).then(() => null);
    }, `#/${view}${query}`);
    await this.has(wanted => document.querySelector("main").textContent.includes(wanted), `${view} is drawn`, DRAWN[view]);
  }

  /// Clicks an element, which may be drawn again before the pointer is there.
  async click(selector) {
    await until(`a click on ${selector}`, () => this.page.click(selector).then(() => true, () => false));
  }

  /// Waits until a function in the page returns true.
  async has(holds, what, ...values) {
    // A page that navigates has no document for a moment.
    await until(what, () => this.page.evaluate(holds, ...values).catch(() => false));
  }

  /// Waits until the view has these texts.
  async says(...texts) {
    const missing = wanted => {
      const text = document.body.innerText.replace(/\s+/g, " ");
      return wanted.filter(one => !text.includes(one));
    };
    let left = texts;
    await until("texts", async () => (left = await this.page.evaluate(missing, texts).catch(() => texts)).length === 0)
      .catch(async () => {
        const text = await this.text();
        throw new Error(`not there: ${JSON.stringify(left)} in ${JSON.stringify(text.replace(/\s+/g, " ").slice(0, 1500))}`);
      });
  }

  text() {
    return this.page.evaluate(() => document.body.innerText);
  }

  /// Serious and critical faults of accessibility.
  async unfit() {
    await this.page.evaluate(axe.source);
    const found = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    if (found.passes.length < 10) throw new Error(`axe looked at ${found.passes.length} rules only`);
    return found.violations
      .filter(one => one.impact === "serious" || one.impact === "critical")
      .map(one => `${one.id}: ${one.nodes.slice(0, 3).map(node => `${node.target} ${node.failureSummary.split("\n").at(-1).trim()}`).join("; ")}`);
  }

  /// Bytes of the heap after a collection of garbage.
  async heap() {
    const tools = this.tools ??= await this.page.createCDPSession();
    await tools.send("HeapProfiler.enable");
    await tools.send("HeapProfiler.collectGarbage");
    await tools.send("HeapProfiler.collectGarbage");
    return (await tools.send("Runtime.getHeapUsage")).usedSize;
  }

  close() {
    return this.context.close();
  }
}

/// The seconds of a processor that all processes of the browser have used.
export function secondsOfBrowser(browser) {
  const root = browser.process().pid;
  const parents = new Map();
  for (const pid of readdirSync("/proc").filter(name => /^\d+$/.test(name))) {
    try {
      parents.set(Number(pid), Number(readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ")[1]));
    } catch { /* It is gone. */ }
  }
  const isOurs = pid => pid === root || (parents.has(pid) && parents.get(pid) > 1 && isOurs(parents.get(pid)));
  return [...parents.keys()].filter(isOurs).reduce((sum, pid) => sum + secondsOf(pid), 0);
}
