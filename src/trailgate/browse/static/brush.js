// Chooses a span of time on a chart, by dragging over its bars or by Shift and the arrow keys on one, and leads to its operations; without it a bar leads to its own time.
const least = 6; // pixels of a drag: less is a click
const none = { chart: null, bars: [] };
let chosen = none;
let drag = null; // the chart, and where it was pressed
let anchor = null; // the bar that a span by keys is chosen from
let dragged = false; // the click that ends a drag follows no link

const barsOf = (chart) => [...chart.querySelectorAll("a.bar")];
const addressOf = (bar) => new URL(bar.href.baseVal, location.href);
const slotOf = (bar) => bar.querySelector(".slot");

/** Chooses bars that follow each other, marks them, and states their time. */
function choose(chart, bars) {
  if (chosen.chart && chosen.chart !== chart) choose(chosen.chart, []);
  chosen = bars.length ? { chart, bars } : none;
  const brush = chart.querySelector(".brush");
  const note = chart.querySelector("output");
  if (!bars.length) {
    brush.setAttribute("width", 0);
    brush.removeAttribute("x");
    note.textContent = "";
    return;
  }
  const [first, last] = [slotOf(bars[0]), slotOf(bars.at(-1))];
  brush.setAttribute("x", first.x.baseVal.value);
  brush.setAttribute("width", last.x.baseVal.value + last.width.baseVal.value - first.x.baseVal.value);
  const count = bars.reduce((sum, bar) => sum + Number(bar.dataset.count), 0);
  const times = span(bars).searchParams;
  note.textContent = `${times.get("from_time")} to ${times.get("to_time")}: ${count.toLocaleString("en")} operations`;
}

/** Returns the address of the operations of bars that follow each other. */
function span(bars) {
  const found = addressOf(bars[0]);
  found.searchParams.set("to_time", addressOf(bars.at(-1)).searchParams.get("to_time"));
  return found;
}

/** Returns the bars of a chart that have a part between two places of the window. */
function between(chart, one, two) {
  const [low, high] = [Math.min(one, two), Math.max(one, two)];
  return barsOf(chart).filter((bar) => {
    const box = slotOf(bar).getBoundingClientRect();
    return box.left <= high && low <= box.right;
  });
}

function stop() {
  if (chosen.chart) choose(chosen.chart, []);
  drag = anchor = null;
}

document.addEventListener("pointerdown", (event) => {
  stop();
  dragged = false;
  const svg = event.target.closest?.("[data-brush] svg");
  if (svg && event.button === 0 && event.isPrimary) drag = { chart: svg.closest("figure"), x: event.clientX };
});
document.addEventListener("pointermove", (event) => {
  if (!drag?.chart.isConnected || !event.isPrimary || (!dragged && Math.abs(event.clientX - drag.x) < least)) return;
  dragged = true;
  choose(drag.chart, between(drag.chart, drag.x, event.clientX));
});
document.addEventListener("pointerup", () => {
  if (drag && dragged && chosen.bars.length) location.assign(span(chosen.bars));
  drag = null;
});
document.addEventListener("pointercancel", stop);
document.addEventListener("dragstart", (event) => {
  if (event.target.closest?.("[data-brush]")) event.preventDefault();
});
document.addEventListener("click", (event) => {
  if (dragged) event.preventDefault();
  dragged = false;
}, true);

// The Tab key stops at one bar of a chart; arrow keys lead to the others.
document.addEventListener("focusin", (event) => {
  const bar = event.target.closest?.("[data-brush] a.bar");
  for (const one of bar ? barsOf(bar.closest("figure")) : []) one.setAttribute("tabindex", one === bar ? "0" : "-1");
});
document.addEventListener("keydown", (event) => {
  const bar = event.target.closest?.("a.bar");
  const chart = bar?.closest("[data-brush]");
  if (event.key === "Escape") stop();
  if (!chart) return;
  if (event.key === "Enter" && chosen.bars.length > 1) {
    event.preventDefault();
    location.assign(span(chosen.bars));
  }
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const bars = barsOf(chart);
  const next = bars[bars.indexOf(bar) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
  if (!event.shiftKey) {
    stop();
    return;
  }
  anchor ??= bar;
  const ends = [bars.indexOf(anchor), bars.indexOf(next)].sort((one, two) => one - two);
  choose(chart, bars.slice(ends[0], ends[1] + 1));
});
