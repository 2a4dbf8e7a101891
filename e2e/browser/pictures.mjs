// Pictures of the page for the documents, of the program that the checks look at.

import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Tab } from "./browser.mjs";
import { Program } from "./program.mjs";

// BOUND: a picture in the repository.
const MOST_BYTES = 200_000;
const SIZES = { pipeline: { width: 1200, height: 1180 }, problems: { width: 1200, height: 800 } };
const PICTURES = [["pipeline", "light"], ["pipeline", "dark"], ["problems", "light"], ["problems", "dark"]];

export async function pictures(browser, path, folder) {
  mkdirSync(folder, { recursive: true });
  const program = await Program.start(path, ["--rate", "900"]);
  for (const word of ["relist", "poison", "hot-loop", "fight", "slow"]) await program.obey(word);
  let wrong = 0;
  for (const [view, scheme] of PICTURES) {
    const tab = await Tab.open(browser, { scheme, ...SIZES[view], scale: 0.75 });
    await tab.go(program.url);
    await tab.says("live");
    await tab.show(view);
    // Lines and latencies of some seconds.
    await new Promise(go => setTimeout(go, view === "pipeline" ? 40_000 : 1_000));
    const file = join(folder, `inspector-${view}-${scheme}.png`);
    writeFileSync(file, await tab.page.screenshot());
    const { size } = statSync(file);
    console.log(`${file}: ${size} bytes`);
    if (size > MOST_BYTES) { wrong++; console.log(`${file} is larger than ${MOST_BYTES} bytes`); }
    await tab.close();
  }
  await program.end();
  return wrong;
}
