"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const pages = all("main > .page");
  const search = one("#search"), status = one("#status"), found = one("#found"), panel = one("#details");
  const blocks = all(".block.table").map((block) => ({
    block,
    table: block.querySelector("table.values"),
    facts: JSON.parse(block.querySelector("script[data-details]").textContent),
  }));
  const factsOf = new Map(blocks.map((entry) => [entry.table, entry.facts]));
  let verdict = "";

  // ---- pages: the part of the address behind # names a page, or anything in one

  const filtering = () => search.value.trim() !== "" || status.value !== "";

  function show() {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1).split("?")[0]); } catch { /* a broken address leads to the overview */ }
    const target = id ? document.getElementById(id) : null;
    const page = (target && target.closest(".page")) || pages[0];
    if (!filtering()) for (const other of pages) other.hidden = other !== page;
    for (const link of all("nav a")) {
      if (link.hash === `#${page.id}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!target || target === page) { if (!filtering()) scrollTo(0, 0); return; }
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    if (target.matches(".cell")) { open(target); target.scrollIntoView({ block: "center", inline: "nearest" }); }
    else target.scrollIntoView({ block: "start" });
  }

  // ---- search and filter: rows of all tables and all claims; while something is asked for, every page with a hit is shown

  const textOf = new WeakMap();
  for (const { table, facts } of blocks) {
    const title = table.caption.textContent;
    all("tbody tr", table).forEach((row, i) => {
      const cells = facts.cells[i].filter(Boolean);
      const words = new Set(cells.flatMap((cell) => [cell.system, cell.dataset, cell.role, cell.metric, cell.status]));
      textOf.set(row, `${title} ${table.dataset.table} ${facts.rows[i].join(" ")} ${[...words].join(" ")}`.toLowerCase());
    });
  }
  for (const claim of all(".claim")) textOf.set(claim, `${claim.id} ${claim.textContent}`.toLowerCase());

  function passes(cell, wanted) {
    const word = cell.dataset.status;
    if (wanted === "measured") return !["quoted", "not-run", "failed"].includes(word);
    if (wanted === "above" || wanted === "below") return cell.className.includes(`${wanted}-`);
    return word === wanted;
  }

  function filter() {
    const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean), wanted = status.value;
    const hit = (element) => terms.every((term) => textOf.get(element).includes(term));
    let rows = 0, claims = 0;
    for (const { block, table } of blocks) {
      let some = 0;
      for (const row of all("tbody tr", table)) {
        const cells = all(".cell", row);
        const fitting = wanted ? cells.filter((cell) => passes(cell, wanted)) : cells;
        for (const cell of cells) cell.classList.toggle("dim", wanted !== "" && !fitting.includes(cell));
        row.hidden = !hit(row) || (wanted !== "" && !fitting.length);
        some += !row.hidden;
      }
      block.hidden = filtering() && !some;
      rows += some;
    }
    for (const claim of all(".claim")) {
      claim.hidden = !hit(claim) || (verdict !== "" && claim.dataset.verdict !== verdict) || wanted !== "";
      claims += !claim.hidden;
    }
    for (const group of all("#claims .block")) group.hidden = !all(".claim:not([hidden])", group).length;
    document.body.classList.toggle("filtered", filtering());
    found.hidden = !filtering();
    if (filtering()) {
      found.textContent = `${rows} ${rows === 1 ? "row" : "rows"}, ${claims} ${claims === 1 ? "claim" : "claims"}`;
      for (const page of pages) page.hidden = !all(".block.table:not([hidden]), .claim:not([hidden])", page).length;
    } else show();
  }

  for (const button of all("[data-verdict]:is(a, button)")) {
    button.addEventListener("click", () => {
      verdict = button.matches("button") && verdict === button.dataset.verdict ? "" : button.dataset.verdict;
      for (const other of all("button[data-verdict]")) other.setAttribute("aria-pressed", String(other.dataset.verdict === verdict));
      filter();
    });
  }

  // ---- sort: by a column, downwards, upwards, and as printed again

  for (const { table } of blocks) {
    const body = table.tBodies[0], printed = [...body.rows], heads = all("thead tr:last-child th", table);
    heads.forEach((head, column) => head.querySelector(".sort").addEventListener("click", () => {
      const next = { none: "descending", descending: "ascending", ascending: "none" }[head.getAttribute("aria-sort") || "none"];
      for (const other of heads) other.removeAttribute("aria-sort");
      if (next !== "none") head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      const key = (row) => row.cells[column].dataset.order;
      const order = (a, b) => {
        if (a.cells[column].matches("th")) return sign * -key(a).localeCompare(key(b), "en", { numeric: true });
        const x = parseFloat(key(a)), y = parseFloat(key(b));
        if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);  // cells without a number stay at the end, either way
        return sign * (x - y);
      };
      body.append(...(next === "none" ? printed : [...printed].sort(order)));
      table.classList.toggle("sorted", next !== "none");
    }));
  }

  // ---- all about a cell

  const LABELS = {
    system: "System", dataset: "Data set", role: "Role", metric: "Metric", unit: "Unit", published: "Published", measured: "Measured",
    sd: "Deviation over seeds", n_seeds: "Seeds", delta: "Difference", tolerance: "Tolerance", status: "Status", p_value: "p against the baseline",
    p_holm: "p, corrected", baseline: "Compared with", effect: "More than that", bm25_effect: "More than BM25",
    bm25_p_holm: "p against BM25, corrected", chance: "Guessing has", beyond_chance: "Beyond chance", low: "95 % over queries, from",
    high: "to", train_examples: "Training examples", queries: "Queries", candidates: "Candidates", wall_s: "Wall s", gpu_h: "GPU hours", peak_gb: "Peak memory, GB",
    note: "Note",
  };

  function open(cell) {
    const facts = factsOf.get(cell.closest("table"));
    const [row, column] = cell.dataset.at.split(",").map(Number);
    for (const other of all(".cell.chosen")) other.classList.remove("chosen");
    cell.classList.add("chosen");
    panel.querySelector("h2").textContent = `${facts.rows[row].join(", ")}: ${facts.columns[column]}`;
    const list = panel.querySelector("dl");
    list.replaceChildren();
    for (const [key, label] of Object.entries(LABELS)) {
      const value = facts.cells[row][column][key];
      if (!value) continue;
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = label;
      text.textContent = value;
      list.append(term, text);
    }
    panel.querySelector(".command").hidden = !facts.commands[row];
    panel.querySelector("code").textContent = facts.commands[row];
    panel.querySelector(".link").href = `#${cell.id}`;
    panel.hidden = false;
  }
  function close() {
    panel.hidden = true;
    const cell = one(".cell.chosen");
    if (cell) { cell.classList.remove("chosen"); if (panel.contains(document.activeElement)) cell.focus(); }
  }
  panel.querySelector(".close").addEventListener("click", close);
  panel.querySelector(".copy").addEventListener("click", (event) => {
    const text = panel.querySelector("code").textContent, button = event.target;
    const done = () => { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy"; }, 1500); };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => getSelection().selectAllChildren(panel.querySelector("code")));
    else getSelection().selectAllChildren(panel.querySelector("code"));
  });

  // ---- keyboard

  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) open(cell);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const cell = event.target.closest && event.target.closest(".cell");
    if (event.key === "Escape") {
      if (!panel.hidden) close();
      else if (filtering()) { search.value = ""; status.value = ""; filter(); }
      return;
    }
    if (cell && STEPS[event.key]) {
      const [down, right] = STEPS[event.key];
      const rows = [...cell.closest("tbody").rows].filter((row) => !row.hidden);
      const row = rows[rows.indexOf(cell.parentElement) + down];
      const next = row && row.cells[cell.cellIndex + right];
      if (next && next.matches(".cell")) { cell.tabIndex = -1; next.tabIndex = 0; next.focus(); if (!panel.hidden) open(next); }
      event.preventDefault();
    } else if (cell && event.key === "Enter") {
      open(cell);
    } else if (!/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      const now = pages.findIndex((page) => !page.hidden);
      if (event.key === "/") { event.preventDefault(); search.focus(); search.select(); }
      if (event.key === "]" && pages[now + 1]) location.hash = pages[now + 1].id;
      if (event.key === "[" && pages[now - 1]) location.hash = pages[now - 1].id;
    }
  });

  // ---- light, dark, or as the system says

  const themes = ["auto", "light", "dark"];
  const remembered = () => { try { return localStorage.getItem("pretrieve-theme"); } catch { return null; } };
  function dress(theme) {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    one("#theme").textContent = theme;
    try { localStorage.setItem("pretrieve-theme", theme); } catch { /* not remembered: nothing is lost but comfort */ }
  }
  one("#theme").addEventListener("click", () => dress(themes[(themes.indexOf(one("#theme").textContent) + 1) % 3]));
  dress(themes.includes(remembered()) ? remembered() : "auto");

  // ---- begin

  const asked = new URLSearchParams(location.search);
  search.value = asked.get("q") || "";
  if (all("option", status).some((option) => option.value === asked.get("status"))) status.value = asked.get("status");
  search.addEventListener("input", filter);
  status.addEventListener("change", filter);
  addEventListener("hashchange", () => {
    if (filtering()) { search.value = ""; status.value = ""; filter(); } else show();
  });
  filter();
})();
