// Shows what properties make of a message as one types; without it the buttons of the form do.
const form = document.querySelector("#bench");
const result = document.querySelector("#result");
const wait = 120; // milliseconds after a key
let timer;
let asked = new AbortController();
const kept = `workbench ${location.pathname}`; // the name of the draft, which lives as long as the tab
const drafted = ["message", "headers", "properties", "form"];

/** Numbers the lines of each text, and marks those that a fault is at. */
function number() {
  const bad = new Map();
  for (const go of result.querySelectorAll(".faults .go")) {
    const lines = bad.get(go.dataset.pane) ?? new Set();
    bad.set(go.dataset.pane, lines.add(Number(go.dataset.line)));
  }
  for (const editor of form.querySelectorAll(".editor")) {
    const area = editor.querySelector("textarea");
    const lines = bad.get(editor.dataset.pane) ?? new Set();
    const gutter = editor.querySelector(".gutter");
    const count = area.value.split("\n").length;
    const state = `${count} ${[...lines].join()}`;
    area.setAttribute("aria-invalid", String(lines.size > 0));
    if (gutter.dataset.state === state) continue;
    gutter.dataset.state = state;
    gutter.replaceChildren(...Array.from({ length: count }, (_, at) => {
      const line = document.createElement("span");
      line.textContent = `${at + 1}`;
      if (lines.has(at + 1)) line.className = "bad";
      return line;
    }));
    gutter.scrollTop = area.scrollTop;
  }
}

/** Asks the server for the result of what the fields hold. */
async function ask() {
  asked.abort();
  asked = new AbortController();
  const fields = new URLSearchParams(new FormData(form));
  fields.set("part", "result");
  try {
    const answer = await fetch(form.action, { method: "POST", body: fields, signal: asked.signal });
    const text = await answer.text();
    const page = new DOMParser().parseFromString(text, "text/html");
    if (answer.ok) {
      const open = [...result.querySelectorAll("details")].map((one) => one.open);
      result.replaceChildren(...page.body.childNodes);
      result.querySelectorAll("details").forEach((one, at) => { one.open = open[at] ?? one.open; });
    } else {
      const said = document.createElement("p");
      said.className = "notice bad";
      said.textContent = text;
      result.replaceChildren(said);
    }
    number();
    result.removeAttribute("aria-busy");
  } catch (error) {
    if (error.name !== "AbortError") result.querySelector(".verdict")?.replaceChildren("The server does not answer.");
  }
}

/** Keeps the texts for the case that somebody leaves the page and comes back. */
function keep() {
  const texts = Object.fromEntries(drafted.map((name) => [name, form.elements[name].value]));
  try {
    sessionStorage.setItem(kept, JSON.stringify(texts));
  } catch {
    // the texts are too large to be kept
  }
}

/** Puts the texts of a draft into the fields, unless the page answers a button. */
function restore() {
  const draft = JSON.parse(sessionStorage.getItem(kept) ?? "null");
  if (!draft || "answered" in form.dataset) return;
  const changed = drafted.filter((name) => name in draft && form.elements[name].value !== draft[name]);
  if (!changed.length) return;
  for (const name of changed) form.elements[name].value = draft[name];
  const note = document.createElement("p");
  note.className = "notice";
  note.setAttribute("role", "status");
  note.id = "draft";
  const discard = document.createElement("button");
  discard.type = "button";
  discard.textContent = "Discard them";
  discard.addEventListener("click", () => {
    sessionStorage.removeItem(kept);
    location.replace(location.href);
  });
  note.append("These are the texts that you left here. ", discard);
  form.before(note);
  form.dispatchEvent(new Event("input"));
}

/** Selects the place of a fault in the text that it is in. */
function go(place) {
  const area = document.getElementById(place.dataset.pane);
  if (!area) return;
  area.closest("details")?.setAttribute("open", "");
  const lines = area.value.split("\n");
  const line = Number(place.dataset.line) - 1;
  const before = lines.slice(0, line).reduce((sum, one) => sum + one.length + 1, 0);
  const begin = before + Number(place.dataset.column) - 1;
  area.focus();
  area.setSelectionRange(begin, begin + Number(place.dataset.length));
  const height = Number.parseFloat(getComputedStyle(area).lineHeight);
  area.scrollTop = Math.max(0, (line - 3) * height);
}

for (const editor of form.querySelectorAll(".editor")) {
  const gutter = document.createElement("div");
  gutter.className = "gutter";
  gutter.setAttribute("aria-hidden", "true");
  editor.prepend(gutter);
  const area = editor.querySelector("textarea");
  area.addEventListener("scroll", () => { gutter.scrollTop = area.scrollTop; });
}
form.classList.add("live");
form.addEventListener("input", () => {
  result.setAttribute("aria-busy", "true"); // it belongs to an earlier text
  keep();
  clearTimeout(timer);
  timer = setTimeout(ask, wait);
  number();
});
form.addEventListener("click", (event) => {
  const place = event.target.closest(".go");
  if (place) go(place);
});
number();
if ("answered" in form.dataset) keep();
restore();
