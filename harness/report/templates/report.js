"use strict";
(() => {
  // The page is whole without this script: it finds, filters, opens, tells the age, and keeps a long page light. What it adds is markup that
  // this very page holds in `noscript` elements, escaped when the page was written; of what anybody typed it makes text only.
  const STEP = 200;
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const by = (id) => document.getElementById(id);
  const told = by("shown"), query = by("query"), body = by("rows"), list = by("sections");
  const moreRows = by("more-rows"), moreSections = by("more-sections");
  const boxes = all("input[name=outcome]");

  // ---- entries: one a scenario, drawn (an element) or not yet (its markup)

  const made = (markup) => {
    const holder = document.createElement("template");
    holder.innerHTML = markup;
    return holder.content.firstElementChild;
  };
  const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&#34;": '"', "&#39;": "'" };
  const words = (markup) => markup.replace(/<[^>]*>/g, " ").replace(/&(?:amp|lt|gt|#34|#39);/g, (entity) => ENTITIES[entity]);

  const rows = all("tr[data-for]", body).map((row) => ({ row, anchor: row.dataset.for, css: row.dataset.outcome }));
  const rest = by("later-rows") ? by("later-rows").textContent : "";
  for (const found of rest.matchAll(/<tr data-for="([^"]*)" data-outcome="([^"]*)">.*?<\/tr>/gs)) {
    rows.push({ markup: found[0], anchor: found[1], css: found[2] });
  }
  const sections = [...all("details.scenario", list).map((section) => ({ section })), ...all("noscript.later").map((later) => ({ later }))];
  const entries = rows.map((row, at) => ({ ...row, ...sections[at], fits: true, pinned: false, text: null }));
  const first = { rows: body.rows.length, sections: list.children.length };

  const rowOf = (entry) => (entry.row = entry.row || made(entry.markup));
  const sectionOf = (entry) => {
    if (!entry.section && entry.later) entry.section = made(entry.later.textContent);
    return entry.section;
  };
  const textOf = (entry) => {
    if (entry.text === null) {
      const row = entry.row ? entry.row.textContent : words(entry.markup);
      const section = entry.section ? entry.section.textContent : entry.later ? words(entry.later.textContent) : "";
      entry.text = (row + " " + section).toLowerCase();
    }
    return entry.text;
  };

  // ---- what is drawn: the first `limit` that fit, and whatever a link asked for

  let limit = STEP, drawn = false;
  const say = () => {
    const count = entries.reduce((sum, entry) => sum + (entry.fits ? 1 : 0), 0);
    const shown = drawn ? limit : first.rows;
    told.textContent = count + " of " + entries.length + (count > shown ? " fit, the first " + shown + " are shown" : " shown");
    moreRows.parentElement.hidden = count <= shown;
    moreSections.parentElement.hidden = drawn ? count <= limit : sections.length <= first.sections;
  };
  const draw = () => {
    const some = [], details = [];
    let rank = 0;
    for (const entry of entries) {
      if (entry.pinned || (entry.fits && rank < limit)) {
        some.push(rowOf(entry));
        if (sectionOf(entry)) details.push(entry.section);
      }
      rank += entry.fits ? 1 : 0;
    }
    body.replaceChildren(...some);
    list.replaceChildren(...details);
    drawn = true;
    say();
  };
  const more = (place) => () => {
    const before = place.children.length;
    if (drawn || place === body) limit *= 2;
    draw();
    const next = place.children[before];
    const target = next && next.querySelector("a, summary");
    if (target) target.focus({ preventScroll: true });
  };
  const filter = () => {
    const asked = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const outcomes = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    for (const entry of entries) {
      entry.fits = outcomes.has(entry.css) && asked.every((word) => textOf(entry).includes(word));
      entry.pinned = false;
    }
    limit = STEP;
    draw();
  };

  const tools = by("tool-query");
  const filterTools = () => {
    const word = tools.value.toLowerCase();
    for (const row of all("tr[data-tool]")) row.hidden = !row.textContent.toLowerCase().includes(word);
  };

  // A link to a scenario or to a finding opens it, filtered away, not yet drawn, or not.
  const follow = () => {
    let hash = location.hash.slice(1);
    try { hash = decodeURIComponent(hash); } catch { return; }
    let entry = null;
    for (const each of hash ? entries : []) {
      const mine = hash === each.anchor || hash.startsWith(each.anchor + "--f");
      if (mine && (!entry || each.anchor.length > entry.anchor.length)) entry = each;
    }
    if (!entry || !sectionOf(entry)) return;
    if (!entry.section.isConnected) {
      entry.pinned = true;
      draw();
    }
    entry.section.open = true;
    (by(hash) || entry.section).scrollIntoView();
  };

  const age = () => {
    const time = by("ended");
    const ended = time ? Date.parse(time.dateTime) : NaN;
    if (Number.isNaN(ended)) return;
    const minutes = Math.max(0, Math.round((Date.now() - ended) / 60000));
    const said = minutes < 120 ? minutes + " minutes" : minutes < 2880 ? Math.round(minutes / 60) + " hours" : Math.round(minutes / 1440) + " days";
    by("age").textContent = " (" + said + " ago)";
  };

  by("controls").hidden = false;
  query.addEventListener("input", filter);
  boxes.forEach((box) => box.addEventListener("change", filter));
  moreRows.addEventListener("click", more(body));
  moreSections.addEventListener("click", more(list));
  if (tools) {
    tools.closest("p").hidden = false;
    tools.addEventListener("input", filterTools);
  }
  window.addEventListener("hashchange", follow);
  let closed = [], before = limit;
  window.addEventListener("beforeprint", () => {
    before = limit;
    limit = Infinity;
    draw();
    closed = all("details:not([open])");
    closed.forEach((section) => { section.open = true; });
  });
  window.addEventListener("afterprint", () => {
    closed.forEach((section) => { section.open = false; });
    limit = before;
    draw();
  });
  say();
  follow();
  age();
})();
