// The page is whole without this: it adds sorting, a filter, copies and shades.
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
  setTimeout(() => { pressed.textContent = label; }, 1000);
};
all(".command").forEach((box) => {
  const pressed = button("Copy", box, () => copy(box.querySelector("code").textContent.trim(), pressed));
});
const rows = (table) => all("tbody tr:not(.group)", table);
const number = (cell) => parseFloat(cell.textContent.trim().replace("−", "-"));
all("table").forEach((table) => {
  const heads = all("thead th", table);
  heads.forEach((head, column) => {
    const title = head.textContent;
    if (!title || title === "95% interval") return;
    head.textContent = "";
    button(title, head, () => {
      const down = head.ariaSort !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.ariaSort = down ? "descending" : "ascending";
      const order = (a, b) => {
        const [x, y] = [a, b].map((row) => row.cells[column]);
        const difference = number(x) - number(y);
        return Number.isNaN(difference) ? isNaN(number(y)) - isNaN(number(x)) || x.textContent.localeCompare(y.textContent) : difference;
      };
      all("tbody", table).forEach((body) =>
        rows(body).sort((a, b) => (down ? order(b, a) : order(a, b))).forEach((row) => body.append(row)));
    });
  });
  if (rows(table).length > 20) {
    const tools = make("p", "", table.parentNode, { className: "tools" });
    table.before(tools);
    make("input", "", make("label", "Search ", tools), { type: "search", oninput: (event) => {
      const words = event.target.value.toLowerCase();
      rows(table).forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(words); });
    } });
  }
});
const results = document.querySelector("#results");
if (results) {
  const lead = all("thead th", results).findIndex((head) => head.textContent === "95% interval") - 1;
  if (lead > 0) results.tHead.rows[0].cells[lead].ariaSort = "descending";
  const lines = () => [results.tHead.rows[0], ...rows(results)].filter((row) => !row.hidden)
    .map((row) => [...row.cells].filter((_, column) => column !== lead + 1).map((cell) => cell.textContent.trim().replaceAll("−", "-")));
  const latex = (text) => text.replace(/[\\{}&%$#_^~]/g, (sign) => ({ "\\": "\\textbackslash{}", "^": "\\^{}", "~": "\\~{}" }[sign] ?? "\\" + sign));
  const formats = {
    CSV: (table) => table.map((line) => line.map((text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(",")).join("\n"),
    LaTeX: (table) => `\\begin{tabular}{l${"r".repeat(table[0].length - 1)}}\n${table.map((line) => line.map(latex).join(" & ") + " \\\\").join("\n")}\n\\end{tabular}`,
    Markdown: (table) => [table[0], table[0].map((_, column) => (column ? "---:" : "---")), ...table.slice(1)]
      .map((line) => `| ${line.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`).join("\n"),
  };
  const tools = make("p", "", results.parentNode.parentNode, { className: "tools" });
  results.parentNode.before(tools);
  for (const [name, format] of Object.entries(formats)) {
    const pressed = button(`Copy ${name}`, tools, () => copy(format(lines()) + "\n", pressed));
  }
}
const folded = all("details");
addEventListener("beforeprint", () => folded.forEach((each) => { each.dataset.open = each.open; each.open = true; }));
addEventListener("afterprint", () => folded.forEach((each) => { each.open = each.dataset.open === "true"; }));
