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
      return; // the server has ended
    }
  }
  wait();
}

function wait() {
  const main = document.querySelector("main[data-every]");
  if (main) setTimeout(refresh, Number(main.dataset.every));
}

wait();
