// The inspector's page in a real browser.
//
//   main.mjs --program FILE --chromium FILE [--only TEXT] [--long --minutes N] [--figures --seconds N] [--rate N] [--pictures FOLDER]
//
// A line a check: `ok NAME`, or `FAILED NAME: why`; exit code 1 if one failed.

import { parseArgs } from "node:util";
import { access } from "./access.mjs";
import { launch } from "./browser.mjs";
import { figures } from "./figures.mjs";
import { canary, names } from "./hostile.mjs";
import { ends, long, search, size } from "./life.mjs";
import { pictures } from "./pictures.mjs";
import { Program } from "./program.mjs";
import { close } from "./report.mjs";
import { content, keyboard, looks } from "./views.mjs";

const { values: given } = parseArgs({ options: {
  program: { type: "string" }, chromium: { type: "string" }, only: { type: "string", default: "" },
  long: { type: "boolean", default: false }, minutes: { type: "string", default: "10" },
  figures: { type: "boolean", default: false }, seconds: { type: "string", default: "60" },
  rate: { type: "string", default: "10000" }, pictures: { type: "string" },
} });
const rate = Number(given.rate);

/// The checks of one program that has done everything.
async function checks(browser) {
  const parts = { access, size, content, looks, keyboard, names, canary };
  const wanted = Object.entries(parts).filter(([name]) => name.includes(given.only));
  if (wanted.length) {
    const program = await Program.start(given.program, ["--rate", "200"]);
    for (const word of ["relist", "names", "secret", "poison", "hot-loop", "fight", "slow"]) await program.obey(word);
    for (const [, part] of wanted) await part(browser, program);
    await program.end();
  }
  for (const [name, part] of Object.entries({ search, ends })) {
    if (name.includes(given.only)) await part(browser, given.program);
  }
  if (given.long) await long(browser, given.program, { minutes: Number(given.minutes), rate });
  return close("inspector in Chromium");
}

const browser = await launch(given.chromium);
try {
  console.log(await browser.version());
  if (given.pictures) process.exitCode = await pictures(browser, given.program, given.pictures) ? 1 : 0;
  else if (given.figures) await figures(browser, given.program, { rate, seconds: Number(given.seconds) });
  else process.exitCode = await checks(browser);
} finally {
  await browser.close();
}
// What a failed start left behind ends with this process.
process.exit();
