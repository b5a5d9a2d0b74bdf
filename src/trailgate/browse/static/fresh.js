// Brings what a page shows up to date while the trail is being read; without it the page is as it was when it was opened.
const wait = 1500;

async function refresh() {
  const main = document.querySelector("main[data-growing]");
  if (!main) return;
  if (!main.contains(document.activeElement) && !document.hidden) {
    try {
      const answer = await fetch(location.href);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.querySelector("main");
      if (answer.ok && next) main.replaceWith(document.adoptNode(next));
    } catch {
      return; // the server has ended
    }
  }
  setTimeout(refresh, wait);
}

setTimeout(refresh, wait);
