// Brings the rows of the next page when the end of a table comes into view, and newer ones of a growing trail as they come; without it the links lead there.
const most = 5000; // rows of one page: then its links lead on
const every = 2000; // milliseconds until newer rows are asked for

async function bring(link) {
  const answer = await fetch(link.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const body = document.querySelector("table.ops tbody");
  const rows = page.querySelectorAll("table.ops tbody > tr");
  body.append(...[...rows].map((row) => document.adoptNode(row)));
  const next = page.querySelector("a[rel=next]");
  if (!next) {
    link.remove();
    return;
  }
  link.replaceWith(document.adoptNode(next));
  if (body.rows.length < most) watch(next);
}

function watch(link) {
  const seen = new IntersectionObserver((entries) => {
    if (document.hidden || !entries.some((one) => one.isIntersecting)) return;
    seen.disconnect();
    const go = () => bring(link).catch(() => {}); // the server has ended: the link stays
    if ("newer" in link.dataset) setTimeout(go, every);
    else go();
  });
  seen.observe(link);
}

const link = document.querySelector("a[rel=next]");
if (link && document.querySelector("table.ops")) watch(link);
else if (document.querySelector("[data-again]")) setTimeout(() => location.reload(), 500); // nothing is read yet
else if (link && !("newer" in link.dataset)) location.replace(link.href); // nothing was found yet
