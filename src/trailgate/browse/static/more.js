// Brings the rows of the next page when the end of a table comes into view, newer ones of a growing trail as they come, and the first ones of a search; without it the links lead there.
const most = 5000; // rows of one page: then its links lead on
const every = 2000; // milliseconds until newer rows are asked for
let stopped = false;
let onStop = false; // the keyboard is on the stop button, which is replaced with the progress

/** Returns the next page behind a link, or null if the server does not give it. */
async function pageOf(link) {
  const answer = await fetch(link.href);
  return answer.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
}

/** Puts what another page has under a selector in the place of what this one has. */
function take(page, selector) {
  const [here, there] = [document.querySelector(selector), page.querySelector(selector)];
  if (here && there) here.replaceWith(document.adoptNode(there));
  else if (here) here.remove();
}

/** Adds the rows of the next page, and returns the link to the page after it, or null. */
async function bring(link) {
  const page = await pageOf(link);
  if (!page) return null;
  const body = document.querySelector("table.ops tbody");
  const rows = page.querySelectorAll("table.ops tbody > tr");
  body.append(...[...rows].map((row) => document.adoptNode(row)));
  take(page, "#searched");
  if ("newer" in link.dataset && rows.length) {
    take(page, "#matches");
    document.dispatchEvent(new Event("more-matches"));
  }
  const next = page.querySelector("a[rel=next]");
  if (next) link.replaceWith(document.adoptNode(next));
  else link.remove();
  return next;
}

function watch(link) {
  if (!link || document.querySelector("table.ops tbody").rows.length >= most) return;
  const seen = new IntersectionObserver((entries) => {
    if (document.hidden || !entries.some((one) => one.isIntersecting)) return;
    seen.disconnect();
    const go = () => bring(link).then(watch).catch(() => {}); // the server has ended: the link stays
    if ("newer" in link.dataset) setTimeout(go, every);
    else go();
  });
  seen.observe(link);
}

/** Brings the rows that were there when a link was followed, and shows the same ones again. */
async function restore(link) {
  const { rows = 0, y = 0 } = history.state ?? {};
  const body = document.querySelector("table.ops tbody");
  while (link && !("newer" in link.dataset) && body.rows.length < rows) link = await bring(link);
  if (rows) scrollTo(0, y);
  watch(link);
}

/** Searches on until a row is found, everything is searched, or somebody stops it. */
async function search(link) {
  const stop = document.querySelector("#searched [data-stop]");
  if (stop) {
    stop.hidden = false;
    if (onStop) stop.focus();
    stop.addEventListener("click", () => {
      stopped = true;
      stop.hidden = true;
    });
  }
  const page = await pageOf(link);
  if (!page || stopped) return;
  onStop = stop !== null && document.activeElement === stop;
  take(page, "#found");
  take(page, "#searched");
  take(page, "nav[aria-label=Rows]");
  start();
}

function start() {
  const link = document.querySelector("a[rel=next]");
  if (document.querySelector("[data-again]")) setTimeout(() => location.reload(), 500); // what the page needs is not read yet
  else if (link && document.querySelector("table.ops")) restore(link).catch(() => {});
  else if (link && !("newer" in link.dataset)) search(link).catch(() => {});
}

// For the way back: how far the table was read.
document.addEventListener("click", (event) => {
  const body = document.querySelector("table.ops tbody");
  if (body && event.target.closest?.("a[href]")) history.replaceState({ rows: body.rows.length, y: scrollY }, "");
});
start();
