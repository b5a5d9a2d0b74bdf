// Runs the statement by Ctrl+Enter, shows how long it runs, cancels it, and inserts the names of tables and columns that are clicked.
const text = document.querySelector("#sql");
const cancel = document.querySelector("[data-cancel]");
const status = document.querySelector("form.sql output");
let timer = 0; // of the statement that runs

text?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) text.form.requestSubmit();
});
text?.form.addEventListener("submit", (event) => {
  if (event.submitter === cancel) {
    if (!timer) return; // a statement of another page: the form is posted
    event.preventDefault();
    window.stop(); // the request ends, and with it the statement, even if the server has not begun it
    clearInterval(timer);
    timer = 0;
    cancel.hidden = true;
    status.textContent = "The statement was canceled.";
    return;
  }
  clearInterval(timer);
  cancel.hidden = false;
  const begun = Date.now();
  const show = () => { status.textContent = `Running for ${Math.round((Date.now() - begun) / 1000)} s`; };
  show();
  timer = setInterval(show, 1000);
});
addEventListener("pageshow", () => { // also by Back
  clearInterval(timer);
  timer = 0;
  status.textContent = "";
});
document.addEventListener("click", (event) => {
  const name = event.target.closest?.("[data-insert]")?.dataset.insert;
  if (!name) return;
  text.setRangeText(name, text.selectionStart, text.selectionEnd, "end");
  text.focus();
});
