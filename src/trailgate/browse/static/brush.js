// Chooses a span of time on a chart, by dragging over its bars or by Shift and the arrow keys on one, and leads to its operations; without it a bar leads to its own time.
import { localTime } from "./times.js";

const least = 6; // pixels of a drag: less is a click
const none = { chart: null, bars: [] };
let chosen = none;
let drag = null; // the chart, and where it was pressed
let anchor = null; // the bar that a span by keys is chosen from
let dragged = false; // the click that ends a drag follows no link

const barsOf = (chart) => [...chart.querySelectorAll("a.bar")];
const addressOf = (bar) => new URL(bar.href.baseVal, location.href);
const slotOf = (bar) => bar.querySelector(".slot");
const timesOf = (bar) => bar.querySelector("[data-times]").dataset.times;
/** Returns the bars and the gaps of a chart from left to right. */
const stopsOf = (chart) => [...chart.querySelectorAll("a.bar, .gap")].sort((one, two) => placeOf(one) - placeOf(two));
const placeOf = (stop) => stop.querySelector("rect").x.baseVal.value;

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
  const times = [bars[0], bars.at(-1)].map((bar, end) => timesOf(bar).split("/")[end]);
  const texts = times.map((one) => one.replace("T", " ").replace("Z", ""));
  note.textContent = `${texts.join(" to ")}: ${count.toLocaleString("en")} operations; ${localTime(times.join("/"))}`;
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

function unchoose() {
  if (chosen.chart) choose(chosen.chart, []);
  drag = anchor = null;
}

document.addEventListener("pointerdown", (event) => {
  unchoose();
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
document.addEventListener("pointercancel", unchoose);
document.addEventListener("dragstart", (event) => {
  if (event.target.closest?.("[data-brush]")) event.preventDefault();
});
document.addEventListener("click", (event) => {
  if (dragged) event.preventDefault();
  dragged = false;
}, true);

// The Tab key stops at one bar of a chart; arrow keys lead to the others, and to the gaps. The one with the focus is described below the chart.
document.addEventListener("focusin", (event) => {
  const stop = event.target.closest?.("[data-brush] :is(a.bar, .gap)");
  if (!stop) return;
  const chart = stop.closest("figure");
  for (const one of stopsOf(chart)) one.setAttribute("tabindex", one === stop ? "0" : "-1");
  const times = stop.dataset.times ?? timesOf(stop);
  chart.querySelector("output").textContent = `${stop.getAttribute("aria-label")}; ${localTime(times)}`;
});
document.addEventListener("focusout", (event) => {
  const chart = event.target.closest?.("[data-brush]");
  if (chart && chart !== chosen.chart) chart.querySelector("output").textContent = "";
});
document.addEventListener("keydown", (event) => {
  const stop = event.target.closest?.("[data-brush] :is(a.bar, .gap)");
  if (event.key === "Escape") unchoose();
  if (!stop) return;
  const chart = stop.closest("figure");
  if (event.key === "Enter" && chosen.bars.length > 1) {
    event.preventDefault();
    location.assign(span(chosen.bars));
  }
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const bars = barsOf(chart);
  const stops = event.shiftKey && bars.includes(stop) ? bars : stopsOf(chart);
  const next = stops[stops.indexOf(stop) + step];
  if (!next) return;
  event.preventDefault();
  if (!event.shiftKey) unchoose();
  next.focus();
  if (!event.shiftKey || !bars.includes(next)) return;
  anchor ??= stop;
  const ends = [bars.indexOf(anchor), bars.indexOf(next)].sort((one, two) => one - two);
  choose(chart, bars.slice(ends[0], ends[1] + 1));
});
