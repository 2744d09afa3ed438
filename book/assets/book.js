// Sort and filter for tables of class "rag-sortable"; cards on a phone for tables of long texts. Without this script
// they are plain tables.
"use strict";

(() => {
  const FILTERS = ["Table", "Rescored", "Rerun", "Published evidence"];
  // rows that are shown at first: more would make a page without end
  const FIRST = 40;

  // the verdict of a cell, or the word for why it has none; a speed has a value and is not compared
  const said = (cell) => {
    const word = cell.querySelector(".rag-verdict, .rag-absent");
    return word || !cell.querySelector("data") ? (word ?? cell).textContent.trim() : "not compared";
  };

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

    const more = document.createElement("button");
    more.type = "button";
    more.className = "rag-more";
    table.closest(".rag-scroll").after(more);
    let all = false;

    const filter = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = [...body.rows].filter((row) => {
        const text = row.textContent.toLowerCase();
        return (
          words.every((word) => text.includes(word)) &&
          selects.every(({ select, column }) => !select.value || said(row.cells[column]) === select.value)
        );
      });
      const shown = new Set(all ? found : found.slice(0, FIRST));
      rows.forEach((row) => { row.hidden = !shown.has(row); });
      count.textContent = `${found.length} of ${rows.length} rows`;
      more.hidden = shown.size === found.length;
      more.textContent = `Show all ${found.length} rows`;
    };
    more.addEventListener("click", () => { all = true; filter(); });
    tools.addEventListener("input", filter);
    // a link to one row shows it, whatever stands before it
    const target = () => {
      const row = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("tr");
      if (!row || !rows.includes(row) || !row.hidden) return;
      all = true;
      filter();
      row.scrollIntoView();
    };
    addEventListener("hashchange", target);
    // printed, the whole table is wanted
    addEventListener("beforeprint", () => { all = true; filter(); });
    filter();
    target();

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
        filter();
      });
    });
  };

  document.querySelectorAll("table.rag-sortable").forEach(enhance);

  // on a phone a sentence in the third column has three words a line, or is out of sight
  const SENTENCE = 60;
  const wordy = ({ cells }) => cells.length > 2 && [...cells].slice(1).some((cell) => cell.textContent.length > SENTENCE);
  document.querySelectorAll("table.rag-table").forEach((table) => {
    if ([...table.tBodies[0].rows].some(wordy)) table.classList.add("rag-cards");
  });
})();
