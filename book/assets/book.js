// Sort and filter for tables of class "rag-sortable"; long tables folded; cards on a phone for tables of long texts.
// Without this script they are plain tables.
"use strict";

(() => {
  const FILTERS = ["Table", "Rescored", "Rerun", "Paper's system: published evidence", "Paper's system: rerun", "Here"];
  // rows that a scoreboard shows at first; a table with more than LONG shows FEW, for what follows it would be far away
  const PHONE = matchMedia("(max-width: 640px)").matches;
  const FIRST = PHONE ? 10 : 40;
  const LONG = 24;
  const FEW = 12;

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

  // Shows the `first` of the rows that `chosen` gives, and all on request, in print, or where a link leads to one.
  // Returns what shows them anew and how many were chosen.
  const fold = (table, first, chosen) => {
    const rows = [...table.tBodies[0].rows];
    const more = document.createElement("button");
    more.type = "button";
    more.className = "rag-more";
    table.closest(".rag-scroll").after(more);
    let all = false;
    const show = () => {
      const found = chosen();
      const shown = new Set(all ? found : found.slice(0, first));
      rows.forEach((row) => { row.hidden = !shown.has(row); });
      more.hidden = shown.size === found.length;
      more.textContent = `Show all ${found.length} rows`;
      return found.length;
    };
    const open = () => { all = true; show(); };
    more.addEventListener("click", open);
    addEventListener("beforeprint", open);
    const target = () => {
      const row = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest("tr");
      if (!row || !rows.includes(row) || !row.hidden) return;
      open();
      row.scrollIntoView();
    };
    addEventListener("hashchange", target);
    show();
    target();
    return show;
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

    const show = fold(table, FIRST, () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      return [...body.rows].filter((row) => {
        const text = row.textContent.toLowerCase();
        return (
          words.every((word) => text.includes(word)) &&
          selects.every(({ select, column }) => !select.value || said(row.cells[column]) === select.value)
        );
      });
    });
    const filter = () => { count.textContent = `${show()} of ${rows.length} rows`; };
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
        filter();
      });
    });
  };

  // where neither the sidebar nor its button fits, a long page lists its sections below its title
  const sections = document.querySelector(".bd-sidebar-secondary .page-toc ul, .bd-sidebar-secondary nav ul");
  const title = document.querySelector(".bd-article h1");
  if (title && sections && sections.querySelectorAll("a").length > 2) {
    const contents = document.createElement("details");
    contents.className = "rag-contents";
    const summary = document.createElement("summary");
    summary.textContent = "On this page";
    const list = sections.cloneNode(true);
    list.className = "";
    contents.append(summary, list);
    title.after(contents);
  }

  document.querySelectorAll("table.rag-sortable").forEach(enhance);
  document.querySelectorAll("table.rag-table:not(.rag-sortable)").forEach((table) => {
    const { rows } = table.tBodies[0];
    if (rows.length > LONG) fold(table, FEW, () => [...rows]);
  });

  // a card does not say what it has not
  document.querySelectorAll("table.rag-table td").forEach((cell) => {
    if (cell.textContent.trim() === "\u2013") cell.classList.add("rag-none");
  });

  // what two arms differ by stands in the last columns, which a phone would not show
  const compares = (table) => {
    const words = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim().toLowerCase());
    return words.some((word) => word.startsWith("difference")) && words.some((word) => /^p\b/.test(word));
  };

  // on a phone a sentence in the third column has three words a line, or is out of sight
  const SENTENCE = 60;
  const wordy = ({ cells }) => cells.length > 2 && [...cells].slice(1).some((cell) => cell.textContent.length > SENTENCE);
  document.querySelectorAll("table.rag-table").forEach((table) => {
    if (compares(table) || [...table.tBodies[0].rows].some(wordy)) table.classList.add("rag-cards");
  });
})();
