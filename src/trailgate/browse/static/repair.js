// Gives the messages that were changed as JSON lines, which the next capture takes; nothing is sent to the server.
const button = document.querySelector("#download");

function repaired() {
  const lines = [];
  for (const message of document.querySelectorAll(".bad-message")) {
    const text = message.querySelector("textarea");
    if (!text || text.value === text.defaultValue) continue;
    const { reason, ...fields } = JSON.parse(message.dataset.line);
    lines.push(JSON.stringify({ ...fields, body: text.value }));
  }
  return lines;
}

function download() {
  const lines = repaired();
  if (!lines.length) {
    button.textContent = "Nothing was repaired yet: change a message first";
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "application/x-ndjson" }));
  link.download = "repaired.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
  button.textContent = `Download what was repaired as JSON lines (${lines.length})`;
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
