// Sort and filter for tables of class "rag-sortable". Without this script they are plain tables.
"use strict";

(() => {
  const FILTERS = ["Paper", "Table", "Verdict"];

  // a verdict stands before its reason
  const said = (cell) => (cell.querySelector(".rag-verdict") ?? cell).textContent.trim();

  const key = (cell) => ({
    number: Number(cell.querySelector("data")?.value ?? Infinity),
    text: said(cell),
  });

  const labelled = (text, control) => {
    const label = document.createElement("label");
    label.append(text, control);
    return label;
  };

  const enhance = (table) => {
    const headers = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const tools = document.createElement("form");
    tools.className = "rag-tools";
    tools.setAttribute("role", "search");
    tools.setAttribute("aria-label", `Filter: ${table.caption.textContent}`);
    tools.addEventListener("submit", (event) => event.preventDefault());

    const search = document.createElement("input");
    search.type = "search";
    tools.append(labelled("Contains", search));
    const selects = headers.flatMap((header, column) => {
      const values = [...new Set(rows.map((row) => said(row.cells[column])))];
      if (!FILTERS.includes(header.textContent) || values.length < 2) return [];
      const select = document.createElement("select");
      select.add(new Option("all", ""));
      values.sort().forEach((value) => select.add(new Option(value, value)));
      tools.append(labelled(header.textContent, select));
      return [{ select, column }];
    });
    const count = document.createElement("output");
    tools.append(count);
    table.closest(".rag-scroll").before(tools);

    const filter = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows.forEach((row) => {
        const text = row.textContent.toLowerCase();
        row.hidden =
          !words.every((word) => text.includes(word)) ||
          !selects.every(({ select, column }) => !select.value || said(row.cells[column]) === select.value);
      });
      count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`;
    };
    tools.addEventListener("input", filter);
    filter();

    headers.forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      header.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = header.getAttribute("aria-sort") === "ascending";
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", down ? "descending" : "ascending");
        const sorted = rows
          .map((row) => ({ row, ...key(row.cells[column]) }))
          // numbers by size, then words; two words leave no number behind
          .sort((a, b) => a.number - b.number || a.text.localeCompare(b.text, "en", { numeric: true }));
        if (down) sorted.reverse();
        body.append(...sorted.map(({ row }) => row));
      });
    });
  };

  document.querySelectorAll("table.rag-sortable").forEach(enhance);
})();
