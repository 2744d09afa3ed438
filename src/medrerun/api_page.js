"use strict";
const at = (id) => document.getElementById(id);
const MAX_SHOWN = 50;

// The link that the server prints carries the token behind #, which a browser sends to no server.
at("token").value = decodeURIComponent(location.hash.slice(1));
history.replaceState(null, "", location.pathname);

function add(parent, tag, text = "", className = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = className;
  parent.append(element);
  return element;
}

function addList(parent, title, lines) {
  if (!lines.length) return;
  add(parent, "h2", title);
  const list = add(parent, "ul");
  for (const [text, source] of lines.slice(0, MAX_SHOWN)) {
    const item = add(list, "li", text);
    if (source) add(item, "small", source);
  }
  if (lines.length > MAX_SHOWN) add(list, "li", `and ${lines.length - MAX_SHOWN} more`);
}

function show(answer) {
  const place = at("answer");
  place.replaceChildren();
  add(place, "p", answer.text, "text");
  addList(place, "Warnings", answer.warnings.map((warning) => [warning]));
  addList(place, "Notes", answer.notes.map((note) => [note]));
  addList(place, "Citations", answer.citations.map((citation) => [citation]));
  addList(place, "Evidence", answer.evidence.map((row) => [row.text, row.source]));
  if (answer.statement) {
    add(place, "h2", "Statement");
    add(place, "pre", `${answer.statement}\n\n${JSON.stringify(answer.parameters)}`);
  }
}

async function ask(event) {
  event.preventDefault();
  at("answer").replaceChildren();
  add(at("answer"), "p", "Asking ...");
  const headers = { "Content-Type": "application/json" };
  if (at("token").value) headers.Authorization = `Bearer ${at("token").value}`;
  try {
    const body = JSON.stringify({ question: at("question").value });
    const url = `ask/${encodeURIComponent(at("system").value)}`;
    const response = await fetch(url, { method: "POST", headers, body });
    const content = await response.json();
    if (!response.ok) throw new Error(content.error);
    show(content);
  } catch (error) {
    at("answer").replaceChildren();
    add(at("answer"), "p", error.message, "error");
  }
}

async function describe() {
  for (const name of await (await fetch("systems")).json()) add(at("system"), "option", name);
  const schema = await (await fetch("openapi.json")).json();
  const place = at("interface").querySelector("div");
  for (const [path, methods] of Object.entries(schema.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      add(place, "h3", `${method.toUpperCase()} ${path}`);
      const codes = Object.keys(operation.responses).join(", ");
      add(place, "p", `${operation.summary}. Status codes: ${codes}.`);
    }
  }
  for (const [name, model] of Object.entries(schema.components?.schemas ?? {})) {
    add(place, "h3", name);
    add(place, "pre", JSON.stringify(model.properties ?? {}, null, 1));
  }
}

at("form").addEventListener("submit", ask);
describe();
