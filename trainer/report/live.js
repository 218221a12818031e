// The page of a run that goes on: asks for news and replaces the sections that have any.
(() => {
  const main = document.getElementById("live");
  let tag = "", lost = 0;

  const renew = (text) => {
    const news = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    if (!news) return;
    for (const details of main.querySelectorAll("details")) {
      const same = news.querySelector(`#${details.closest("section").id} details`);
      if (same) same.open = details.open;
    }
    const sections = (root) => [...root.querySelectorAll("section")];
    const alike = sections(main).map((s) => s.id).join() === sections(news).map((s) => s.id).join();
    if (!alike) {
      main.replaceChildren(...news.childNodes);
      return;
    }
    for (const s of sections(news)) {
      const old = document.getElementById(s.id);
      if (old.innerHTML === s.innerHTML && old.className === s.className) continue;
      const focused = old.contains(document.activeElement) && document.activeElement.getAttribute("class");
      old.replaceWith(s);
      if (focused) s.getElementsByClassName(focused)[0]?.focus({preventScroll: true});
    }
  };

  const ask = async () => {
    try {
      const answer = await fetch(location.pathname, {headers: tag ? {"If-None-Match": tag} : {}, cache: "no-store"});
      if (answer.status === 200) {
        tag = answer.headers.get("ETag") ?? "";
        renew(await answer.text());
      } else if (answer.status !== 304) {
        throw new Error(answer.statusText);
      }
      lost = 0;
    } catch {
      const status = document.getElementById("status");
      if (++lost === 3 && status && !status.classList.contains("ended") && !status.classList.contains("failed")) {
        status.classList.add("lost");
        status.append(" Nothing is heard of the run any more: it has ended, or this page has no connection to it.");
      }
    }
    const over = document.querySelector("#status.ended, #status.failed");
    if (!over) setTimeout(ask, Math.min(1000 * 2 ** Math.max(lost - 3, 0), 30000));
  };
  setTimeout(ask, 500);
})();
