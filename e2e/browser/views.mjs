// Content of the views after each command; their looks and their use by keyboard.

import { Tab, VIEWS } from "./browser.mjs";
import { check, demand, until } from "./report.mjs";

/// Views with their parameters, and an object.
const PLACES = [
  ["pipeline", ""], ["caches", ""], ["queues", ""], ["queues", "?controller=planner"], ["objects", ""],
  ["objects", "?q=widget&cache=widgets.example.com"], ["object", "?cache=configmaps&namespace=default&name=fought"],
  ["memory", ""], ["memory", "?cache=widgets.example.com"], ["problems", ""],
];
const nameOf = ([view, query]) => view + query;

/// Each view shows what the run did.
export async function content(browser, program) {
  const tab = await Tab.open(browser, { origin: program.origin });
  await tab.go(program.url);

  await check("Pipeline shows each informer and controller, their rates and their lag", async () => {
    await tab.says("watched", "live", "configmaps", "secrets", "pods", "widgets", "planner", "hot", "stored → handled");
    const json = await program.json("pipeline");
    demand(json.informers.length === 5, `${json.informers.length} informers`);
    await tab.has(() => [...document.querySelectorAll("section.card")].some(card =>
      card.textContent.startsWith("widgets") && /[\d,.]+\/s/.test(card.textContent)), "a rate");
    await tab.has(() => document.querySelectorAll("svg.spark path").length > 10, "lines");
    await tab.has(() => /lag [1-9]/.test([...document.querySelectorAll("section.card")]
      .find(card => card.textContent.startsWith("configmaps")).textContent), "the lag of the slow handler");
  });
  await check("Caches shows a relist with its reason, a quarantined object, a handler that lags", async () => {
    await tab.show("caches");
    const of = (table, start, label) => tab.page.evaluate((caption, first, name) => {
      const found = [...document.querySelectorAll("table")].find(one => one.caption.textContent.startsWith(caption));
      const row = [...found.tBodies[0].rows].find(one => one.textContent.startsWith(first));
      return [...row.cells].find(cell => cell.dataset.label === name)?.textContent;
    }, table, start, label);
    await until("expired", async () => /expired 1/.test(await of("Informers", "configmaps", "Relists")));
    await until("quarantined", async () => await of("Informers", "widgets.example.com", "Quarantined") === "1");
    await until("lag", async () => Number(await of("Handlers", "slow", "Lag")) > 0);
    demand(await of("Informers", "pods", "State") === "synced", "pods are not synced");
  });
  await check("Queues shows depths and runs, and why a key was reconciled", async () => {
    await tab.show("queues");
    await tab.says("planner", "restless", "Choose a controller");
    await tab.show("queues", "?controller=restless");
    await tab.says("Keys of restless", "default/restless", "succeeded", "updated configmaps default/restless", "by itself");
    await tab.show("queues", "?controller=planner&q=hostile/");
    await tab.says("hostile/", "time", "retried");
  });
  await check("Objects finds an object, Object shows its versions, managers and runs", async () => {
    await tab.show("objects");
    await tab.page.type("#q", "default/fought");
    await tab.page.keyboard.press("Enter");
    await tab.has(() => document.querySelectorAll("main tbody tr").length === 1, "one row");
    await tab.click("a[href*='name=fought']");
    await tab.says("default/fought", "Versions since you look", "ConfigMap");
    await program.obey("touch");
    await tab.says("data.round", "→");
    await tab.click("button[data-key=managers]");
    await tab.has(() => [...document.querySelectorAll("main tr")].some(row => /watched/.test(row.textContent) && /data\.colour/.test(row.textContent)), "a manager of data.colour");
    await tab.says("ours", "theirs");
  });
  await check("Memory shows bytes by cache, field and namespace", async () => {
    await tab.show("memory");
    await tab.says("By cache", "widgets", "pods", "KB");
    await tab.show("memory", "?cache=widgets.example.com");
    await tab.says("A projection saves", "spec.text", "shop-3", "By namespace");
  });
  await check("a slow click counts, and selected text stays, although the view is drawn twice a second", async () => {
    await tab.show("pipeline");
    const drawn = () => tab.page.$eval("svg.spark", svg => svg.outerHTML);
    const { x, y } = await tab.page.$eval("section.card a", link => { const { x, y } = link.getBoundingClientRect(); return { x: x + 9, y: y + 9 }; });
    await tab.page.mouse.move(x, y);
    await tab.page.mouse.down();
    await new Promise(go => setTimeout(go, 1500));
    await tab.page.mouse.up();
    await tab.has(() => location.hash.startsWith("#/objects?cache="), "the link is followed");
    await tab.show("pipeline");
    await tab.page.evaluate(() => getSelection().selectAllChildren(document.querySelector("h2")));
    await tab.says("live; paused while text is selected");
    const before = await drawn();
    await new Promise(go => setTimeout(go, 1200));
    demand(await tab.page.evaluate(() => getSelection().toString()) === "Server → cache → handlers", "the selection is gone");
    demand(await drawn() === before, "the view was drawn");
    await tab.page.evaluate(() => getSelection().removeAllRanges());
    await until("it goes on", async () => await drawn() !== before);
    demand(!(await tab.text()).includes("paused while"), "it says that it is paused");
  });
  await check("Problems names the path, the field, the managers and what to do", async () => {
    await tab.show("problems");
    await tab.says("quarantined now", "spec.size", "default/poisoned", "Repair the object on the server");
    await tab.says("hot-loop", "in a row asked for the next one at once");
    await tab.says("loop", "data.seen of ConfigMap (managers: watched/restless");
    await tab.says("fight", "data.colour of ConfigMap (managers: watched/ours, watched/theirs)");
    await tab.says("slow-handler now", "Make the handler faster");
  });
  await check("no request leaves the origin, no error, no violation of the policy", async () => {
    demand(tab.foreign.length === 0, () => `requests to ${tab.foreign}`);
    demand(tab.faults.length === 0, () => tab.faults.join("; "));
  });
  await check("the policy stops scripts, pictures, styles and requests that are not the page's, and these checks notice", async () => {
    await tab.page.evaluate(() => {
      const add = (name, attributes) => document.body.append(Object.assign(document.createElement(name), attributes));
      add("script", { textContent: "alert(1)" });
      add("style", { textContent: "body { display: none }" });
      add("img", { src: "http://evil.example.com/x.png" });
      add("form", { action: "http://evil.example.com/", method: "post" });
      document.forms[document.forms.length - 1].submit();
      return fetch("http://evil.example.com/").catch(() => null);
    });
    const wanted = ["script-src", "style-src", "img-src", "form-action", "connect-src"];
    await until("violations", () => wanted.every(one => tab.faults.some(fault => fault.startsWith("console: CSP: " + one))), 5_000)
      .catch(() => { throw new Error(`noticed: ${tab.faults.join("; ")}`); });
    demand(tab.foreign.length === 0, () => `requests to ${tab.foreign}`);
    demand(!tab.faults.some(fault => fault.startsWith("dialog")), "a script ran");
    demand(await tab.page.evaluate(() => getComputedStyle(document.body).display) !== "none", "a style counts");
  });
  await tab.close();
}

