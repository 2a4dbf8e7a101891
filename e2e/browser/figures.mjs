// The cost of a page that is open: processor time of the program, and of the browser.
//
// Pairs of windows, without a page and with one, so that other work on the machine meets both.

import { Tab, secondsOfBrowser } from "./browser.mjs";
import { Program } from "./program.mjs";
import { median } from "./report.mjs";

const PAIRS = 3;
const pause = seconds => new Promise(go => setTimeout(go, seconds * 1000));

export async function figures(browser, path, { rate, seconds }) {
  const program = await Program.start(path, ["--rate", String(rate)]);
  const blank = await Tab.open(browser);
  await blank.go("about:blank");
  await pause(2);
  const measure = async () => {
    const [of, all, began] = [program.seconds(), secondsOfBrowser(browser), performance.now()];
    await pause(seconds);
    const took = (performance.now() - began) / 1000;
    return { program: (program.seconds() - of) / took, browser: (secondsOfBrowser(browser) - all) / took };
  };
  const pairs = [];
  for (let pair = 0; pair < PAIRS; pair++) {
    const without = await measure();
    const tab = await Tab.open(browser);
    await tab.go(program.url);
    await tab.says("live");
    await pause(1);
    const open = await measure();
    if (await tab.page.evaluate(() => document.hidden)) throw new Error("the page was not seen, and drew nothing");
    await tab.close();
    await pause(1);
    pairs.push([without, open]);
    const percent = value => `${(100 * value).toFixed(2)} %`;
    console.log(`pair ${pair + 1}: program ${percent(without.program)} without a page, ${percent(open.program)} with one; browser ${percent(without.browser)} and ${percent(open.browser)} of a core`);
  }
  const { informers } = await program.json("pipeline");
  await program.json("pipeline");
  await pause(2);
  const seen = (await program.json("pipeline")).informers.find(one => one.cache === "widgets.example.com").deltas.per_second;
  const more = what => (100 * median(pairs.map(([without, open]) => open[what] - without[what]))).toFixed(2);
  console.log(`events a second: ${Math.round(seen ?? 0)} of ${rate}; ${informers.length} informers`);
  console.log(`RESULT | an open page at ${rate} events a second | embedded | program ${more("program")} %, browser ${more("browser")} % of a core ` +
    `(above a blank page; medians of ${PAIRS} pairs of ${seconds} s) |`);
  await blank.close();
  await program.end();
}
