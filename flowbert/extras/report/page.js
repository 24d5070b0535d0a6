// The page is whole without this: it adds sorting, filters, copies and selectors.
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const make = (tag, text, parent, properties = {}) => {
  const element = Object.assign(document.createElement(tag), { textContent: text, ...properties });
  parent.append(element);
  return element;
};
const button = (text, parent, action) => make("button", text, parent, { type: "button", onclick: action });
const copy = (text, pressed) => {
  const area = make("textarea", text, document.body);
  area.select(); // works for files, where navigator.clipboard may not
  document.execCommand("copy");
  area.remove();
  const label = pressed.textContent;
  pressed.textContent = "Copied";
  pressed.focus();
  setTimeout(() => { pressed.textContent = label; }, 1000);
};
all(".command").forEach((box) => {
  const pressed = button("Copy", box, () => copy(box.querySelector("code").textContent.trim(), pressed));
});
const results = document.querySelector("#results");
if (results) {
  const rows = () => all("tbody tr:not(.group)", results);
  const heads = all("thead th", results);
  const value = (row, column) => (column === 0 ? row.dataset.method : row.cells[column].dataset.value ? +row.cells[column].dataset.value : -Infinity);
  heads.forEach((head, column) => {
    if (head.classList.contains("interval")) return;
    const title = head.textContent;
    head.textContent = "";
    button(title, head, () => {
      const down = head.ariaSort !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.ariaSort = down ? "descending" : "ascending";
      const order = (a, b) => { const [x, y] = [value(a, column), value(b, column)]; return x < y ? -1 : x > y ? 1 : 0; };
      all("tbody", results).forEach((body) =>
        all("tr:not(.group)", body).sort((a, b) => (down ? order(b, a) : order(a, b))).forEach((row) => body.append(row)));
    });
  });
  const tools = document.querySelector("#table-tools");
  const off = { group: new Set(), method: new Set() };
  const filter = () => {
    rows().forEach((row) => { row.hidden = off.group.has(row.dataset.group) || off.method.has(row.dataset.method); });
    all("tbody", results).forEach((body) => { body.hidden = !body.querySelector("tr:not(.group):not([hidden])"); });
  };
  for (const kind of ["group", "method"]) {
    const names = new Set(rows().map((row) => row.dataset[kind]));
    if (names.size < 2 || names.size > 12) continue;
    names.forEach((name) => {
      const pressed = button(name, tools, () => {
        off[kind].delete(name) || off[kind].add(name);
        pressed.ariaPressed = !off[kind].has(name);
        filter();
      });
      pressed.ariaPressed = true;
    });
  }
  make("span", "", tools);
  const narrow = button("All tasks", tools, () => { narrow.ariaPressed = results.classList.toggle("all"); });
  narrow.className = "narrow";
  const texts = () => [
    heads.flatMap((head, column) => (column === 0 ? ["group", head.textContent] : head.classList.contains("interval") ? ["low", "high"] : [head.textContent])),
    ...rows().filter((row) => !row.hidden).map((row) => [...row.cells].flatMap((cell, column) =>
      column === 0 ? [row.dataset.group, row.dataset.label]
        : cell.classList.contains("interval") ? [cell.dataset.low, cell.dataset.high] : [cell.dataset.value])),
  ];
  const latex = (text) => text.replace(/[\\{}&%$#_^~]/g, (sign) => ({ "\\": "\\textbackslash{}", "^": "\\^{}", "~": "\\~{}" }[sign] ?? "\\" + sign));
  const formats = {
    CSV: (lines) => lines.map((line) => line.map((text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(",")).join("\n"),
    LaTeX: (lines) => `\\begin{tabular}{ll${"r".repeat(lines[0].length - 2)}}\n${lines.map((line) => line.map(latex).join(" & ") + " \\\\").join("\n")}\n\\end{tabular}`,
    Markdown: (lines) => [lines[0], lines[0].map((_, column) => (column < 2 ? "---" : "---:")), ...lines.slice(1)]
      .map((line) => `| ${line.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`).join("\n"),
  };
  for (const [name, format] of Object.entries(formats)) {
    const pressed = button(`Copy ${name}`, tools, () => copy(format(texts()) + "\n", pressed));
  }
  // One stop of the tab key for all cells; arrows move among them.
  const cells = () => all("td[data-interval]", results);
  cells().forEach((cell, number) => { cell.tabIndex = number ? -1 : 0; });
  results.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const cell = event.target.closest("td[data-interval]");
    if (!step || !cell) return;
    const shown = rows().filter((row) => !row.hidden && !row.parentNode.hidden);
    const next = shown[shown.indexOf(cell.parentNode) + step[0]]?.cells[cell.cellIndex + step[1]];
    if (next?.dataset.interval === undefined) return;
    event.preventDefault();
    cell.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
// A selector shows the parts of one task or method beside those of raw.
all("[data-select]").forEach((tools) => {
  const parts = all(`[data-${tools.dataset.select}]`, tools.parentNode);
  const kind = tools.dataset.select;
  const names = [...new Set(parts.map((part) => part.dataset[kind]))].filter((name) => name !== tools.dataset.base);
  const show = (name) => parts.forEach((part) => { part.hidden = ![name, tools.dataset.base].includes(part.dataset[kind]); });
  const chosen = names.includes(tools.dataset.chosen) ? tools.dataset.chosen : names[0];
  if (names.length) show(chosen);
  if (names.length < 2) return;
  const select = make("select", "", make("label", `${kind} `, tools), { onchange: () => show(select.value) });
  names.forEach((name) => make("option", name, select));
  select.value = chosen;
});
const search = document.querySelector("#search");
if (search) {
  const tables = all(".neighbours");
  const find = () => {
    const words = search.value.toLowerCase();
    let shown = 0;
    tables.forEach((table) => { table.hidden = shown >= 5 || !table.caption.textContent.toLowerCase().includes(words); shown += !table.hidden; });
  };
  search.closest("p").hidden = false;
  search.oninput = find;
  find();
}
const folded = all("details");
addEventListener("beforeprint", () => folded.forEach((each) => { each.dataset.open = each.open; each.open = true; }));
addEventListener("afterprint", () => folded.forEach((each) => { each.open = each.dataset.open === "true"; }));
