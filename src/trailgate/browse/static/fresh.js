// Brings what a page shows up to date while the trail is read, and when it grows; without it the page is as it was when it was opened.

async function refresh() {
  const main = document.querySelector("main[data-every]");
  if (!main) return;
  const used = main.contains(document.activeElement) || main.querySelector("[data-brush] output:not(:empty)");
  if (!used && !document.hidden) {
    try {
      const answer = await fetch(location.href);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.querySelector("main");
      if (answer.ok && next && next.innerHTML !== main.innerHTML) {
        main.replaceWith(document.adoptNode(next));
      }
    } catch {
      const note = document.createElement("p");
      note.className = "notice bad";
      note.setAttribute("role", "alert");
      note.textContent = `The server does not answer since ${new Date().toLocaleTimeString()}: trailgate browse has ended. What is below is from before.`;
      main.prepend(note);
      return;
    }
  }
  wait();
}

function wait() {
  const main = document.querySelector("main[data-every]");
  if (main) setTimeout(refresh, Number(main.dataset.every));
}

wait();
