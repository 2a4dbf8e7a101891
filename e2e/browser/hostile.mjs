// Names that are HTML, scripts and control characters; a Secret's value.

import { Tab } from "./browser.mjs";
import { check, demand } from "./report.mjs";

const CANARY = "c4nary-value-of-a-secret";
/// As it is, in base64 at each of its three offsets, and in hexadecimal.
const FORMS = [CANARY, ...["", "x", "xx"].map(before => Buffer.from(before + CANARY).toString("base64").slice(4, 28)), Buffer.from(CANARY).toString("hex")];
/// A character that a page shows as an escape.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;

/// Runs in the page: finds elements that no view makes, and attributes that run something.
const made = () => {
  const known = new Set(("a body button caption code dd div dl dt footer form h1 h2 h3 head header html i input kbd label li link main meta nav " +
    "noscript ol option p path pre script section select span strong style svg table tbody td th thead title tr ul").split(" "));
  const wrong = [];
  for (const one of document.querySelectorAll("*")) {
    if (!known.has(one.localName)) wrong.push(`<${one.localName}>`);
    for (const { name, value } of one.attributes) {
      if (/^on/.test(name) || (/^(href|src|action)$/.test(name) && !/^(#|data:,$)/.test(value))) wrong.push(`${one.localName} ${name}=${value}`);
    }
  }
  if (document.querySelectorAll("script").length !== 1 || document.querySelectorAll("style").length !== 1) wrong.push("scripts or styles");
  if (document.querySelectorAll("#main").length !== 1) wrong.push("a second #main");
  return wrong;
};

export async function names(browser, program) {
  const tab = await Tab.open(browser, { origin: program.origin });
  await tab.go(program.url);
  await tab.says("live");
  const found = await program.json("objects?cache=widgets.example.com&namespace=hostile");
  const sound = async where => {
    const wrong = await tab.page.evaluate(made);
    demand(wrong.length === 0, () => `${where}: ${wrong.slice(0, 5)}`);
    const text = await tab.text();
    const odd = ODD.exec(text);
    demand(!odd, () => `${where}: the character ${odd[0].charCodeAt(0).toString(16)} as it is`);
  };
  await check("200 hostile names are text in a list", async () => {
    demand(found.found === 200, `${found.found} objects`);
    await tab.show("objects", "?cache=widgets.example.com&q=hostile/");
    await tab.says("200 of");
    await sound("the list");
    const rows = await tab.page.evaluate(() => document.querySelectorAll("main tbody tr").length);
    demand(rows === 200, `${rows} rows`);
    const text = await tab.text();
    for (const start of ["<img src=x onerror=alert(1)>#", "<script>alert(1)<\u2215script>#", "\\u202etxt.exe\\u202c"]) demand(text.includes(start), `${start} is not shown`);
  });
  await check("200 hostile texts are text as name, label, annotation, owner and value", async () => {
    const shown = text => text.replace(new RegExp(ODD, "g"), c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
    const wanted = object => {
      const { name } = object;
      // The text of a heading, as a browser draws its white space.
      return shown("hostile/" + name).replace(/\s+/g, " ").trim();
    };
    for (const object of found.objects) {
      const query = new URLSearchParams({ cache: "widgets.example.com", namespace: "hostile", name: object.name });
      await tab.show("object", "?" + query);
      await tab.has(text => document.querySelector("h2")?.textContent.replace(/\s+/g, " ").trim() === text, `${JSON.stringify(object.name)}`, wanted(object));
      await sound(JSON.stringify(object.name));
      const json = await tab.page.$eval("pre", pre => pre.textContent);
      // Escapes of the page are escapes of JSON, too: the object is there as it was sent.
      const read = JSON.parse(json), { text } = read.spec;
      const fields = [read.metadata.labels[text], read.metadata.annotations[text], read.metadata.ownerReferences[0].name,
        read.metadata.ownerReferences[0].kind, read.spec.list[0], read.spec[text].deep];
      demand(object.name.startsWith(text.replaceAll("/", "\u2215") + "#"), () => `${JSON.stringify(text)} is not that of the name`);
      demand(fields.every(field => field === text), () => `${JSON.stringify(text)} became ${JSON.stringify(fields)}`);
    }
    return `${found.objects.length} objects`;
  });
  await check("hostile names are text in queues and memory", async () => {
    for (const [view, query] of [["queues", "?controller=planner&q=hostile/"], ["memory", "?cache=widgets.example.com"], ["problems", ""], ["pipeline", ""], ["caches", ""]]) {
      await tab.show(view, query);
      await sound(view);
    }
  });
  await check("hostile names forge no event, run nothing and ask nobody", async () => {
    const text = await program.events("view=queues&controller=planner&q=hostile/");
    const kinds = new Set([...text.matchAll(/^event: (.*)$/gm)].map(match => match[1]));
    demand([...kinds].join() === "queues", () => `events: ${[...kinds]}`);
    demand(tab.faults.length === 0, () => tab.faults.slice(0, 3).join("; "));
    demand(tab.foreign.length === 0, () => `requests to ${tab.foreign}`);
  });
  await tab.close();
}

export async function canary(browser, program) {
  const whole = [];
  const keep = (where, text) => whole.push([where, text]);
  const object = "cache=secrets&namespace=default&name=guarded";
  const tab = await Tab.open(browser);
  await tab.go(program.url);
  await tab.says("live");
  await check("a Secret is shown without its values", async () => {
    await tab.show("object", `?${object}`);
    await tab.says("default/guarded", "(hidden)", "password");
    await program.obey("secret");
    await tab.says("data.password", "metadata.annotations");
    await tab.click("button[data-key=managers]");
    await tab.has(() => document.querySelector("[data-scroll=managers]"), "managers");
    keep("the object's page", await tab.page.content() + await tab.text());
  });
  await check("a Secret's value is in no page, JSON, stream or log", async () => {
    for (const [view, query] of [["pipeline", ""], ["caches", ""], ["queues", ""], ["objects", "?cache=secrets"], ["memory", "?cache=secrets"], ["problems", ""]]) {
      await tab.show(view, query);
      keep(`page ${view}`, await tab.page.content() + await tab.text());
    }
    for (const path of ["pipeline", "caches", "queues", "queues?controller=planner", "objects", "objects?cache=secrets", "memory", "memory?cache=secrets", "problems",
      `object?${object}`, `object?${object}&managers=1`]) keep(path, (await program.get(path)).text);
    for (const view of ["pipeline", "caches", "queues", "problems", `object&${object}`]) keep(`events ${view}`, await program.events(`view=${view}`, 800));
    keep("its output", program.printed());
    for (const [where, text] of whole) {
      demand(text.length > 50 || where === "its output", `${where} is empty`);
      for (const form of FORMS) demand(!text.includes(form), `${form} is in ${where}`);
    }
    demand(!program.printed().includes(program.token), "the token is in the output");
    return `${whole.length} texts, ${whole.reduce((sum, [, text]) => sum + text.length, 0)} characters`;
  });
  await tab.close();
}
