"use strict";
(() => {
  // The page is whole without this script; it only finds, filters, opens and tells the age. It writes text, never markup.
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const told = document.getElementById("shown");
  const query = document.getElementById("query");
  const boxes = all("input[name=outcome]");
  const rows = all("tr[data-for]").map((row) => {
    const section = document.getElementById(row.dataset.for);
    return { row, section, css: row.dataset.outcome, text: null };
  });

  const textOf = (entry) => {
    if (entry.text === null) {
      entry.text = (entry.row.textContent + " " + (entry.section ? entry.section.textContent : "")).toLowerCase();
    }
    return entry.text;
  };

  const filter = () => {
    const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
    const outcomes = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    let count = 0;
    for (const entry of rows) {
      const fits = outcomes.has(entry.css) && words.every((word) => textOf(entry).includes(word));
      entry.row.hidden = !fits;
      if (entry.section) entry.section.hidden = !fits;
      count += fits ? 1 : 0;
    }
    told.textContent = count + " of " + rows.length + " shown";
  };

  const tools = document.getElementById("tool-query");
  const filterTools = () => {
    const word = tools.value.toLowerCase();
    for (const row of all("tr[data-tool]")) row.hidden = !row.textContent.toLowerCase().includes(word);
  };

  // A link to a finding opens the scenario that holds it, filtered away or not.
  const follow = () => {
    const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    const section = target && target.closest("details.scenario");
    if (!section) return;
    section.hidden = false;
    section.open = true;
    target.scrollIntoView();
  };

  const age = () => {
    const time = document.getElementById("ended");
    const ended = time ? Date.parse(time.dateTime) : NaN;
    if (Number.isNaN(ended)) return;
    const minutes = Math.max(0, Math.round((Date.now() - ended) / 60000));
    const words = minutes < 120 ? minutes + " minutes" : minutes < 2880 ? Math.round(minutes / 60) + " hours" : Math.round(minutes / 1440) + " days";
    document.getElementById("age").textContent = " (" + words + " ago)";
  };

  if (query) {
    document.getElementById("controls").hidden = false;
    query.addEventListener("input", filter);
    boxes.forEach((box) => box.addEventListener("change", filter));
  }
  if (tools) {
    tools.closest("p").hidden = false;
    tools.addEventListener("input", filterTools);
  }
  window.addEventListener("hashchange", follow);
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = all("details:not([open])");
    closed.forEach((section) => { section.open = true; });
  });
  window.addEventListener("afterprint", () => closed.forEach((section) => { section.open = false; }));
  follow();
  age();
})();
