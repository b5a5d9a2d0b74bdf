// Gives the messages that were changed as JSON lines, which the next capture takes, and marks what was repaired and captured; nothing is sent to the server.
const button = document.querySelector("#download");
const list = document.querySelector("#messages");
const messages = [...document.querySelectorAll(".bad-message")];
const kept = `quarantine ${location.pathname}`; // lives as long as the tab
// By the line of a message: its repaired text, and the digests of the files with it that were downloaded.
const repairs = JSON.parse(sessionStorage.getItem(kept) ?? "{}");

function keep() {
  try {
    sessionStorage.setItem(kept, JSON.stringify(repairs));
  } catch {
    // the texts are too large to be kept
  }
}

function mark(message) {
  const captured = list.dataset.captured.split(" ");
  const repair = repairs[message.dataset.line];
  const state = !repair ? "" : repair.files.some((one) => captured.includes(one)) ? "captured" : "repaired";
  message.querySelector(".state").textContent = state;
  message.dataset.state = state;
}

function lineOf(message) {
  const { reason, ...fields } = JSON.parse(message.dataset.line);
  return JSON.stringify({ ...fields, body: repairs[message.dataset.line].text });
}

async function download() {
  const changed = messages.filter((one) => one.dataset.state === "repaired");
  if (!changed.length) {
    button.textContent = "Nothing was repaired yet: change a message first";
    return;
  }
  const bytes = new TextEncoder().encode(changed.map((one) => `${lineOf(one)}\n`).join(""));
  if (crypto.subtle) { // a page of another machine without TLS has none
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    const digits = [...digest].map((one) => one.toString(16).padStart(2, "0")).join("");
    for (const one of changed) repairs[one.dataset.line].files.push(digits);
    keep();
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes], { type: "application/x-ndjson" }));
  link.download = "repaired.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
  button.textContent = `Download what was repaired as JSON lines (${changed.length})`;
}

for (const message of messages) {
  const text = message.querySelector("textarea");
  const line = message.dataset.line;
  if (!text) continue;
  if (repairs[line]) text.value = repairs[line].text;
  mark(message);
  text.addEventListener("input", () => {
    if (text.value === text.defaultValue) delete repairs[line];
    else repairs[line] = { text: text.value, files: [] };
    keep();
    mark(message);
  });
}
if (button) {
  button.hidden = false;
  button.addEventListener("click", download);
}

// A message goes to the workbench as a draft of this tab.
for (const open of document.querySelectorAll("[data-bench]")) {
  open.hidden = false;
  open.addEventListener("click", () => {
    const message = open.closest(".bad-message");
    const headers = Object.entries(JSON.parse(message.dataset.line).headers ?? {});
    const draft = {
      message: message.querySelector("textarea").value,
      headers: headers.map(([name, value]) => `${name}=${value}`).join("\n"),
    };
    const bench = new URL("workbench", location.href);
    sessionStorage.setItem(`workbench ${bench.pathname}`, JSON.stringify(draft));
    location.assign(bench);
  });
}
