// Charts: values under the pointer, highlighting of one kernel, filters by chapter and by kernel. By keyboard as well:
// a chart takes the focus, arrow keys go from mark to mark, Escape leaves. Without this script the charts are pictures
// with a data table below.
(() => {
  const NEAR = 44; // pixels from the pointer to a mark whose value is shown
  /** @type {WeakMap<Element, string>} the words of each mark; taken from its title so that they are not shown twice */
  const words = new WeakMap();
  /** @type {HTMLElement} */
  let tip;

  /** @param {Element} chart @returns {Element[]} the marks with words that a filter has not hidden */
  const marks = (chart) => [...chart.querySelectorAll(".mark")].filter((mark) => words.has(mark) && !mark.closest(".off"));

  /** Prepare a chart when it is first used. @param {SVGElement} chart */
  const prepare = (chart) => {
    if (chart.dataset.ready) return;
    chart.dataset.ready = "yes";
    for (const title of chart.querySelectorAll(".mark > title")) {
      words.set(title.parentElement, title.textContent);
      title.remove();
    }
  };

  /** Highlight everything of one kernel in a chart; null ends it. @param {Element} chart @param {string | null} name */
  const light = (chart, name) => {
    const all = chart.querySelectorAll("[data-series]");
    chart.classList.toggle("lighted", name !== null && all.length > 1);
    for (const one of all) one.classList.toggle("lit", one.getAttribute("data-series") === name);
  };

  /** Show a mark's value beside it. @param {Element} chart @param {Element | null} mark */
  const point = (chart, mark) => {
    for (const one of chart.querySelectorAll(".pointed")) one.classList.remove("pointed");
    tip.hidden = !mark;
    if (!mark) return light(chart, null);
    mark.classList.add("pointed");
    tip.textContent = words.get(mark) || "";
    const box = mark.getBoundingClientRect(), own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(4, box.left + box.width / 2 - own.width / 2), document.documentElement.clientWidth - own.width - 4);
    tip.style.left = left + "px";
    tip.style.top = (box.top - own.height - 8 > 0 ? box.top - own.height - 8 : box.bottom + 8) + "px";
    const series = mark.closest("[data-series]");
    light(chart, series ? series.getAttribute("data-series") : null);
  };

  /** The mark nearest to the pointer, or null. @param {Element} chart @param {number} x @param {number} y */
  const nearest = (chart, x, y) => {
    let best = null, least = NEAR * NEAR;
    for (const mark of marks(chart)) {
      const box = mark.getBoundingClientRect();
      const dx = Math.max(box.left - x, 0, x - box.right), dy = Math.max(box.top - y, 0, y - box.bottom);
      const far = dx * dx + dy * dy;
      if (far < least) { least = far; best = mark; }
    }
    return best;
  };

  /** A button that is pressed or not. @param {string} label @param {(on: boolean) => void} act */
  const chip = (label, act) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      act(on);
    });
    return button;
  };

  /** Filters above a chart with several kernels: by chapter, and of curves also one by one. @param {Element} figure */
  const addFilters = (figure) => {
    if (figure.dataset.filters) return;
    figure.dataset.filters = "yes";
    const groups = [...figure.querySelectorAll("svg [data-series]")];
    const names = [...new Set(groups.map((one) => one.getAttribute("data-series")))];
    if (names.length < 4) return;
    /** @type {Map<string, string>} */
    const chapters = new Map([...document.querySelectorAll("[data-rung]")].map((link) => [link.dataset.rung, link.dataset.chapter]));
    const chapterOf = (name) => chapters.get(name) || chapters.get(name.split(" (")[0]) || "others";
    /** @type {Set<string>} */
    const hidden = new Set();
    /** @type {Map<string, HTMLButtonElement>} */
    const single = new Map();
    const apply = () => {
      for (const one of groups) one.classList.toggle("off", hidden.has(one.getAttribute("data-series")));
      for (const [name, button] of single) button.setAttribute("aria-pressed", String(!hidden.has(name)));
      for (const [kind, button] of kinds) button.setAttribute("aria-pressed", String(names.some((n) => chapterOf(n) === kind && !hidden.has(n))));
    };
    const row = document.createElement("div");
    row.className = "chips";
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", "Kernels shown");
    /** @type {Map<string, HTMLButtonElement>} */
    const kinds = new Map();
    const found = [...new Set(names.map(chapterOf))];
    if (found.length > 1) {
      for (const kind of found) {
        kinds.set(kind, chip(kind, (on) => {
          for (const name of names) if (chapterOf(name) === kind) hidden[on ? "delete" : "add"](name);
          apply();
        }));
        row.append(kinds.get(kind));
      }
    }
    const fold = document.createElement("details");
    const summary = document.createElement("summary");
    summary.textContent = "Single kernels";
    const list = document.createElement("div");
    list.className = "chips";
    list.setAttribute("role", "group");
    list.setAttribute("aria-label", "Single kernels shown");
    for (const name of names) {
      const button = chip(name, (on) => { hidden[on ? "delete" : "add"](name); apply(); });
      const lit = (on) => figure.querySelectorAll("svg.chart").forEach((chart) => light(chart, on && !hidden.has(name) ? name : null));
      button.addEventListener("pointerenter", () => lit(true));
      button.addEventListener("pointerleave", () => lit(false));
      button.addEventListener("focus", () => lit(true));
      button.addEventListener("blur", () => lit(false));
      single.set(name, button);
      list.append(button);
    }
    for (const [label, all] of [["All", false], ["None", true]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", () => { names.forEach((name) => hidden[all ? "add" : "delete"](name)); apply(); });
      list.append(button);
    }
    fold.append(summary, list);
    fold.className = "single";
    figure.querySelector("figcaption").after(...(found.length > 1 ? [row, fold] : [fold]));
  };

  addEventListener("DOMContentLoaded", () => {
    tip = document.createElement("div");
    tip.className = "tip";
    tip.setAttribute("role", "status");
    tip.hidden = true;
    document.querySelector("main").append(tip);
    const ready = (view) => {
      for (const figure of view.querySelectorAll("figure.has-chart")) addFilters(figure);
      for (const chart of view.querySelectorAll("svg.chart")) chart.setAttribute("tabindex", "0");
    };
    addEventListener("shown", (event) => ready(event.target));
    ready(document.querySelector(".view.current") || document);
    /** @type {Element | null} */
    let last = null;
    const leave = () => { if (last) point(last, null); last = null; };
    document.addEventListener("pointermove", (event) => {
      const chart = event.target.closest ? event.target.closest("svg.chart") : null;
      if (!chart) return leave();
      if (last && last !== chart) leave();
      prepare(chart);
      last = chart;
      point(chart, nearest(chart, event.clientX, event.clientY));
    });
    document.addEventListener("pointerdown", (event) => {
      const chart = event.target.closest ? event.target.closest("svg.chart") : null;
      if (!chart) return leave();
      prepare(chart);
      last = chart;
      point(chart, nearest(chart, event.clientX, event.clientY));
    });
    addEventListener("scroll", leave, { passive: true });
    document.addEventListener("keydown", (event) => {
      const chart = document.activeElement;
      if (!chart || !chart.matches("svg.chart")) return;
      prepare(chart);
      const all = marks(chart), at = all.findIndex((mark) => mark.classList.contains("pointed"));
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Escape") { last = chart; leave(); return; }
      if (step === undefined || !all.length) return;
      event.preventDefault();
      last = chart;
      const to = at < 0 && step > 0 && step !== Infinity ? 0 : Math.min(Math.max(at + step, 0), all.length - 1);
      all[to].scrollIntoView({ block: "nearest", behavior: "instant" });
      point(chart, all[to]);
    });
    document.addEventListener("focusout", leave);
  });
})();
