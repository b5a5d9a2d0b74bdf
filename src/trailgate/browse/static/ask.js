// Runs the statement by Ctrl+Enter.
const text = document.querySelector("#sql");
text?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) text.form.requestSubmit();
});
