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
  const EMPTY = { of: "", repeat: 0, said: null, thought: "", read: null, score: null, mark: "", flags: [], measures: [], found: [], asked: [], strata: {} };
  // what stands beside a question: plain names for the strata and tasks whose own names tell a reader too little
  const NAMED = { task: "Set of questions", holds: "The passages hold, word for word", "own document": "The question's own document", data: "Data set" };
  const VALUES = { "not recognised": "not recognised by the authors' rule", contexts: "retrieved passages" };
  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  const fieldName = (name) => NAMED[name] ?? capital(name.replaceAll("_", " "));
  const fieldValue = (value) => VALUES[value] ?? value.replaceAll("_", " ");
  // "name: value | value; name: value", as selections.py writes it
  const conditionsOf = (text) => (text ? text.split("; ") : []).map((condition) => {
    const at = condition.indexOf(": ");
    return at < 0 ? [condition, [""]] : [condition.slice(0, at), condition.slice(at + 2).split(" | ")];
  });
  const rowsInWords = (text) => conditionsOf(text).map(([name, values]) =>
    `${name === "task" ? "" : `${fieldName(name)}: `}${values.map((value) => fieldValue(value || "main questions")).join(" or ")}`)
    .map((words, at) => (at ? words[0].toLowerCase() + words.slice(1) : words)).join("; ");
  // what stands where a licence forbids passing on the text; the question's id tells it from the others
  const WITHHELD = "[text withheld by its licence]";
  const readable = ({ withheld, question }) => !withheld && question !== WITHHELD;
  const title = ({ question, name }) => (question === WITHHELD ? `${name} (some texts withheld)` : question || name);
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
      const answered = outcomes.map(([group, scores, unparsed, measured = {}]) => ({
        group: groups[group],
        strata: { task: groups[group][0], ...groups[group][2] },
        rows: groups[group][4].map(([arm, model, own = {}], at) => ({
          arm: armNames[arm], model: models[model] ?? "", score: scores[at], unparsed: unparsed.includes(at), strata: own,
          values: Object.fromEntries(Object.entries(measured).map(([name, values]) => [name, (values || scores)[at]])) })),
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
        const groups = Object.entries(strata).map(([name, value]) => `${name}: ${value}`).join("; ");
        const question = text ?? wording.replace(/\{(\d+)\}/g, (_, place) => id.split(" | ")[place]);
        Object.assign(unit, { id: [task, split, id].join("|"), name: id, question,
          text: `${id} ${question} ${groups} ${task}`.toLowerCase() });
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
    const open = !["arm", "model", "show", "text", "unit", "rows", "measure"].some((name) => given.has(name));
    const first = experiment?.first ?? "";
    return {
      experiment,
      open,
      unknown: given.get("nb") && experiment?.name !== given.get("nb") ? given.get("nb") : "",
      arm: given.get("arm") ?? "",
      against: given.get("arm") ? given.get("against") ?? "" : "",
      model: given.get("model") ?? (open ? first : ""),
      show: given.get("show") in SHOW ? given.get("show") : open ? "disagree" : "all",
      text: given.get("text") ?? "",
      rows: given.get("rows") ?? "",
      measure: given.get("measure") in (experiment?.measures ?? {}) ? given.get("measure") : "",
      unit: given.get("unit") ?? "",
    };
  };
  const address = (changes) => {
    const { experiment, open, unknown, ...rest } = state();
    const wanted = { nb: experiment.name, ...rest, ...changes };
    if ("nb" in changes) Object.assign(wanted, { arm: "", against: "", model: "", unit: "", rows: "", measure: "" });
    if ("nb" in changes) delete wanted.show;
    const kept = Object.entries(wanted).filter(([, value]) => value);
    return `#${new URLSearchParams(kept)}`;
  };

  // --------------------------------------------------------------------------------------------------- one row

  const id = (unit) => [unit.task, unit.split, unit.id].join("|");
  const ofArms = (unit, { arm, against, model }) =>
    unit.rows.filter((row) => (!arm || row.arm === arm || row.arm === against) && (!model || !row.model || row.model === model));
  const meets = (unit, row, conditions) => conditions.every(([name, values]) => values.includes(row.strata[name] ?? unit.strata[name]));
  // of the list's answers, those of the rows that are selected, scored by the measure that is selected
  const mine = (unit, wanted) => {
    const conditions = conditionsOf(wanted.rows);
    const rows = ofArms(unit, wanted).filter((row) => meets(unit, row, conditions));
    if (!wanted.measure) return rows;
    const known = rows.filter(({ values }) => (values[wanted.measure] ?? null) !== null);
    return known.map((row) => ({ ...row, score: row.values[wanted.measure] }));
  };
  // the arm that was chosen stands first
  const inOrder = (rows, { arm, against }) => {
    const place = (row) => [arm, against].filter(Boolean).indexOf(row.of || row.arm);
    return arm ? [...rows].sort((a, b) => (place(a) + 9) % 9 - (place(b) + 9) % 9) : rows;
  };
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
    // right and wrong are of the score that marks the answers
    const { marks } = wanted.experiment;
    const graded = isGraded(rows) || Boolean(wanted.measure && !marks?.includes(wanted.measure));
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
    const plain = ["not scored", "unparsed", "timed"].includes(word) ? "not run" : "scored";
    const look = { right: "agrees", wrong: "differs" }[word] ?? plain;
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
  const strataFacts = (strata) => Object.entries(strata).map(([name, value]) => [fieldName(name), fieldValue(value)]);
  const answerFacts = (row, arms) => [["Model", row.model], ["Judges", row.of && (arms[row.of] ?? row.of)], ["Repeat", row.repeat || ""],
    ["Reply", row.flags.map((flag) => FLAGS[flag] ?? flag).join(", ")], ["Measures", row.measures.join(", ")], ...strataFacts(row.strata)];
  // a long true answer is folded after its beginning
  const LONG = 240;
  const trueAnswer = (text) => {
    if (text.length <= LONG) return text;
    const beginning = text.slice(0, LONG / 2).replace(/\s+\S*$/, "");
    return make("details", { class: "rag-gold" }, make("summary", {}, make("span", { class: "rag-beginning" }, `${beginning} … `),
      make("span", { class: "rag-unfold" })), text);
  };
  const isReleased = ({ model }) => model.startsWith("released");
  // what the authors did not release of an answer
  const lacks = (row) => {
    if (!isReleased(row) || row.asked.length) return null;
    const given = row.said === null && row.read === null ? "score" : "answer";
    return make("p", { class: "rag-run" }, row.found.length ? `The authors released the ${given} and the passages, without the prompt.`
      : `The authors released the ${given} alone, without prompt or evidence.`);
  };

  const detail = (unit, wanted, entry) => {
    const { arms, measures = {} } = wanted.experiment;
    // what the verdict measured, where it is not the score by which the answer is marked
    const measured = (row) => {
      const value = entry?.rows.find((listed) => listed.arm === row.arm && listed.model === row.model && !row.of)?.values[wanted.measure];
      const isOther = wanted.measure && !wanted.experiment.marks?.includes(wanted.measure);
      return isOther && (value ?? null) !== null ? [capital(measures[wanted.measure]), value.toFixed(2)] : ["", ""];
    };
    const shown = inOrder(ofArms(unit, wanted), wanted);
    return make("article", { class: "rag-question", "aria-label": "Question", tabindex: "-1" },
      make("h2", {}, title({ question: unit.question, name: unit.id })),
      facts([["True answer", trueAnswer(unit.gold ?? (readable(unit) ? "see the measures" : "withheld by its licence"))],
        ["Question's id", unit.id], [fieldName("task"), unit.task && !Object.values(unit.strata).includes(unit.task) && fieldValue(unit.task)], ["Split", unit.split === "test" ? "" : unit.split],
        ...strataFacts(unit.strata)]),
      readable(unit) ? null : make("p", { class: "rag-run" }, "Their licence forbids us to pass on the texts marked as withheld. Your own run shows them: ",
        make("code", {}, `make notebook NB=${wanted.experiment.name} && make book`), "."),
      make("div", { class: "rag-side-by-side" }, ...shown.map((row) => make("section", { class: "rag-answered" },
        make("h3", {}, arms[row.arm] ?? row.arm, " ", mark(row)),
        facts([measured(row), ...answerFacts(row, arms)]),
        lacks(row),
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
      rows: `Rows: ${rowsInWords(wanted.rows)}`, measure: `Measure: ${wanted.experiment.measures?.[wanted.measure]}`,
      against: `Beside: ${arms[wanted.against] ?? wanted.against}`, arm: `Arm: ${arms[wanted.arm] ?? wanted.arm}` };
    const without = { show: { show: "all" }, text: { text: "" }, model: { model: "" }, rows: { rows: "" }, measure: { measure: "" }, against: { against: "" }, arm: { arm: "", against: "" } };
    const set = Object.keys(said).filter((name) => (name === "show" ? wanted.show !== "all" : wanted[name]));
    const counts = set.map((name) => [name, units.filter((unit) => matches(unit, { ...wanted, ...without[name] })).length]);
    const helpful = counts.filter(([, count]) => count);
    const all = { arm: "", against: "", model: "", text: "", rows: "", measure: "", show: "all" };
    return make("div", { class: "rag-nothing" }, make("p", {}, "No question matches all filters."),
      make("ul", {}, ...helpful.map(([name, count]) => make("li", {},
        make("a", { href: address({ ...without[name], unit: "" }) }, `Lift “${said[name]}”`), `: ${counted(count)} questions`)),
      helpful.length ? null : make("li", {}, make("a", { href: address({ ...all, unit: "" }) }, "Lift all filters"))));
  };
  // the values of the strata by which the questions can be told apart
  const rowChoices = (units, { rows }) => {
    const values = new Map();
    new Set(units.flatMap((unit) => [unit.strata, ...unit.rows.map(({ strata }) => strata)])).forEach((strata) =>
      Object.entries(strata).forEach(([name, value]) => values.set(name, (values.get(name) ?? new Set()).add(value))));
    const several = [...values].filter(([, of]) => of.size > 1 && of.size <= 20);
    const offered = several.flatMap(([name, of]) => [...of].sort().map((value) => `${name}: ${value}`));
    const keys = rows && !offered.includes(rows) ? [rows, ...offered] : offered;
    return keys.map((key) => [key, rowsInWords(key)]);
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
    const compared = wanted.against && wanted.against !== wanted.arm && isGraded(asked.flatMap((unit) => mine(unit, wanted)));
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
    // rows of which the selected arms answered nothing are not offered
    const isAnswered = (rows) => units.some((unit) => wasAsked(unit, { ...wanted, rows }) && compares(mine(unit, { ...wanted, rows })));
    const choices = rowChoices(units, wanted).filter(([rows]) => rows === wanted.rows || isAnswered(rows));
    const measured = Object.entries(experiment.measures ?? {});
    // the measure of the scores, where there is only one
    const [onlyMark, ...otherMarks] = experiment.marks ?? [];
    const measure = experiment.measures?.[wanted.measure || (otherMarks.length ? "" : onlyMark)] ?? "";
    const active = [`chapter ${experiment.name.slice(0, 2)}`, experiment.arms[wanted.arm], experiment.arms[wanted.against], wanted.model,
      rowsInWords(wanted.rows), experiment.measures?.[wanted.measure], SHOW[wanted.show], wanted.text].filter(Boolean).join(", ");
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
        ...(measured.length > 1 || wanted.measure ? [choice("Measure", "measure", [["", "the score of each answer"], ...measured], wanted.measure)] : []),
        make("label", {}, "Contains", search),
        ...(choices.length ? [choice("Rows", "rows", [["", "all"], ...choices], wanted.rows)] : [])));
    const partly = legible.length < found.length ? `, ${counted(legible.length)} of ${counted(found.length)} readable` : "";
    const kind = wanted.show === "disagree" ? ` where ${wanted.against ? "the two arms" : "arms"} disagree` : "";
    const order = compared ? `; the largest difference between their scores is first` : "";
    const by = [rowsInWords(wanted.rows), measure && `measure: ${measure}`].filter(Boolean).map((words) => `; ${words}`).join("");
    const tallies = [wanted.arm, wanted.against].filter(Boolean).map((arm) => tally(asked, arm, wanted)).filter(Boolean);
    const scores = (unit) => compared && scoresOf(unit, wanted).every((score) => score !== null)
      ? make("span", { class: "rag-scores" }, scoresOf(unit, wanted).map((score, at) =>
        `${experiment.arms[[wanted.arm, wanted.against][at]]} ${score.toFixed(2)}`.replace(" -", " −")).join(", ")) : null;
    const missing = wanted.unknown && `No chapter “${wanted.unknown}” has answers here. Chapter ${experiment.name.slice(0, 2)} is shown instead.`;
    root.replaceChildren(...(missing ? [make("p", { class: "rag-run", role: "status" }, missing)] : []), filters,
      make("p", { class: "rag-tools rag-count" },
        make("output", {}, `${counted(found.length)} of ${counted(asked.length)} questions${kind}${partly}${by}${order}`),
        wanted.open && wanted.show === "disagree" ? make("a", { href: address({ show: "all" }) }, "Show all questions") : null),
      ...(asked.length ? tallies.map((text) => make("p", { class: "rag-tally" }, text)) : []),
      make("div", { class: "rag-viewer" },
        make("nav", { "aria-label": "Questions" },
          make("ol", { start: start + 1 }, ...listed.map((unit) =>
            make("li", {}, link(unit, title(unit), { "aria-current": unit === chosen && "true" }), scores(unit)))),
          make("p", {}, before && link(before, "Previous page"), " ", after && link(after, "Next page"))),
        chosen ? detail(part.find((unit) => id(unit) === chosen.id), wanted, chosen) : lifted(units, wanted)));
    root.removeAttribute("aria-busy");
    if (focus) root.querySelector(`[name="${focus}"]`)?.focus();
    else if (!first && wanted.unit) root.querySelector(".rag-question")?.focus({ preventScroll: innerWidth > 900 });
    first = false;
  };
  // what this build has of the texts that not every build has
  const noteBuild = () => {
    const note = document.getElementById("rag-viewer-build");
    if (!note || !experiments.length) return;
    const chapters = (chosen) => chosen.map(({ name }) => name.slice(0, 2)).join(", ");
    const released = experiments.filter(({ models }) => models.some((model) => isReleased({ model })));
    const withheld = experiments.filter((experiment) => experiment.withheld);
    note.textContent = [
      released.length ? `This build has answers that the authors released (chapters ${chapters(released)}); the menu “Model” names them.`
        : "This build has no answers that the authors released; your own run (make reproduce) fetches and shows them.",
      withheld.length ? `It leaves out texts that we may not pass on under their licence (in chapters ${chapters(withheld)}); your own run shows them.` : "",
    ].filter(Boolean).join(" ");
  };
  addEventListener("hashchange", draw);
  load("index").then(() => { noteBuild(); return draw(); }, () => root.replaceChildren(make("p", {}, "The answers of this build could not be loaded.")));
})();
