"use strict";
// The figures under the pointer, or under the cursor keys. The page works without.
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
  const nearest = (all, at) => all.reduce((a, b) => Math.abs(b.at - at) < Math.abs(a.at - at) ? b : a);

  // show puts the guide at a percentage of the width.
  const show = (area, at) => {
    const curves = [...area.querySelectorAll(".curve")];
    if (!curves.length) return;
    if (shown !== area) hide();
    shown = area;
    const first = nearest(points(curves[0]), at);
    const lines = [`${area.dataset.unit} ${first.x}`];
    for (const c of curves) {
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
    if (!area || !way || !area.querySelector(".curve")) return;
    e.preventDefault();
    const all = points(area.querySelector(".curve")), at = nearest(all, parseFloat(area.dataset.at ?? "100"));
    show(area, all[Math.min(Math.max(all.indexOf(at) + way, 0), all.length - 1)].at);
  });
})();
