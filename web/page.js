"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const state = $("live"), pause = $("pause"), keys = $("keys");
  let source, paused = false, last = "", busy = false, again = false, timer;

  // Takes the page anew and puts its content in place of what is shown. What was unfolded stays so.
  async function refresh() {
    if (busy) { again = true; return; }
    busy = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (answer.ok && !typing()) {
        const open = new Set();
        document.querySelectorAll("main details[open]").forEach((d) => open.add(nameOf(d)));
        const focused = document.activeElement && document.activeElement.getAttribute("href");
        $("main").replaceChildren(...next.getElementById("main").childNodes);
        document.querySelectorAll("main details").forEach((d) => { d.open = open.has(nameOf(d)); });
        if (focused) [...document.querySelectorAll("main [data-row]")].find((a) => a.getAttribute("href") === focused)?.focus();
        buttons();
        if (source && !next.body.dataset.stream) stop("ended");
      }
    } catch { state.textContent = "not connected"; }
    busy = false;
    waiting();
    if (again) { again = false; refresh(); }
  }
  const nameOf = (d) => (d.closest("[id]") || d).id + "/" + [...d.parentNode.children].indexOf(d);
  // What a person has begun to answer stays.
  const typing = () => document.activeElement?.matches("main form.answer *") ||
    [...document.querySelectorAll("main form.answer input:not([type=hidden])")].some((i) => i.value);

  function stop(why) {
    if (source) source.close();
    source = undefined;
    state.textContent = why;
    if (why === "ended") pause.hidden = true;
  }
  function start() {
    let address = document.body.dataset.stream;
    if (!address) return;
    if (last) {
      const u = new URL(address, location.href);
      u.searchParams.set("after", last);
      address = u.href;
    }
    source = new EventSource(address);
    source.onopen = () => { state.textContent = "live"; };
    source.onerror = () => { state.textContent = "not connected"; };
    source.addEventListener("changed", (e) => { last = e.lastEventId || last; refresh(); });
    source.addEventListener("end", () => { refresh(); stop("ended"); });
  }
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    if (paused) stop("paused"); else { start(); refresh(); }
  });
  // A browser has few connections to a server: a page that nobody sees gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (paused || !document.body.dataset.stream) return;
    if (document.hidden) stop("hidden"); else if (!source) { start(); refresh(); }
  });
  // Bars of what is in progress grow.
  setInterval(() => { if (source && !document.hidden && document.querySelector("main li.open")) refresh(); }, 5000);

  // Asks again for what the page did not wait for.
  function waiting() {
    clearTimeout(timer);
    if (!paused && document.querySelector("main .soon")) timer = setTimeout(refresh, 1000);
  }
  function buttons() {
    document.querySelectorAll("[data-copy]").forEach((b) => {
      b.hidden = false;
      b.onclick = async () => {
        await navigator.clipboard.writeText(await (await fetch(b.dataset.copy)).text());
        b.textContent = "copied";
      };
    });
  }
  function move(selector, by) {
    const all = [...document.querySelectorAll(selector)];
    let at = all.findIndex((e) => e === document.activeElement || e.contains(document.activeElement));
    at = at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1);
    if (!all[at]) return;
    if (!all[at].href) all[at].tabIndex = -1;
    all[at].focus();
    all[at].scrollIntoView({ block: "nearest" });
  }
  const help = () => { $("help").hidden = !$("help").hidden; keys.setAttribute("aria-expanded", String(!$("help").hidden)); };
  keys.addEventListener("click", help);
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select, textarea")) return;
    const rows = "main [data-row], main .timeline > li[id]", jumps = "main .timeline > li[data-jump]";
    const does = {
      j: () => move(rows, 1), k: () => move(rows, -1), J: () => move(jumps, 1), K: () => move(jumps, -1), "?": help,
      "/": () => { const f = $("filter"); if (f) { f.focus(); f.select(); } else location.href = "runs#filter"; },
      Enter: () => e.target.querySelector && e.target.querySelectorAll(":scope > details").forEach((d) => { d.open = !d.open; }),
    }[e.key];
    if (!does || (e.key === "Enter" && !e.target.matches("li"))) return;
    e.preventDefault();
    does();
  });
  keys.hidden = false;
  buttons();
  waiting();
  if (document.body.dataset.stream) { pause.hidden = false; start(); }
  if (location.hash === "#filter") $("filter")?.focus();
})();
