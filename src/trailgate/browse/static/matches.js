// Counts the matches of the whole trail part by part, and shows the counts as they grow; without it the page has the counts of small trails only.
let stopped = false;

async function count() {
  const section = document.querySelector("#matches[data-more]");
  if (!section || stopped) return;
  const stop = section.querySelector("[data-stop]");
  stop.hidden = false;
  stop.addEventListener("click", () => {
    stopped = true;
    stop.hidden = true;
  });
  try {
    const answer = await fetch(section.dataset.more);
    if (!answer.ok || stopped) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.querySelector("#matches");
    // The chart stays while somebody chooses a time on it.
    if (next && !section.querySelector("[data-brush] output:not(:empty)")) section.replaceWith(document.adoptNode(next));
    setTimeout(count, 50);
  } catch {
    // the server has ended: the counts stay as they are
  }
}

document.addEventListener("more-matches", count); // the trail has grown
requestAnimationFrame(() => setTimeout(count)); // after the rows are on the screen
