"use strict";
// The league table: which board is shown, and the difference of two picked rows. Everything shown was computed before
// (league.csv, league.pairs.csv); the address is #league?recipe=…&metric=…&a=…&b=….
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const page = document.querySelector("#league"), form = document.querySelector("#league .choose");
  const boards = all("#league .board");
  let picked = [];

  const asked = () => new URLSearchParams(location.hash.startsWith("#league?") ? location.hash.slice(8) : "");
  const shown = () => boards.find((board) => !board.hidden);
  const minus = (text) => text.replaceAll("-", "−");
  const signed = (text) => (parseFloat(text) > 0 ? "+" : "") + minus(text);
  const factsOf = (board) => JSON.parse(board.querySelector("script[data-board]").textContent);
  const turn = (text) => (text === "" || parseFloat(text) === 0 ? text : text.startsWith("-") ? text.slice(1) : `-${text}`);

  function element(name, text, className) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  // Lines of [data set, effect, low, high, q, verdict, note] of a minus b
  function linesOf(facts, a, b) {
    if (facts.pairs[`${a} ${b}`]) return facts.pairs[`${a} ${b}`];
    const other = { ahead: "behind", behind: "ahead" };
    return (facts.pairs[`${b} ${a}`] || []).map(([dataset, effect, low, high, q, verdict, note]) =>
      [dataset, turn(effect), turn(high), turn(low), q, other[verdict] || verdict, note]);
  }

  const SAID = {
    ahead: "beats {b} beyond chance on", behind: "falls behind {b} beyond chance on",
    "within chance": "does not differ from {b} beyond chance on", "not tested": "cannot be told from {b} on",
  };
  function answer(a, b, lines) {
    const parts = Object.entries(SAID).map(([word, text]) => {
      const on = lines.filter((line) => line[5] === word).map((line) => line[0]);
      return on.length ? `${text.replace("{b}", b)} ${on.join(", ")}` : "";
    });
    return `${a} ${parts.filter(Boolean).join("; it ")}.`;
  }

  function compare(board) {
    const box = board.querySelector(".pair"), facts = factsOf(board);
    const rows = all("tr[data-encoder]", board);
    for (const row of rows) {
      const on = picked.includes(row.dataset.encoder);
      row.toggleAttribute("data-picked", on);
      row.querySelector(".pick").setAttribute("aria-pressed", String(on));
    }
    box.replaceChildren();
    if (picked.length < 2) {
      box.hidden = !picked.length;
      if (picked.length) box.append(element("p", `${facts.rows[picked[0]].label}: pick a second row to compare it with.`));
      return;
    }
    box.hidden = false;
    const [a, b] = picked.map((encoder) => facts.rows[encoder]), lines = linesOf(facts, ...picked);
    box.append(element("h3", `${a.label} against ${b.label}`));
    if (!lines.length) { box.append(element("p", "No data set has both.")); return; }
    box.append(element("p", answer(a.label, b.label, lines), "answer"));
    const table = element("table", undefined, "plain"), scroll = element("div", undefined, "scroll");
    const head = table.createTHead().insertRow();
    for (const text of ["Data set", a.label, b.label, `Difference, ${facts.unit}`, "95 %", "q", ""]) {
      const cell = element("th", text, text === "Data set" ? "name" : "");
      cell.scope = "col";
      head.append(cell);
    }
    const body = table.createTBody();
    for (const [dataset, effect, low, high, q, verdict, note] of lines) {
      const row = body.insertRow(), name = element("th", dataset);
      name.scope = "row";
      row.append(name, element("td", a.scores[dataset]), element("td", b.scores[dataset]), element("td", signed(effect), verdict.replace(" ", "-")));
      row.append(element("td", low ? `${minus(low)} to ${minus(high)}` : ""), element("td", q), element("td", note || verdict, "name"));
    }
    scroll.append(table);
    box.append(scroll, element("p", `Cost: ${a.label} ${a.cost}, ${b.label} ${b.cost}, all stages that a score needs.${facts.one_seed ? " One seed: another training may give another answer." : ""}`, "soft"));
  }

  function write() {
    const board = shown(), words = new URLSearchParams({ recipe: board.dataset.recipe, metric: board.dataset.metric });
    picked.forEach((encoder, i) => words.set("ab"[i], encoder));
    history.replaceState(null, "", `#league?${words}`);
  }

  function choose(recipe, metric) {
    const mine = boards.filter((board) => board.dataset.recipe === recipe);
    const board = mine.find((one) => one.dataset.metric === metric) || mine[0] || boards[0];
    for (const other of boards) other.hidden = other !== board;
    form.elements.recipe.value = board.dataset.recipe;
    form.elements.metric.replaceChildren(...boards.filter((one) => one.dataset.recipe === board.dataset.recipe).map((one) => new Option(one.dataset.words, one.dataset.metric)));
    form.elements.metric.value = board.dataset.metric;
    const here = new Set(all("tr[data-encoder]", board).map((row) => row.dataset.encoder));
    picked = picked.filter((encoder) => here.has(encoder));
    compare(board);
  }

  function read() {
    const words = asked(), board = document.getElementById(location.hash.slice(1));
    picked = [words.get("a"), words.get("b")].filter(Boolean);
    if (board && board.matches(".board")) choose(board.dataset.recipe, board.dataset.metric);
    else choose(words.get("recipe"), words.get("metric"));
  }

  if (boards.length) {
    form.hidden = false;
    form.elements.recipe.addEventListener("change", () => { choose(form.elements.recipe.value); write(); });
    form.elements.metric.addEventListener("change", () => { choose(form.elements.recipe.value, form.elements.metric.value); write(); });
    page.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-encoder]");
      if (!row || event.target.closest("a")) return;
      const encoder = row.dataset.encoder;
      picked = picked.includes(encoder) ? picked.filter((one) => one !== encoder) : [...picked.slice(-1), encoder];
      compare(shown());
      write();
      if (picked.length === 2) shown().querySelector(".pair").scrollIntoView({ block: "nearest" });
    });
    addEventListener("hashchange", read);
    read();
  }
})();
