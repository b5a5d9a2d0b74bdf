// Opens a transaction, or one operation, in the workbench, as a draft of this tab.
async function draft(open) {
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

document.addEventListener("click", (event) => {
  const open = event.target.closest?.("[data-message]");
  if (open) draft(open).catch(() => { open.textContent = "The server does not answer"; });
});
