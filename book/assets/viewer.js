// The answer viewer: filters the questions of one experiment, and shows one question with what each arm said. Its state
// is in the address, so that every view has a link. Works from the disk: the data are scripts, loaded when needed.
"use strict";

(() => {
  const root = document.getElementById("rag-viewer");
  if (!root) return;
  const PAGE = 50;
  const SHOW = {
    all: "all questions",
    right: "answered correctly (scored 1)",
    wrong: "answered wrongly (below 1)",
    disagree: "arms disagree",
    unparsed: "unparsed",
  };
  // what an answer lacks is not written
  const EMPTY = { of: "", repeat: 0, said: null, thought: "", read: null, score: null, mark: "", flags: [], measures: [], found: [], asked: [] };
  // what stands where a licence forbids passing on the text; the question's id tells it from the others
  const WITHHELD = "[text withheld by its licence]";
  const readable = ({ question }) => question !== WITHHELD;
  const title = ({ question, name }) => (question === WITHHELD ? `${name} (text withheld)` : question || name);
  const counted = (number) => number.toLocaleString("en");
  const experiments = [];
  const lists = new Map(); // name -> questions of an experiment
  const parts = new Map(); // "name-number" -> units
  const waiting = new Map();

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    });
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  };

  // texts that occur again are stored once for each part
  const restored = (value, texts) => {
    if (Array.isArray(value)) return value.map((item) => restored(item, texts));
    if (value === null || typeof value !== "object") return value;
    const keys = Object.keys(value);
    if (keys.length === 1 && keys[0] === "t" && Number.isInteger(value.t)) return texts[value.t];
    return Object.fromEntries(keys.map((key) => [key, restored(value[key], texts)]));
  };

  window.ANSWERS = {
    index: (listed) => experiments.push(...listed),
    list: (name, groups, units) => {
      const { arms, models } = experiments.find((experiment) => experiment.name === name);
      const names = Object.keys(arms);
      lists.set(name, units.map(([id, group, question, part, scores, unparsed]) => {
        const [task, split, strata, wording, by] = groups[group];
        const asked = question || wording.replace(/\{(\d+)\}/g, (_, at) => id.split(" | ")[at]);
        return {
          id: [task, split, id].join("|"),
          name: id,
          question: asked,
          part,
          text: `${id} ${asked} ${strata} ${task}`.toLowerCase(),
          rows: by.map(([arm, model], at) => ({
            arm: names[arm], model: models[model] ?? "", score: scores[at], unparsed: unparsed.includes(at) })),
        };
      }));
      waiting.get(name)?.();
    },
    part: (name, number, { texts, units }) => {
      parts.set(`${name}-${number}`, units.map((unit) => {
        const whole = restored(unit, texts);
        return { ...whole, rows: whole.rows.map((row) => ({ model: "", ...EMPTY, ...row })) };
      }));
      waiting.get(`${name}-${number}`)?.();
    },
  };

  const load = (file) => new Promise((resolve, reject) => {
    document.head.append(make("script", { src: `answers/${file}.js`, onload: resolve, onerror: reject }));
  });
  const loaded = async (key, into) => {
    if (!into.has(key)) {
      await new Promise((resolve, reject) => {
        waiting.set(key, resolve);
        load(key).catch(reject);
      });
    }
    return into.get(key);
  };

  // ------------------------------------------------------------------------------------------------- the address

  const state = () => {
    const given = new URLSearchParams(location.hash.slice(1));
    const experiment = experiments.find(({ name }) => name === given.get("nb")) ?? experiments[0];
    // an experiment that is opened without a filter shows where the arms of one model disagree
    const open = !["arm", "model", "show", "text", "unit"].some((name) => given.has(name));
    const first = experiment?.first ?? "";
    return {
      experiment,
      open,
      arm: given.get("arm") ?? "",
      against: given.get("arm") ? given.get("against") ?? "" : "",
      model: given.get("model") ?? (open ? first : ""),
      show: given.get("show") in SHOW ? given.get("show") : open ? "disagree" : "all",
      text: given.get("text") ?? "",
      unit: given.get("unit") ?? "",
    };
  };
  const address = (changes) => {
    const { experiment, open, ...rest } = state();
    const wanted = { nb: experiment.name, ...rest, ...changes };
    if ("nb" in changes) Object.assign(wanted, { arm: "", against: "", model: "", unit: "" });
    if ("nb" in changes) delete wanted.show;
    const kept = Object.entries(wanted).filter(([, value]) => value);
    return `#${new URLSearchParams(kept)}`;
  };

  // --------------------------------------------------------------------------------------------------- one row

  const id = (unit) => [unit.task, unit.split, unit.id].join("|");
  const mine = (unit, { arm, against, model }) =>
    unit.rows.filter((row) => (!arm || row.arm === arm || row.arm === against) && (!model || !row.model || row.model === model));
  const matches = (unit, wanted) => {
    const rows = mine(unit, wanted);
    if (!rows.length) return false;
    const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.every((word) => unit.text.includes(word))) return false;
    if (wanted.show === "right") return rows.some((row) => row.score === 1 && !row.unparsed);
    if (wanted.show === "wrong") return rows.some((row) => row.score !== null && row.score < 1);
    if (wanted.show === "unparsed") return rows.some((row) => row.unparsed);
    if (wanted.show === "disagree") return new Set(rows.map((row) => row.score)).size > 1;
    return true;
  };

  const mark = (row) => {
    const word = row.mark || (row.score === null ? "not scored" : row.score ? "right" : "wrong");
    const look = { right: "agrees", wrong: "differs" }[word] ?? "not run";
    const shown = make("span", { class: "rag-verdict", "data-verdict": look });
    shown.textContent = word;
    return shown;
  };
  const prompt = (messages) => make("div", { class: "rag-prompt" }, ...messages.map(([role, text]) =>
    make("div", { class: "rag-turn" }, make("span", { class: "rag-role" }, role), make("pre", {}, text))));
  const folded = (title, ...children) => make("details", {}, make("summary", {}, title), ...children);

  // what is known of a question or an answer: pairs of a word and its meaning; an empty one is left out
  const facts = (pairs) => make("dl", { class: "rag-facts" }, ...pairs.filter(([, value]) => value).flatMap(([name, value]) =>
    [make("dt", {}, name), make("dd", {}, value)]));
  const FLAGS = { cut: "cut at the token limit", overflow: "prompt too long", unparsed: "could not be read" };
  const answerFacts = (row) => [["Model", row.model], ["Judges", row.of], ["Repeat", row.repeat || ""],
    ["Reply", row.flags.map((flag) => FLAGS[flag] ?? flag).join(", ")], ["Measures", row.measures.join(", ")]];

  const detail = (unit, wanted) => {
    const arms = wanted.experiment.arms;
    return make("article", { class: "rag-question", "aria-label": "Question", tabindex: "-1" },
      make("h2", {}, title({ question: unit.question, name: unit.id })),
      facts([["True answer", make("strong", {}, unit.gold ?? (readable(unit) ? "see the measures" : "withheld by its licence"))],
        ["Question", unit.id], ["Task", unit.task], ["Rows", unit.split === "test" ? "" : unit.split],
        ...Object.entries(unit.strata).map(([name, value]) => [name[0].toUpperCase() + name.slice(1), value])]),
      make("div", { class: "rag-side-by-side" }, ...mine(unit, wanted).map((row) => make("section", { class: "rag-answered" },
        make("h3", {}, arms[row.arm] ?? row.arm, " ", mark(row)),
        facts(answerFacts(row)),
        row.thought ? folded("Thought", make("pre", {}, row.thought)) : null,
        row.said === null ? null : make("pre", {}, row.said),
        row.read === null || row.read === row.said ? null : make("p", {}, `Read as: ${row.read}`),
        row.found.length ? folded(`Retrieved (${row.found.length})`, make("ol", {}, ...row.found.map((text) => make("li", {}, text)))) : null,
        ...row.asked.map((messages, number) => folded(`Prompt ${number + 1} of ${row.asked.length}`, prompt(messages)))))));
  };

  // ------------------------------------------------------------------------------------------------- the page

  const choice = (label, name, options, value) => make("label", {}, label, make("select",
    { name, onchange: (event) => { location.hash = address({ [name]: event.target.value, unit: "" }); } },
    ...options.map(([key, text]) => make("option", { value: key, selected: key === value }, text))));
  // of the filters that select nothing together, those that can be lifted to see something
  const lifted = (units, wanted) => {
    const { arms } = wanted.experiment;
    const said = { show: `Show: ${SHOW[wanted.show]}`, text: `Contains: ${wanted.text}`, model: `Model: ${wanted.model}`,
      against: `Beside: ${arms[wanted.against] ?? wanted.against}`, arm: `Arm: ${arms[wanted.arm] ?? wanted.arm}` };
    const without = { show: { show: "all" }, text: { text: "" }, model: { model: "" }, against: { against: "" }, arm: { arm: "", against: "" } };
    const set = Object.keys(said).filter((name) => (name === "show" ? wanted.show !== "all" : wanted[name]));
    const counts = set.map((name) => [name, units.filter((unit) => matches(unit, { ...wanted, ...without[name] })).length]);
    const helpful = counts.filter(([, count]) => count);
    const all = { arm: "", against: "", model: "", text: "", show: "all" };
    return make("div", { class: "rag-nothing" }, make("p", {}, "No question matches all filters."),
      make("ul", {}, ...helpful.map(([name, count]) => make("li", {},
        make("a", { href: address({ ...without[name], unit: "" }) }, `Lift “${said[name]}”`), `: ${counted(count)} questions`)),
      helpful.length ? null : make("li", {}, make("a", { href: address({ ...all, unit: "" }) }, "Lift all filters"))));
  };
  const papers = () => [...new Set(experiments.map((experiment) => experiment.paper))];

  let first = true;
  // on a phone the filters are folded until they are asked for
  const narrow = () => innerWidth <= 640;
  const open = { filters: false };
  const draw = async () => {
    const wanted = state();
    const { experiment } = wanted;
    if (!experiment) {
      root.replaceChildren(make("p", {}, "No run with answers is shown in this build."));
      return;
    }
    root.setAttribute("aria-busy", "true");
    const units = await loaded(experiment.name, lists);
    let found = units.filter((unit) => matches(unit, wanted));
    if (!found.length && wanted.open) {
      Object.assign(wanted, { show: "all", model: "" });
      found = units.filter((unit) => matches(unit, wanted));
    }
    // what can be read goes first
    const legible = found.filter(readable);
    if (legible.length < found.length) found = [...legible, ...found.filter((unit) => !readable(unit))];
    const chosen = units.find((unit) => unit.id === wanted.unit) ?? found[0];
    const part = chosen && await loaded(`${experiment.name}-${chosen.part}`, parts);
    const focus = document.activeElement?.getAttribute("name");
    const search = make("input", { type: "search", name: "text", value: wanted.text,
      onchange: (event) => { location.hash = address({ text: event.target.value, unit: "" }); } });
    const at = Math.max(0, found.indexOf(chosen));
    const start = Math.floor(at / PAGE) * PAGE;
    const link = (unit, text, attributes = {}) => make("a", { href: address({ unit: unit.id }), ...attributes }, text);
    const active = [`chapter ${experiment.name.slice(0, 2)}`, experiment.arms[wanted.arm], experiment.arms[wanted.against], wanted.model,
      SHOW[wanted.show], wanted.text].filter(Boolean).join(", ");
    const filters = make("details", { class: "rag-filters", open: narrow() ? open.filters : true,
      ontoggle: (event) => { open.filters = event.target.open; } }, make("summary", {}, `Filters: ${active}`),
      make("form", { class: "rag-tools", role: "search", "aria-label": "Filter answers", onsubmit: (event) => event.preventDefault() },
        make("label", {}, "Paper", make("select", { name: "paper",
          onchange: (event) => { location.hash = address({ nb: experiments.find(({ paper }) => paper === event.target.value).name }); } },
          ...papers().map((paper) => make("option", { value: paper, selected: paper === experiment.paper }, paper)))),
        choice("Experiment", "nb", experiments.filter(({ paper }) => paper === experiment.paper)
          .map(({ name, title }) => [name, `${name.slice(0, 2)} ${title}`]), experiment.name),
        choice("Arm", "arm", [["", "all"], ...Object.entries(experiment.arms)], wanted.arm),
        wanted.arm && choice("Beside", "against", [["", "none"], ...Object.entries(experiment.arms)], wanted.against),
        ...(experiment.models.length > 1 ? [choice("Model", "model", [["", "all"], ...experiment.models.map((m) => [m, m])], wanted.model)] : []),
        choice("Show", "show", Object.entries(SHOW), wanted.show),
        make("label", {}, "Contains", search)));
    const partly = legible.length < found.length ? `, ${counted(legible.length)} of ${counted(found.length)} readable` : "";
    const kind = wanted.show === "disagree" ? ` where ${wanted.against ? "the two arms" : "arms"} disagree` : "";
    root.replaceChildren(filters,
      make("p", { class: "rag-tools rag-count" },
        make("output", {}, `${counted(found.length)} of ${counted(units.length)} questions${kind}${partly}`),
        wanted.open && wanted.show === "disagree" ? make("a", { href: address({ show: "all" }) }, "Show all questions") : null),
      make("div", { class: "rag-viewer" },
        make("nav", { "aria-label": "Questions" },
          make("ol", { start: start + 1 }, ...found.slice(start, start + PAGE).map((unit) =>
            make("li", {}, link(unit, title(unit), { "aria-current": unit === chosen && "true" })))),
          make("p", {},
            start > 0 ? link(found[start - 1], "Previous page") : null, " ",
            start + PAGE < found.length ? link(found[start + PAGE], "Next page") : null)),
        chosen ? detail(part.find((unit) => id(unit) === chosen.id), wanted) : lifted(units, wanted)));
    root.removeAttribute("aria-busy");
    if (focus) root.querySelector(`[name="${focus}"]`)?.focus();
    else if (!first && wanted.unit) root.querySelector(".rag-question")?.focus({ preventScroll: innerWidth > 900 });
    first = false;
  };
  addEventListener("hashchange", draw);
  load("index").then(draw, () => root.replaceChildren(make("p", {}, "The answers of this build could not be loaded.")));
})();
