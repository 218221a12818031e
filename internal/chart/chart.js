"use strict";
// The figures under the pointer, or under the cursor keys, and a legend that shows and hides. The page works without.
(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  let shown = null; // the plot with the guide

  const hide = () => {
    if (!shown) return;
    tip.hidden = true;
    shown.querySelector(".guide")?.remove();
    shown = null;
  };

  // Each point of a path with its texts.
  const points = (path) => {
    const xs = path.dataset.x.split(" "), ys = path.dataset.y.split(" ");
    return path.getAttribute("d").slice(1).split("L").map((p, i) => ({at: parseFloat(p), x: xs[i], y: ys[i]}));
  };
  const visible = (area) => [...area.querySelectorAll(".curve")].filter((c) => !c.closest(".off"));
  // The curve that goes farthest to the right says which steps there are.
  const leader = (curves) => curves.map(points).reduce((a, b) => b.at(-1).at > a.at(-1).at ? b : a);
  const nearest = (all, at) => all.reduce((a, b) => Math.abs(b.at - at) < Math.abs(a.at - at) ? b : a);

  // show puts the guide at a percentage of the width.
  const show = (area, at) => {
    const curves = visible(area);
    if (!curves.length) return hide();
    if (shown !== area) hide();
    shown = area;
    const first = nearest(leader(curves), at);
    const lines = [`${area.dataset.unit} ${first.x}`];
    for (const c of curves.filter((c) => c.dataset.name)) {
      const p = nearest(points(c), first.at);
      lines.push(`${c.dataset.name} ${p.y}` + (p.x === first.x ? "" : ` (${area.dataset.unit} ${p.x})`));
    }
    let guide = area.querySelector(".guide");
    if (!guide) {
      guide = document.createElementNS("http://www.w3.org/2000/svg", "line");
      guide.setAttribute("class", "guide");
      guide.setAttribute("y2", "100%");
      area.append(guide);
    }
    guide.setAttribute("x1", first.at + "%");
    guide.setAttribute("x2", first.at + "%");
    area.dataset.at = first.at;
    tip.textContent = lines.join("\n");
    tip.hidden = false;
    const box = area.getBoundingClientRect(), x = box.left + box.width * first.at / 100;
    const left = x + 12 + tip.offsetWidth > innerWidth ? x - 12 - tip.offsetWidth : x + 12;
    tip.style.left = Math.max(left, 4) + "px";
    tip.style.top = Math.max(box.top + 8, 4) + "px";
  };

  const point = (e) => {
    const area = e.target.closest?.(".area");
    if (!area) return hide();
    const box = area.getBoundingClientRect();
    show(area, 100 * (e.clientX - box.left) / box.width);
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("pointerleave", hide);
  addEventListener("scroll", hide, {passive: true});
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (e) => {
    const area = e.target.closest?.(".area"), way = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    if (!area || !way || !visible(area).length) return;
    e.preventDefault();
    const all = leader(visible(area)), at = nearest(all, parseFloat(area.dataset.at ?? "100"));
    show(area, all[Math.min(Math.max(all.indexOf(at) + way, 0), all.length - 1)].at);
  });

  // A key of a legend that toggles is a button, which shows and hides what has its colour in all plots.
  for (const key of document.querySelectorAll(".keys.toggles li")) {
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.append(...key.childNodes);
    key.append(button);
    button.addEventListener("click", () => {
      const off = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!off));
      for (const curve of document.querySelectorAll(`.area g.${key.className}`)) curve.classList.toggle("off", off);
      hide();
    });
  }
})();
