"use strict";
// Shows one view per URL fragment, and switches between light and dark. The page is readable without this script.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const stored = () => { try { return localStorage.getItem("gemmsmith-theme"); } catch { return null; } };
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const wide = matchMedia("(min-width: 76rem)");
  if (stored() === "dark" || stored() === "light") root.dataset.theme = stored();

  /** @param {boolean} moved whether the reader followed a link */
  const show = (moved) => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1))) || document.getElementById("overview");
    const view = target.closest(".view") || document.getElementById("overview");
    for (const one of document.querySelectorAll(".view")) one.classList.toggle("current", one === view);
    for (const link of document.querySelectorAll(".contents a[href^='#']")) {
      if (link.hash === "#" + target.id || (view.id !== "overview" && link.hash === "#" + view.id)) {
        link.setAttribute("aria-current", "true");
        const box = link.getBoundingClientRect(), list = link.closest(".menu"), frame = list.getBoundingClientRect();
        if (wide.matches && (box.top < frame.top || box.bottom > frame.bottom)) list.scrollTop += box.top - frame.top - frame.height / 3;
      } else link.removeAttribute("aria-current");
    }
    document.title = view.dataset.title;
    document.querySelector(".here").textContent = ": " + view.dataset.name;
    if (!wide.matches) document.querySelector(".menu").open = false;
    view.dispatchEvent(new Event("shown", { bubbles: true }));
    if (!moved) return;
    if (target === view) scrollTo({ top: 0, behavior: "instant" });
    else target.scrollIntoView({ behavior: "instant" });
    const heading = target.querySelector("h1, h2");
    if (heading) heading.focus({ preventScroll: true });
  };

  addEventListener("hashchange", () => show(true));
  addEventListener("DOMContentLoaded", () => {
    const menu = document.querySelector(".menu");
    wide.addEventListener("change", () => { menu.open = wide.matches; });
    menu.addEventListener("click", (event) => { if (!wide.matches && event.target.closest("a")) menu.open = false; });
    show(location.hash.length > 1);
    for (const svg of document.querySelectorAll(".moving svg")) {
      const pause = document.createElement("button"), still = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const name = () => { pause.textContent = svg.animationsPaused() ? "Play" : "Pause"; };
      pause.type = "button"; pause.className = "pause";
      pause.addEventListener("click", () => { if (svg.animationsPaused()) svg.unpauseAnimations(); else svg.pauseAnimations(); name(); });
      if (still) { svg.pauseAnimations(); svg.setCurrentTime(4.6); }
      name();
      svg.parentElement.append(pause);
    }
    const button = document.querySelector(".theme");
    const label = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", dark() ? "Light colours" : "Dark colours"); };
    label();
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("gemmsmith-theme", root.dataset.theme); } catch { /* a local file may have no storage */ }
      label();
    });
  });
})();
