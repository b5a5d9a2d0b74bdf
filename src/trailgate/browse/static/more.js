// Brings the rows of the next page when the end of a table comes into view; without it the links lead there.
const most = 5000; // rows of one page: then its links lead on

async function bring(link) {
  const answer = await fetch(link.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const body = document.querySelector("table.ops tbody");
  const rows = page.querySelectorAll("table.ops tbody > tr");
  if (body) body.append(...[...rows].map((row) => document.adoptNode(row)));
  const next = page.querySelector("a[rel=next]");
  if (!next) {
    link.remove();
    return;
  }
  link.href = next.getAttribute("href");
  if (body && body.rows.length < most) watch(link);
}

function watch(link) {
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((one) => one.isIntersecting)) return;
    seen.disconnect();
    bring(link).catch(() => {}); // the server has ended: the link stays
  });
  seen.observe(link);
}

const link = document.querySelector("a[rel=next]");
if (link && document.querySelector("table.ops")) watch(link);
