/* Tabs, the player, the keyboard, dark mode and the fragment of the address (#access:12 is step 12 of a view). */
{
  const { page, views: given } = JSON.parse(/** @type {HTMLElement} */ (document.getElementById("data")).textContent || "{}");
  const root = document.documentElement, one = (query) => /** @type {any} */ (document.querySelector(query));
  const tabs = [...document.querySelectorAll("[role=tab]")].map((tab) => /** @type {HTMLElement} */ (tab));
  const scrub = one(".scrub"), playButton = one("[data-act=play]"), count = one(".count"), said = one(".said"), speed = one(".speed select");
  const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
  /** @type {Map<string, {instance: Instance, step: number}>} */
  const opened = new Map();
  let current = "", playing = false, shown = 0, carry = 0, spoken = "";

  const state = () => /** @type {{instance: Instance, step: number}} */ (opened.get(current));
  const clamp = (step) => Math.max(0, Math.min(state().instance.steps - 1, Math.round(step)));

  const say = (text) => {
    const { instance, step } = state();
    spoken = text;
    said.textContent = text || (instance.label ? instance.label(step) : "");
  };
  const draw = () => {
    const { instance, step } = state();
    instance.draw(step);
    scrub.value = String(step);
    scrub.setAttribute("aria-valuetext", instance.label ? instance.label(step) : `step ${step + 1}`);
    count.textContent = `${(step + 1).toLocaleString("en-US")} / ${instance.steps.toLocaleString("en-US")}`;
    say("");
  };
  const go = (step) => { state().step = clamp(step); draw(); remember(); };
  const remember = () => {
    const hash = `#${current}:${state().step + 1}`;
    if (!playing && location.hash !== hash) try { history.replaceState(null, "", hash); } catch { /* a frame without an address */ }
  };

  const play = (on) => {
    const { instance, step } = state();
    if (on && step >= instance.steps - 1) state().step = 0;
    playing = on && instance.steps > 1;
    playButton.textContent = playing ? "❚❚ Pause" : "▶ Play";
    playButton.setAttribute("aria-label", playing ? "Pause" : "Play");
    said.parentElement.setAttribute("aria-live", playing ? "off" : "polite");
    shown = performance.now(); carry = 0;
    if (playing) { draw(); requestAnimationFrame(frame); } else remember();
  };
  const frame = (now) => {
    if (!playing) return;
    const { instance } = state();
    carry += (Math.max(0, now - shown) / 1000) * (instance.rate || 4) * Number(speed.value);
    shown = now;
    const whole = Math.floor(carry);
    if (whole) {
      carry -= whole;
      state().step = clamp(state().step + whole);
      draw();
      if (state().step === instance.steps - 1) return play(false);
    }
    requestAnimationFrame(frame);
  };

  const open = (name, step) => {
    if (!GS.views.has(name)) return;
    if (playing) play(false);
    current = name;
    for (const tab of tabs) {
      const chosen = tab.dataset.view === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
      if (chosen) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
      one(`#view-${tab.dataset.view}`).hidden = !chosen;
    }
    if (!opened.has(name)) {
      const host = { name, root: one(`#view-${name} .drawing`), data: given[name], page, calm, say, redraw: () => { if (current === name) { refresh(); draw(); } },
        player: { get step() { return opened.has(name) ? /** @type {any} */ (opened.get(name)).step : 0; }, go: (to) => { if (current === name) go(to); } } };
      const instance = /** @type {View} */ (GS.views.get(name)).create(host);
      opened.set(name, { instance, step: Math.min(instance.start || 0, Math.max(0, instance.steps - 1)) });
    }
    if (Number.isFinite(step)) state().step = clamp(step);
    refresh();
    draw();
    remember();
  };
  /** The number of steps may change with what the reader chose. */
  const refresh = () => {
    const { instance } = state();
    scrub.max = String(Math.max(0, instance.steps - 1));
    state().step = clamp(state().step);
    one(".player").classList.toggle("still", instance.steps < 2);
  };

  const acts = { first: () => go(0), back: () => go(state().step - 1), on: () => go(state().step + 1), last: () => go(state().instance.steps - 1), play: () => play(!playing) };
  for (const button of document.querySelectorAll("[data-act]")) {
    const act = /** @type {HTMLElement} */ (button).dataset.act || "";
    button.addEventListener("click", () => { if (act !== "play" && playing) play(false); acts[act](); });
  }
  scrub.addEventListener("input", () => { if (playing) play(false); go(Number(scrub.value)); });
  for (const tab of tabs) {
    tab.addEventListener("click", () => open(tab.dataset.view || "", NaN));
    tab.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[/** @type {KeyboardEvent} */ (event).key];
      if (!move) return;
      event.preventDefault(); event.stopPropagation();
      const next = tabs[(tabs.indexOf(tab) + move + tabs.length) % tabs.length];
      open(next.dataset.view || "", NaN);
      next.focus();
    });
  }
  addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (!current || event.ctrlKey || event.metaKey || event.altKey || (target.matches && target.matches("select, input:not(.scrub), textarea"))) return;
    if (event.key === " " && target.matches && target.matches("button")) return;
    const by = event.shiftKey ? 10 : 1, faster = (d) => { speed.selectedIndex = Math.max(0, Math.min(speed.options.length - 1, speed.selectedIndex + d)); };
    const keys = { " ": acts.play, ArrowRight: () => go(state().step + by), ArrowLeft: () => go(state().step - by), Home: acts.first, End: acts.last, "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1) };
    const number = Number(event.key);
    const act = number >= 1 && number <= tabs.length ? () => open(tabs[number - 1].dataset.view || "", NaN) : keys[event.key];
    if (!act) return;
    event.preventDefault();
    if (playing && event.key.startsWith("Arrow")) play(false);
    act();
  });

  const theme = one(".theme");
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const recolour = () => {
    GS.forgetColours();
    theme.textContent = dark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours");
    if (current) draw();
  };
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("gemmsmith-theme", root.dataset.theme); } catch { /* a local file may have no storage */ }
    recolour();
  });
  try { const kept = localStorage.getItem("gemmsmith-theme"); if (kept === "dark" || kept === "light") root.dataset.theme = kept; } catch { /* none */ }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => { if (current) { const { instance } = state(); if (instance.resize) instance.resize(); draw(); } }); });

  const fromHash = () => {
    const [name, step] = decodeURIComponent(location.hash.slice(1)).split(":");
    const known = tabs.some((tab) => tab.dataset.view === name);
    if (tabs.length) open(known ? name : tabs[0].dataset.view || "", known && step ? Number(step) - 1 : NaN);
  };
  addEventListener("hashchange", () => { const [name] = location.hash.slice(1).split(":"); if (name !== current || !playing) fromHash(); });
  recolour();
  fromHash();
  void spoken;
}
