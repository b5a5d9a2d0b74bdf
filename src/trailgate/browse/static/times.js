// Shows times in UTC in local time too: in the title of what the pointer is on, and below the times of the row that the keyboard is in; without it times are in UTC alone.
// Swedish dates have the form 2026-01-05 10:40:02
const form = new Intl.DateTimeFormat("sv", {
  ...Object.fromEntries(["month", "day", "hour", "minute", "second"].map((part) => [part, "2-digit"])), year: "numeric", timeZoneName: "short",
});
const timed = "time[datetime], [data-times]";

/** Returns the local time of a time, or of two that a slash separates; "" if the browser has no such time. */
export function localTime(times) {
  const moments = times.split("/").map((one) => new Date(one));
  if (moments.some((one) => Number.isNaN(one.getTime()))) return "";
  return `${moments.map((one) => form.format(one)).join(" to ")} (local time)`;
}

/** Adds the local time to the title of an element, once. */
function complete(shown) {
  if ("local" in shown.dataset) return;
  shown.dataset.local = localTime(shown.dataset.times ?? shown.dateTime);
  const title = shown.querySelector("title");
  if (title) title.textContent += `\n${shown.dataset.local}`;
  else shown.title = shown.dataset.local;
}

document.addEventListener("pointerover", (event) => {
  const shown = event.target.closest?.(timed);
  if (shown) complete(shown);
});
document.addEventListener("focusin", (event) => {
  const row = event.target.closest?.("tr, li, time");
  if (row?.matches("time")) complete(row);
  row?.querySelectorAll("time[datetime]").forEach(complete);
});