/// Light and dark, narrow and wide, for everybody.
export async function looks(browser, program) {
  for (const scheme of ["light", "dark"]) {
    for (const width of [1280, 390]) {
      const tab = await Tab.open(browser, { width, scheme });
      await tab.go(program.url);
      await tab.says("live");
      const dark = await tab.page.evaluate(() => {
        const [r, g, b] = getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).map(Number);
        return r + g + b < 384;
      });
      await check(`${scheme}, ${width} px: the colours are those of the scheme`, () => demand(dark === (scheme === "dark"), `dark: ${dark}`));
      await check(`${scheme}, ${width} px: no view scrolls sideways`, async () => {
        const wrong = [];
        for (const place of PLACES) {
          await tab.show(...place);
          const [has, needs] = await tab.page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
          if (needs > has) wrong.push(`${nameOf(place)} needs ${needs}`);
        }
        demand(wrong.length === 0, () => wrong.join("; "));
      });
      await check(`${scheme}, ${width} px: axe finds nothing serious in any view`, async () => {
        const wrong = [];
        for (const place of PLACES) {
          await tab.show(...place);
          const found = await tab.unfit();
          if (found.length) wrong.push(`${nameOf(place)}: ${found.join("; ")}`);
        }
        demand(wrong.length === 0, () => wrong.join("\n"));
        return `${PLACES.length} views`;
      });
      await tab.close();
    }
  }
  const tab = await Tab.open(browser);
  await tab.go(program.page);
  await tab.says("A token is needed");
  await check("axe finds nothing serious where a token is asked for", async () => {
    const found = await tab.unfit();
    demand(found.length === 0, () => found.join("\n"));
  });
  await tab.close();
}

