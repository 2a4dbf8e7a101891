// Access to the page: tokens, hosts, origins.

import { createServer, request } from "node:http";
import { Tab, VIEWS } from "./browser.mjs";
import { check, demand } from "./report.mjs";

/// The status of a GET with headers that `fetch` would not send.
function status(program, path, headers) {
  return new Promise((found, fail) => {
    const asked = request({ host: "127.0.0.1", port: program.port, path, headers }, reply => {
      reply.resume();
      found(reply.statusCode);
    });
    asked.on("error", fail).end();
  });
}

/// Serves a page of another origin; returns its address.
function other() {
  const server = createServer((_, reply) => reply.setHeader("content-type", "text/html").end("<title>other</title><p>other"));
  return new Promise(up => server.listen(0, "127.0.0.1", () => up({ server, url: `http://127.0.0.1:${server.address().port}/` })));
}

export async function access(browser, program) {
  await check("without a token the page asks for one and shows nothing", async () => {
    const tab = await Tab.open(browser);
    await tab.go(program.page);
    await tab.says("A token is needed", "no access");
    const text = await tab.text();
    demand(!/configmaps|widget|watched/.test(text), () => `it shows ${text}`);
    demand(await tab.page.evaluate(() => document.activeElement.id) === "token", "the field is not focused");
    await tab.close();
  });

  await check("a wrong token is refused, and the right one is taken", async () => {
    const tab = await Tab.open(browser);
    await tab.go(`${program.page}#token=wrong`);
    await tab.says("The token is not known");
    demand(!/configmaps|widget/.test(await tab.text()), "it shows something");
    await tab.page.type("#token", program.token);
    await tab.page.keyboard.press("Enter");
    await tab.says("live", "configmaps");
    await tab.close();
  });

  await check("the token leaves the address and the history, and serves this tab alone", async () => {
    const tab = await Tab.open(browser);
    await tab.go(program.url);
    await tab.says("live");
    const address = tab.page.url();
    demand(!address.includes("token"), address);
    const { currentIndex, entries } = await (await tab.page.createCDPSession()).send("Page.getNavigationHistory");
    const left = entries.slice(0, currentIndex + 1).filter(entry => entry.url.includes(program.token));
    demand(left.length === 0, () => `in the history: ${JSON.stringify(left)}`);
    await tab.page.reload({ waitUntil: "domcontentloaded" });
    await tab.says("live");
    const second = await tab.context.newPage();
    await second.goto(program.page, { waitUntil: "domcontentloaded" });
    demand((await second.evaluate(() => document.body.innerText)).includes("A token is needed"), "another tab has it");
    demand(await tab.page.evaluate(() => document.cookie + localStorage.length) === "0", "cookies, or a store that stays");
    await tab.close();
  });

  await check("a page of another origin reads nothing, with the token or without", async () => {
    const { server, url } = await other();
    for (const from of [url, "about:blank", "data:text/html,<p>other"]) {
      const tab = await Tab.open(browser);
      await tab.go(from);
      const read = await tab.page.evaluate(async (page, token) => {
        const said = [];
        for (const [what, path, options] of [
          ["with a token", "v1/caches", { headers: { authorization: "Bearer " + token } }],
          ["without", "v1/caches", {}], ["the page", "", {}], ["opaque", "v1/caches", { mode: "no-cors" }],
        ]) {
          try {
            const reply = await fetch(page + path, options);
            if (reply.type !== "opaque" || await reply.text()) said.push(what);
          } catch { /* It is refused. */ }
        }
        const frame = document.createElement("iframe");
        frame.src = page + "#token=" + token;
        document.body.append(frame);
        await new Promise(go => { frame.onload = go; setTimeout(go, 3000); });
        try { if (frame.contentDocument?.body?.innerText.includes("kinform")) said.push("a frame"); } catch { /* Another origin. */ }
        return said;
      }, program.page, program.token);
      demand(read.length === 0, `${from} read: ${read}`);
      const shown = tab.page.frames().slice(1);
      for (const frame of shown) {
        const text = await frame.evaluate(() => document.body?.innerText ?? "").catch(() => "");
        demand(!text.includes("inspector"), `${from} shows it in a frame: ${text.slice(0, 100)}`);
      }
      await tab.close();
    }
    server.close();
  });

  await check("a foreign Host or Origin gets 403, no token 401", async () => {
    const bearer = { authorization: `Bearer ${program.token}` };
    const host = `127.0.0.1:${program.port}`;
    for (const view of [...VIEWS, "events?view=pipeline"]) {
      const path = `/debug/kinform/v1/${view}`;
      for (const [headers, wanted] of [
        [{ ...bearer, host: "evil.example.com" }, 403], [{ ...bearer, host: `evil.example.com:${program.port}` }, 403],
        [{ ...bearer, host, origin: "http://evil.example.com" }, 403], [{ ...bearer, host, origin: "null" }, 403],
        [{ host }, 401], [{ host, authorization: "Bearer wrong" }, 401], [{ host, cookie: `token=${program.token}` }, 401],
      ]) {
        const got = await status(program, path, headers);
        demand(got === wanted, () => `${path} ${JSON.stringify(headers).replace(program.token, "..")}: ${got}`);
      }
    }
    demand(await status(program, "/debug/kinform/", { host: "evil.example.com" }) === 403, "the page itself is served");
  });
}
