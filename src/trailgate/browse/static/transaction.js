// Opens a transaction in the workbench, as a draft of this tab.
const open = document.querySelector("[data-message]");

async function draft() {
  const answer = await fetch(open.dataset.message);
  if (!answer.ok) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    open.textContent = page.querySelector("main .notice")?.textContent ?? "It cannot be opened";
    return;
  }
  const bench = new URL("workbench", location.href);
  sessionStorage.setItem(`workbench ${bench.pathname}`, await answer.text());
  location.assign(bench);
}

if (open) {
  open.hidden = false;
  open.addEventListener("click", draft);
}
