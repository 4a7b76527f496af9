// Runs outside of the pages under test and measures them.
function measured(frame) {
  const inside = frame.contentDocument, view = frame.contentWindow;
  const shown = (e) => e.getClientRects().length > 0 && view.getComputedStyle(e).visibility !== "hidden";
  const width = inside.documentElement.clientWidth;
  const strays = [];
  for (const e of inside.querySelectorAll("h1, h2, h3, p, li, dd, dt, figcaption, summary, svg text")) {
    const box = e.getBoundingClientRect();
    if (shown(e) && (box.left < -0.5 || box.right > width + 0.5)) strays.push("outside: " + e.textContent.slice(0, 60));
  }
  for (const chart of inside.querySelectorAll("svg.chart")) {
    const letters = [...chart.querySelectorAll("text")].filter(shown).map((e) => [e, e.getBoundingClientRect()]);
    letters.forEach(([a, p], i) => letters.slice(i + 1).forEach(([b, q]) => {
      const across = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      // Boxes have the height of a line. Characters are lower.
      if (across > 0 && down > 4) strays.push("overlap: " + a.textContent.slice(0, 40) + " / " + b.textContent.slice(0, 40));
    }));
    const lines = [...chart.querySelectorAll("line.rule")].map((e) => e.getBoundingClientRect());
    for (const [a, p] of letters) {
      // Characters are lower than the box of their line, and a label starts beside its own line.
      if (lines.some((q) => q.right > p.left + 1 && q.left < p.right - 1 && q.bottom > p.top + 3 && q.top < p.bottom - 3)) {
        strays.push("crossed by a line: " + a.textContent.slice(0, 40));
      }
    }
  }
  return {
    background: view.getComputedStyle(inside.body).backgroundColor,
    charts: [...inside.querySelectorAll("svg.chart")].map((e) => e.getBoundingClientRect()).map((b) => [b.width, b.height]),
    overflow: inside.documentElement.scrollWidth - width,
    height: inside.body.getBoundingClientRect().bottom,
    strays,
    loaded: view.performance.getEntriesByType("resource").map((e) => e.name),
    title: inside.title,
  };
}
addEventListener("load", () => {
  const result = document.createElement("pre");
  result.id = "measured";
  result.textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(measured));
  document.body.replaceChildren(result);
});
