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
  const rowsOf = (within) => all("tbody tr[id]", within);
  // An address of a row or cell counts rows and columns from 1, in the order of the reference.
  const rowNumber = (id) => id.match(/-r(\d+)(?:c\d+)?$/)[1] - 1;
  const columnNumber = (id) => id.match(/c(\d+)$/)[1] - 1;
  let verdict = "";

  // ---- pages: the part of the address behind # names a page, or anything in one

  const filtering = () => search.value.trim() !== "" || status.value !== "";

  function show() {
    let id = "";
    try { id = decodeURIComponent(location.hash.slice(1).split("?")[0]); } catch { /* a broken address leads to the overview */ }
    const target = id ? document.getElementById(id) : null;
    const page = (target && target.closest(".page")) || pages[0];
    close();
    if (!filtering()) for (const other of pages) other.hidden = other !== page;
    for (const link of all("nav a")) {
      if (link.hash === `#${page.id}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (!target || target === page) { if (!filtering()) scrollTo(0, 0); return; }
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    unfold(target.closest("tbody.folded"));
    if (target.matches(".cell")) { target.scrollIntoView({ block: "center", inline: "nearest" }); open(target); }
    else target.scrollIntoView({ block: "start" });
  }

  // ---- the address says what is shown: a cell, else the table in view

  function say(address) {
    try { history.replaceState(null, "", address); } catch { /* some browsers keep the address of a file as it is */ }
  }
  const places = new Set(["", ...pages.map((page) => page.id), ...all(".block[id]").map((block) => block.id)]);
  let resting = 0;
  addEventListener("scroll", () => {
    clearTimeout(resting);
    resting = setTimeout(() => {
      if (filtering() || !places.has(location.hash.slice(1))) return;
      const page = pages.find((some) => !some.hidden);
      const passed = all(".block[id]", page).filter((block) => block.getBoundingClientRect().top < innerHeight / 3);
      say(`#${(passed.at(-1) || page).id}`);
    }, 150);
  }, { passive: true });

  // ---- search and filter: rows of all tables and all claims; while something is asked for, every page with a hit is shown

  const textOf = new WeakMap();
  for (const { table, facts } of blocks) {
    const title = table.caption.textContent;
    rowsOf(table).forEach((row) => {
      const i = rowNumber(row.id), cells = facts.cells[i].filter(Boolean);
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
    close();
    const terms = search.value.toLowerCase().split(/\s+/).filter(Boolean), wanted = status.value;
    const hit = (element) => terms.every((term) => textOf.get(element).includes(term));
    let rows = 0, claims = 0;
    for (const { block, table } of blocks) {
      let some = 0;
      for (const row of rowsOf(table)) {
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
    for (const fold of all("tr.fold")) fold.hidden = filtering();
    found.hidden = !filtering();
    if (filtering()) {
      found.textContent = `${rows} ${rows === 1 ? "row" : "rows"}, ${claims} ${claims === 1 ? "claim" : "claims"}`;
      for (const page of pages) page.hidden = !all(".block.table:not([hidden]), .claim:not([hidden])", page).length;
    } else show();
    const query = new URLSearchParams(Object.entries({ q: search.value.trim(), status: wanted }).filter(([, value]) => value));
    say(`${location.pathname}${String(query) && `?${query}`}${location.hash}`);
  }

  for (const button of all("[data-verdict]:is(a, button)")) {
    button.addEventListener("click", () => {
      verdict = button.matches("button") && verdict === button.dataset.verdict ? "" : button.dataset.verdict;
      for (const other of all("button[data-verdict]")) other.setAttribute("aria-pressed", String(other.dataset.verdict === verdict));
      filter();
    });
  }

  // ---- sort: by a column, downwards, upwards, and as printed again; rows aside are sorted among themselves

  for (const { table } of blocks) {
    const printed = new Map([...table.tBodies].map((body) => [body, rowsOf(body)])), heads = all("th[data-column]", table);
    for (const head of heads) head.querySelector(".sort").addEventListener("click", () => {
      close();
      const next = { none: "descending", descending: "ascending", ascending: "none" }[head.getAttribute("aria-sort") || "none"];
      for (const other of heads) other.removeAttribute("aria-sort");
      if (next !== "none") head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1, column = Number(head.dataset.column);
      const key = (row) => row.cells[column].dataset.order;
      const order = (a, b) => {
        if (a.cells[column].matches("th")) return sign * -key(a).localeCompare(key(b), "en", { numeric: true });
        const x = parseFloat(key(a)), y = parseFloat(key(b));
        if (isNaN(x) || isNaN(y)) return isNaN(x) - isNaN(y);  // cells without a number stay at the end, either way
        return sign * (x - y);
      };
      for (const [body, rows] of printed) body.append(...(next === "none" ? rows : [...rows].sort(order)));
      table.classList.toggle("sorted", next !== "none");
    });
    table.querySelector(".cell").tabIndex = 0;
  }

  // ---- rows aside: folded, until one of them is asked for

  function unfold(body) {
    if (!body) return;
    body.classList.remove("folded");
    body.querySelector(".fold button").setAttribute("aria-expanded", "true");
  }
  for (const button of all(".fold button")) {
    const body = button.closest("tbody");
    const fold = () => button.setAttribute("aria-expanded", String(!body.classList.toggle("folded")));
    button.addEventListener("click", () => { if (body.contains(panel)) close(); fold(); });
    fold();
  }

  // ---- all about a cell

  const LABELS = {
    system: "System", dataset: "Data set", role: "Role", metric: "Metric", unit: "Unit", measured: "Measured",
    interval: "95 % interval over queries", sd: "Deviation over seeds", n_seeds: "Seeds", chance: "Chance", beyond_chance: "Beyond chance",
    baseline: "Baseline", effect: "Difference to it", p_value: "p against it", p_holm: "p, corrected",
    bm25_effect: "Difference to BM25", bm25_p_holm: "p against BM25, corrected",
    published: "Published", delta: "Difference to that", tolerance: "Tolerance", status: "Status",
    train_examples: "Training examples", queries: "Queries", candidates: "Candidates", wall_s: "Wall s", gpu_h: "GPU hours",
    peak_gb: "Peak memory, GB", note: "Note",
  };

  // Files lie around the report in a checkout: beside a run's report, or a published copy of it. Elsewhere there are none.
  const checkout = location.pathname.match(/^(.*\/)results\/(published\/)?[^/]+\/[^/]+$/);
  function lead(name, address) {
    const link = panel.querySelector(`.to-${name}`);
    link.hidden = !address;
    link.href = address || "";
  }

  const home = panel.parentElement, tray = document.createElement("tr");  // the panel's row, below the cell's
  tray.className = "tray";
  tray.append(document.createElement("td"));

  function open(cell) {
    const table = cell.closest("table"), facts = factsOf.get(table);
    const row = rowNumber(cell.id), column = columnNumber(cell.id);
    const before = cell.getBoundingClientRect().top;
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
    for (const part of [panel.querySelector(".command"), panel.querySelector(".copy")]) part.hidden = !facts.commands[row];
    panel.querySelector("code").textContent = facts.commands[row];
    panel.querySelector(".link").href = `#${cell.id}`;
    const [paper, name] = facts.table.split("/");
    lead("paper", facts.paper);
    lead("reference", checkout && `${checkout[1]}references/${paper}/${name}.csv`);
    lead("csv", checkout && `${checkout[2] ? "" : "tables/"}${paper}/${name}.csv`);
    lead("docs", checkout && `${checkout[1]}docs/read-a-table.md`);
    tray.firstChild.colSpan = cell.parentElement.cells.length;
    tray.firstChild.append(panel);
    cell.parentElement.after(tray);
    panel.hidden = false;
    // The cell stays where it was, or goes up as far as the panel needs and the page's head allows.
    scrollBy(0, cell.getBoundingClientRect().top - before);
    const below = panel.getBoundingClientRect().bottom - innerHeight + 8;
    const above = cell.parentElement.getBoundingClientRect().top - one("header").getBoundingClientRect().bottom - 8;
    if (below > 0 && above > 0) scrollBy(0, Math.min(below, above));
    say(`#${cell.id}`);
  }
  function close() {
    const cell = one(".cell.chosen");
    if (!cell) return;
    const inside = panel.contains(document.activeElement);
    cell.classList.remove("chosen");
    panel.hidden = true;
    home.append(panel);
    tray.remove();
    if (inside) cell.focus({ preventScroll: true });
  }
  function leave() {
    const cell = one(".cell.chosen");
    close();
    if (cell) say(`#${cell.closest(".block").id}`);
  }
  const turn = (cell) => (cell.matches(".chosen") ? leave() : open(cell));
  panel.querySelector(".close").addEventListener("click", leave);
  panel.querySelector(".copy").addEventListener("click", (event) => {
    const text = panel.querySelector("code").textContent, button = event.target;
    const done = () => { button.textContent = "copied"; setTimeout(() => { button.textContent = "copy the command"; }, 1500); };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => getSelection().selectAllChildren(panel.querySelector("code")));
    else getSelection().selectAllChildren(panel.querySelector("code"));
  });

  // ---- keyboard

  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  document.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) turn(cell);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const cell = event.target.closest && event.target.closest(".cell");
    if (event.key === "Escape") {
      if (!panel.hidden) leave();
      else if (filtering()) { search.value = ""; status.value = ""; filter(); }
      return;
    }
    if (cell && STEPS[event.key]) {
      const [down, right] = STEPS[event.key];
      const rows = rowsOf(cell.closest("tbody")).filter((row) => !row.hidden);
      const row = rows[rows.indexOf(cell.parentElement) + down];
      const next = row && row.cells[cell.cellIndex + right];
      if (next && next.matches(".cell")) { cell.tabIndex = -1; next.tabIndex = 0; next.focus(); if (!panel.hidden) open(next); }
      event.preventDefault();
    } else if (cell && event.key === "Enter") {
      turn(cell);
    } else if (!/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      const now = pages.findIndex((page) => !page.hidden);
      if (event.key === "/") { event.preventDefault(); search.focus(); search.select(); }
      if (event.key === "]" && pages[now + 1]) location.hash = pages[now + 1].id;
      if (event.key === "[" && pages[now - 1]) location.hash = pages[now - 1].id;
    }
  });

  // ---- print: whole tables, with their legends

  let opened = [];
  addEventListener("beforeprint", () => { opened = all(".page:not([hidden]) .reading:not([open])"); for (const box of opened) box.open = true; });
  addEventListener("afterprint", () => { for (const box of opened) box.open = false; });

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
