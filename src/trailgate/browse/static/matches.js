// Counts the matches of the whole trail part by part, and shows the counts as they grow; without it the page has the counts of small trails only.
let stopped = false;
let onStop = false; // the keyboard is on the stop button, which is replaced with the counts

async function count() {
  const section = document.querySelector("#matches[data-more]");
  if (!section || stopped) return;
  const stop = section.querySelector("[data-stop]");
  stop.hidden = false;
  if (onStop) stop.focus();
  stop.addEventListener("click", () => {
    stopped = true;
    stop.hidden = true;
  });
  try {
    const answer = await fetch(section.dataset.more);
    if (!answer.ok || stopped) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const next = page.querySelector("#matches");
    // The counts stay while somebody chooses a time on the chart, or the keyboard is in them.
    onStop = document.activeElement === stop;
    const used = (section.contains(document.activeElement) && !onStop) || section.querySelector("[data-brush] output:not(:empty)");
    if (next && !used) section.replaceWith(document.adoptNode(next));
    setTimeout(count, used ? 500 : 50);
  } catch {
    // the server has ended: the counts stay as they are
  }
}

document.addEventListener("more-matches", count); // the trail has grown
requestAnimationFrame(() => setTimeout(count)); // after the rows are on the screen
