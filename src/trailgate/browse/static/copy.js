// Copies the text beside a button; where the browser does not let it, the text is selected instead.
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  const text = document.getElementById(button.dataset.copy);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected: press Ctrl+C";
    }
  });
}