/// A name of the focused element that stays when it is drawn again.
const focused = tab => tab.page.evaluate(() => {
  const at = document.activeElement;
  if (!at || at === document.body) return "";
  const style = getComputedStyle(at);
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  return `${at.dataset.key || at.id || at.textContent}${seen ? "" : " WITHOUT OUTLINE"}`;
});

export async function keyboard(browser, program) {
  const tab = await Tab.open(browser);
  await tab.go(program.url);
  await tab.says("live");
  for (const place of PLACES) {
    await check(`keyboard: Tab reaches everything in ${nameOf(place)}, and the focus is seen`, async () => {
      await tab.show(...place);
      const wanted = await tab.page.evaluate(() => [...document.querySelectorAll("a[href], button, input, select, [tabindex='0']")]
        .map(one => one.dataset.key || one.id || one.textContent));
      // Rows come and go while one goes through them: what stays has to be reached.
      const stays = new Set(wanted.filter(name => !/^a-\d{4}-/.test(name)));
      const reached = new Set();
      // From the focus on to the end, and from the start again.
      for (let step = 0; step < 2 * wanted.length + 40; step++) {
        await tab.page.keyboard.press("Tab");
        const at = await focused(tab);
        demand(!at.endsWith("WITHOUT OUTLINE"), at);
        reached.add(at);
        if ([...stays].every(name => reached.has(name))) break;
      }
      const missing = [...stays].filter(name => !reached.has(name));
      demand(missing.length === 0, () => `not reached: ${missing.slice(0, 5)} (of ${stays.size})`);
      return `${reached.size} stops`;
    });
  }
  await check("keyboard: 1 to 6 choose the views", async () => {
    await tab.page.evaluate(() => document.activeElement.blur());
    for (const [at, view] of VIEWS.entries()) {
      await tab.page.keyboard.press(String(at + 1));
      await tab.has(hash => location.hash === hash, view, `#/${view}`);
      await tab.has(id => document.querySelector("nav a[aria-current=page]").getAttribute("href") === "#/" + id, "the current one", view);
    }
  });
  await check("keyboard: / goes to the search, Enter searches and opens an object", async () => {
    await tab.show("pipeline");
    await tab.page.keyboard.press("/");
    await tab.has(() => location.hash === "#/objects" && document.activeElement.id === "q", "the search has the focus");
    await tab.page.keyboard.type("default/plain");
    await tab.page.keyboard.press("Enter");
    await tab.has(() => document.querySelectorAll("main tbody tr").length === 1, "one row");
    for (let step = 0; step < 40 && !(await focused(tab)).includes("name=plain"); step++) await tab.page.keyboard.press("Tab");
    await tab.page.keyboard.press("Enter");
    await tab.says("default/plain", "Versions since you look");
  });
  await check("keyboard: the focus stays while the view is drawn again", async () => {
    await tab.show("pipeline");
    const name = "a-#/objects?cache=widgets.example.com";
    await tab.page.evaluate(key => [...document.querySelectorAll("[data-key]")].find(one => one.dataset.key === key).focus(), name);
    const before = await tab.page.$eval("svg.spark", svg => svg.outerHTML);
    await tab.has(old => document.querySelector("svg.spark").outerHTML !== old, "another picture", before);
    demand((await focused(tab)).startsWith(name), await focused(tab));
  });
  await check("keyboard: the skip link leads to the view", async () => {
    const fresh = await Tab.open(browser);
    await fresh.go(program.url);
    await fresh.says("live");
    await fresh.page.keyboard.press("Tab");
    demand((await focused(fresh)).startsWith("skip"), await focused(fresh));
    demand(await fresh.page.$eval("#skip", at => at.getBoundingClientRect().left >= 0), "it is not seen");
    await fresh.page.keyboard.press("Enter");
    demand(await fresh.page.evaluate(() => document.activeElement.id) === "main", "the view has no focus");
    await fresh.close();
  });
  await check("keyboard: no error on the way", () => demand(tab.faults.length === 0, () => tab.faults.join("; ")));
  await tab.close();
}
