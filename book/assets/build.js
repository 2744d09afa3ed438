// The figure of the page on building: quality against tokens for one task. Its state is in the address. The values are
// those of the table below it, from a script beside the page, so that it works from the disk.
"use strict";

(() => {
  const root = document.getElementById("rag-build");
  const tasks = window.METHODS ?? [];
  if (!root) return;
  const SVG = "http://www.w3.org/2000/svg";
  const TOP = 16, BOTTOM = 46, LEFT = 52, RIGHT = 14, NONE = 0.3; // NONE: share of the width for methods without tokens
  const RADIUS = 11;

  const fill = (element, attributes, children) => {
    Object.entries(attributes).forEach(([name, value]) => {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    });
    element.append(...children.filter((child) => child !== null));
    return element;
  };
  const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  const hundredths = (value) => (100 * value).toFixed(1);
  const count = (value) => Math.round(value).toLocaleString("en");
  const cost = ({ tokens, seconds }) => [
    tokens === null ? "tokens not stored" : tokens ? `${count(tokens)} tokens a question` : "no tokens",
    seconds === null ? null : `${Number(seconds.toPrecision(2))}\u00a0s`,
  ].filter(Boolean).join(", ");
  const words = (point) =>
    `${hundredths(point.value)}\u00a0% [${hundredths(point.low)}, ${hundredths(point.high)}], ${cost(point)}, `
    + `n\u00a0=\u00a0${count(point.n)}`;

  const state = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    const task = tasks[Number(given.get("task"))] ?? tasks[0];
    const models = [...new Set(task.points.map(({ model }) => model).filter(Boolean))];
    const model = models.includes(given.get("model")) ? given.get("model") : "";
    const points = task.points.filter((point) => !model || !point.asks || point.model === model);
    return { task, models, model, points };
  };
  const address = (changes) => {
    const { task, model } = state();
    const wanted = Object.entries({ task: tasks.indexOf(task), model, ...changes });
    return `#${new URLSearchParams(wanted.filter(([, value]) => value !== ""))}`;
  };

  // the ends of the axis: powers of ten, or their halves, around the values
  const around = (values) => {
    const ends = [Math.floor(2 * Math.log10(Math.min(...values))) / 2, Math.ceil(2 * Math.log10(Math.max(...values))) / 2];
    return ends[0] === ends[1] ? [ends[0] - 0.5, ends[1] + 0.5] : ends;
  };
  // a mark over another moves aside
  const apart = (marks, width) => {
    marks.forEach((mark, at) => {
      const over = () => marks.slice(0, at).some((other) =>
        Math.abs(other.x - mark.x) < 2 * RADIUS && Math.abs(other.y - mark.y) < 2 * RADIUS);
      while (over() && mark.x < width - RIGHT - RADIUS) mark.x += 3;
      while (over()) mark.x -= 3;
    });
    return marks;
  };

  const figure = ({ task, points }, width) => {
    const height = Math.min(420, Math.max(300, width * 0.55));
    const shown = points.map((point, at) => ({ point, number: at + 1 })).filter(({ point }) => point.tokens !== null);
    const asked = shown.map(({ point }) => point.tokens).filter(Boolean);
    const free = asked.length === shown.length ? 0 : NONE * (width - LEFT - RIGHT);
    const start = LEFT + free + (free ? RADIUS : 0);
    const [from, to] = asked.length ? around(asked) : [0, 1];
    const across = (tokens) => start + RADIUS + (width - RIGHT - start - 2 * RADIUS) * ((Math.log10(tokens) - from) / (to - from));
    const up = (value) => height - BOTTOM - (height - TOP - BOTTOM) * value;
    const without = shown.filter(({ point }) => !point.tokens);
    const marks = apart(shown.map((mark) => ({
      ...mark,
      x: mark.point.tokens ? across(mark.point.tokens) : LEFT + free * ((without.indexOf(mark) + 0.5) / without.length),
      y: up(mark.point.value),
    })), width);

    const text = (x, y, words, anchor = "middle") => draw("text", { x, y, "text-anchor": anchor }, words);
    const line = (x1, y1, x2, y2, look) => draw("line", { x1, y1, x2, y2, class: look });
    const grid = [0, 0.25, 0.5, 0.75, 1].flatMap((value) =>
      [line(LEFT, up(value), width - RIGHT, up(value), "grid"), text(LEFT - 6, up(value) + 4, `${100 * value} %`, "end")]);
    const steps = [1, 2, 5].flatMap((digit) => [-1, 0, 1, 2, 3, 4, 5, 6].map((power) => digit * 10 ** power))
      .filter((tokens) => asked.length && Math.log10(tokens) >= from - 1e-9 && Math.log10(tokens) <= to + 1e-9);
    const ticks = steps.flatMap((tokens) => [
      line(across(tokens), height - BOTTOM, across(tokens), height - BOTTOM + 5, "axis"),
      text(across(tokens), height - BOTTOM + 19, tokens.toLocaleString("en")),
    ]);
    const zero = free
      ? [line(LEFT + free, TOP, LEFT + free, height - BOTTOM, "axis"), text(LEFT + free / 2, height - BOTTOM + 19, "0")] : [];
    const drawn = marks.map(({ point, number, x, y }) => draw("a",
      { href: point.href, class: point.asks ? "asks" : "simple", "aria-label": `${number}. ${point.label}: ${words(point)}` },
      draw("title", {}, `${point.label}: ${words(point)}`),
      line(x, up(point.low), x, up(point.high), "bar"),
      point.asks ? draw("circle", { cx: x, cy: y, r: RADIUS })
        : draw("rect", { x: x - RADIUS + 1, y: y - RADIUS + 1, width: 2 * RADIUS - 2, height: 2 * RADIUS - 2 }),
      text(x, y + 4, String(number))));
    return draw("svg",
      { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `${task.name} ${task.measure} against tokens a question` },
      ...grid, line(LEFT, height - BOTTOM, width - RIGHT, height - BOTTOM, "axis"), ...ticks, ...zero, ...drawn,
      text(LEFT + (width - LEFT - RIGHT) / 2, height - 6, "tokens a question (logarithmic)"));
  };

  const choice = (label, name, options, value) => make("label", {}, label, make("select",
    { name, onchange: (event) => { location.hash = address({ model: "", [name]: event.target.value }); } },
    ...options.map(([key, text]) => make("option", { value: key, selected: String(key) === String(value) }, text))));

  const show = () => {
    if (!tasks.length) {
      root.replaceChildren(make("p", {}, "No run with answers is shown in this build."));
      return;
    }
    const wanted = state();
    const { task, models, model, points } = wanted;
    const focus = document.activeElement?.getAttribute("name");
    root.replaceChildren(
      make("form", { class: "rag-tools", "aria-label": "Choose what the figure shows", onsubmit: (event) => event.preventDefault() },
        choice("Task", "task", tasks.map(({ name }, at) => [at, name]), tasks.indexOf(task)),
        models.length > 1 ? choice("Model", "model", [["", "all"], ...models.map((name) => [name, name])], model) : null),
      make("figure", { class: "rag-figure rag-plane" },
        figure(wanted, Math.max(300, Math.min(760, root.clientWidth))),
        make("figcaption", { "aria-live": "polite" },
          `${task.name} Measure: ${task.measure}. Squares ask no language model, circles do. `
          + "Lines are 95\u00a0% intervals; each mark leads to its answers.")),
      make("ol", { class: "rag-plane" }, ...points.map((point) => make("li", {},
        make("a", { href: point.href }, point.label), make("span", { class: "rag-why" },
          [words(point), point.model].filter(Boolean).join(", "))))));
    if (focus) root.querySelector(`[name="${focus}"]`)?.focus();
  };
  addEventListener("hashchange", show);
  // drawn for the width that there is, so that its letters stay as large as the page's
  let drawnAt = root.clientWidth;
  addEventListener("resize", () => {
    if (root.clientWidth === drawnAt) return;
    drawnAt = root.clientWidth;
    show();
  });
  show();
})();
