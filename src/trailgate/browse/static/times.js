// Shows the local time of a time in UTC while the pointer is on it; without it times are in UTC alone.
document.addEventListener("pointerover", (event) => {
  const shown = event.target.closest?.("time[datetime]:not([title])");
  if (shown) shown.title = `${new Date(shown.dateTime).toLocaleString()} (local time)`;
});
