// Lights the bytes of the element that is pointed at or has the focus, and the element of the byte that is.
const bytes = [...document.querySelectorAll("[data-leaf]")];
const elements = [...document.querySelectorAll("[data-first]")];

function light(first, last, leaf) {
  for (const one of bytes) {
    const number = Number(one.dataset.leaf);
    one.classList.toggle("lit", first <= number && number <= last);
  }
  for (const one of elements) {
    one.classList.toggle("lit", leaf !== null && Number(one.dataset.first) === leaf);
  }
}

function lightAt(target) {
  const element = target.closest?.("[data-first]");
  if (element) {
    light(Number(element.dataset.first), Number(element.dataset.last), Number(element.dataset.first));
    return;
  }
  const byte = target.closest?.("[data-leaf]");
  if (byte) light(Number(byte.dataset.leaf), Number(byte.dataset.leaf), Number(byte.dataset.leaf));
}

for (const event of ["mouseover", "focusin"]) {
  document.addEventListener(event, (one) => lightAt(one.target));
}
document.addEventListener("click", (event) => {
  const byte = event.target.closest?.("[data-leaf]");
  if (byte) document.getElementById(`t${byte.dataset.leaf}`)?.scrollIntoView({ block: "nearest" });
});
