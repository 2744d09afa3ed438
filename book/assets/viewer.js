// The answer viewer: filters the questions of one experiment, and shows one question with what each arm said. Its state
// is in the address, so that every view has a link. Works from the disk: the data are scripts, loaded when needed.
"use strict";

(() => {
  const root = document.getElementById("rag-viewer");
  if (!root) return;
  const PAGE = 50;
  // an unparsed reply is neither right nor wrong here, whatever it counts as in a score
  const SHOW = {
    all: "all questions",
    right: "answered correctly (scored 1)",
    wrong: "answered wrongly (below 1)",
    disagree: "arms disagree",
    unparsed: "unparsed (not readable)",
  };
  // what an answer lacks is not written
  const EMPTY = { of: "", repeat: 0, said: null, thought: "", read: null, score: null, mark: "", flags: [], measures: [], found: [], asked: [] };
  // what stands where a licence forbids passing on the text; the question's id tells it from the others
  const WITHHELD = "[text withheld by its licence]";
  const readable = ({ withheld, question }) => !withheld && question !== WITHHELD;
  const title = ({ question, name }) => (question === WITHHELD ? `${name} (text withheld)` : question || name);
  const counted = (number) => number.toLocaleString("en");
  const experiments = [];
  const lists = new Map(); // name -> questions of an experiment
  const names = new Map(); // "name-names-number" -> true
  const parts = new Map(); // "name-number" -> units
  const pending = new Map(); // name of a script -> what waits for it

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
    list: (name, groups, outcomes, order, sizes, perFile) => {
      const { arms, models } = experiments.find((experiment) => experiment.name === name);
      const armNames = Object.keys(arms);
      const partOf = sizes.flatMap((size, number) => Array(size).fill(number));
      const answered = outcomes.map(([group, scores, unparsed]) => ({
        group: groups[group],
        rows: groups[group][4].map(([arm, model], at) => ({
          arm: armNames[arm], model: models[model] ?? "", score: scores[at], unparsed: unparsed.includes(at) })),
      }));
      lists.set(name, order.map((outcome, at) => ({
        ...answered[outcome],
        part: partOf[at],
        file: `${name}-names-${Math.floor(at / perFile)}`,
        withheld: answered[outcome].group[3] === WITHHELD,
      })));
    },
    names: (name, number, given) => {
      const file = `${name}-names-${number}`;
      lists.get(name).filter((unit) => unit.file === file).forEach((unit, at) => {
        const [task, split, strata, wording] = unit.group;
        const [id, text] = given[at];
        const question = text ?? wording.replace(/\{(\d+)\}/g, (_, place) => id.split(" | ")[place]);
        Object.assign(unit, { id: [task, split, id].join("|"), name: id, question,
          text: `${id} ${question} ${strata} ${task}`.toLowerCase() });
      });
      names.set(file, true);
    },
    part: (name, number, { texts, units }) => {
      parts.set(`${name}-${number}`, units.map((unit) => {
        const whole = restored(unit, texts);
        return { ...whole, rows: whole.rows.map((row) => ({ model: "", ...EMPTY, ...row })) };
      }));
    },
  };

  const load = (file) => new Promise((resolve, reject) => {
    document.head.append(make("script", { src: `answers/${file}.js`, onload: resolve, onerror: reject }));
  });
  const loaded = async (key, into) => {
    if (!pending.has(key)) pending.set(key, load(key));
    await pending.get(key);
    return into.get(key);
  };
  const nameAll = (units) => Promise.all([...new Set(units.map(({ file }) => file))].map((file) => loaded(file, names)));
  // the question that an address names; the names are loaded file by file until it is there
  const withId = async (units, wanted) => {
    const there = () => units.find((unit) => unit.id === wanted);
    for (const file of wanted && !there() ? new Set(units.map((unit) => unit.file)) : []) {
      await loaded(file, names);
      if (there()) break;
    }
    return wanted ? there() : undefined;
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
  // whether a question was put to the arms and the model that are selected
  const wasAsked = (unit, wanted) => {
    const rows = mine(unit, wanted);
    if (wanted.arm) return [wanted.arm, wanted.against].every((arm) => !arm || rows.some((row) => row.arm === arm));
    return wanted.model ? rows.some((row) => row.model === wanted.model) : rows.length > 0;
  };
  const isRight = (row) => row.score === 1 && !row.unparsed;
  const isWrong = (row) => row.score !== null && row.score < 1 && !row.unparsed;
  const matches = (unit, wanted) => {
    if (!wasAsked(unit, wanted)) return false;
    const rows = mine(unit, wanted);
    const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.every((word) => unit.text.includes(word))) return false;
    if (wanted.show === "right") return rows.some(isRight);
    if (wanted.show === "wrong") return rows.some(isWrong);
    if (wanted.show === "unparsed") return rows.some((row) => row.unparsed);
    if (wanted.show === "disagree") return new Set(rows.map((row) => row.score)).size > 1;
    return true;
  };

  // of two arms that have scores rather than right and wrong, the score of each on a question
  const isGraded = (rows) => rows.some(({ score }) => score !== null && score !== 0 && score !== 1);
  const scoresOf = (unit, wanted) => [wanted.arm, wanted.against].map((arm) => mine(unit, wanted).find((row) => row.arm === arm)?.score ?? null);
  const byDifference = (units, wanted) => {
    const gap = (unit) => {
      const [first, second] = scoresOf(unit, wanted);
      return first === null || second === null ? -1 : Math.abs(first - second);
    };
    return units.map((unit) => ({ unit, gap: gap(unit) })).sort((a, b) => b.gap - a.gap).map(({ unit }) => unit);
  };

  // how many answers of an arm are right, wrong, unparsed: together all that it gave
  const tally = (units, arm, wanted) => {
    const answers = units.map((unit) => mine(unit, wanted).filter((row) => row.arm === arm));
    if (!answers.every(({ length }) => length === 1)) return null;
    const rows = answers.flat();
    const graded = isGraded(rows);
    const unparsed = rows.filter((row) => row.unparsed);
    const counts = [[graded ? "scored 1" : "right", rows.filter(isRight).length], [graded ? "scored below 1" : "wrong", rows.filter(isWrong).length],
      ["unparsed", unparsed.length], ["not scored", rows.filter((row) => row.score === null && !row.unparsed).length]];
    const said = counts.filter(([, count]) => count).map(([word, count]) => `${counted(count)} ${word}`).join(", ");
    const byDefault = unparsed.filter(({ score }) => score === 1).length;
    const meaning = byDefault ? ` The scores give an unparsed reply a default answer, and so count ${counted(byDefault)} of these ${counted(unparsed.length)} as right.` : "";
    return `${wanted.experiment.arms[arm] ?? arm}: ${said}; ${counted(rows.length)} asked.${meaning}`;
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
    const begun = location.hash;
    const units = await loaded(experiment.name, lists);
    if (wanted.text) await nameAll(units);
    let found = units.filter((unit) => matches(unit, wanted));
    if (!found.length && wanted.open) {
      Object.assign(wanted, { show: "all", model: "" });
      found = units.filter((unit) => matches(unit, wanted));
    }
    // what can be read goes first
    const legible = found.filter(readable);
    if (legible.length < found.length) found = [...legible, ...found.filter((unit) => !readable(unit))];
    // of questions with one answer there is nothing to disagree
    const compares = ({ length }) => wanted.show !== "disagree" || length > 1;
    const asked = units.filter((unit) => wasAsked(unit, wanted) && compares(mine(unit, wanted)));
    const compared = wanted.against && isGraded(asked.flatMap((unit) => mine(unit, wanted)));
    if (compared) found = [...byDifference(found.filter(readable), wanted), ...byDifference(found.filter((unit) => !readable(unit)), wanted)];
    const chosen = await withId(units, wanted.unit) ?? found[0];
    const part = chosen && await loaded(`${experiment.name}-${chosen.part}`, parts);
    const at = Math.max(0, found.indexOf(chosen));
    const start = Math.floor(at / PAGE) * PAGE;
    // a page of the list, and where the pages before and after it begin
    const listed = found.slice(start, start + PAGE);
    const before = start > 0 ? found[start - 1] : null;
    const after = found[start + PAGE] ?? null;
    await nameAll([chosen, before, after, ...listed].filter(Boolean));
    // another address was opened meanwhile
    if (location.hash !== begun) return;
    const focus = document.activeElement?.getAttribute("name");
    const search = make("input", { type: "search", name: "text", value: wanted.text,
      onchange: (event) => { location.hash = address({ text: event.target.value, unit: "" }); } });
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
    const order = compared ? "; the largest difference between their scores is first" : "";
    const tallies = [wanted.arm, wanted.against].filter(Boolean).map((arm) => tally(asked, arm, wanted)).filter(Boolean);
    const scores = (unit) => compared && scoresOf(unit, wanted).every((score) => score !== null)
      ? make("span", { class: "rag-scores" }, scoresOf(unit, wanted).map((score) => score.toFixed(2)).join(" and ")) : null;
    root.replaceChildren(filters,
      make("p", { class: "rag-tools rag-count" },
        make("output", {}, `${counted(found.length)} of ${counted(asked.length)} questions${kind}${partly}${order}`),
        wanted.open && wanted.show === "disagree" ? make("a", { href: address({ show: "all" }) }, "Show all questions") : null),
      ...(asked.length ? tallies.map((text) => make("p", { class: "rag-tally" }, text)) : []),
      make("div", { class: "rag-viewer" },
        make("nav", { "aria-label": "Questions" },
          make("ol", { start: start + 1 }, ...listed.map((unit) =>
            make("li", {}, link(unit, title(unit), { "aria-current": unit === chosen && "true" }), scores(unit)))),
          make("p", {}, before && link(before, "Previous page"), " ", after && link(after, "Next page"))),
        chosen ? detail(part.find((unit) => id(unit) === chosen.id), wanted) : lifted(units, wanted)));
    root.removeAttribute("aria-busy");
    if (focus) root.querySelector(`[name="${focus}"]`)?.focus();
    else if (!first && wanted.unit) root.querySelector(".rag-question")?.focus({ preventScroll: innerWidth > 900 });
    first = false;
  };
  addEventListener("hashchange", draw);
  load("index").then(draw, () => root.replaceChildren(make("p", {}, "The answers of this build could not be loaded.")));
})();
