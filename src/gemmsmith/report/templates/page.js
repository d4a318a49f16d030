"use strict";
// Shows one view per URL fragment, and switches between light and dark. The page is readable without this script.
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const stored = () => { try { return localStorage.getItem("gemmsmith-theme"); } catch { return null; } };
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  if (stored() === "dark" || stored() === "light") root.dataset.theme = stored();

  const show = (moved) => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1))) || document.getElementById("overview");
    const view = target.closest(".view") || document.getElementById("overview");
    for (const one of document.querySelectorAll(".view")) one.classList.toggle("current", one === view);
    for (const link of document.querySelectorAll(".bar a[href^='#']")) {
      if (link.hash === "#" + target.id || link.hash === "#" + view.id) {
        link.setAttribute("aria-current", "true");
        const strip = link.closest(".strip");
        if (strip) strip.scrollLeft = link.offsetLeft - strip.offsetLeft - strip.clientWidth / 2;
      } else link.removeAttribute("aria-current");
    }
    document.title = view.dataset.title;
    if (!moved) return;
    if (target === view) scrollTo({ top: 0, behavior: "instant" });
    else target.scrollIntoView({ behavior: "instant" });
    const heading = target.querySelector("h1, h2");
    if (heading) heading.focus({ preventScroll: true });
  };

  addEventListener("hashchange", () => show(true));
  addEventListener("DOMContentLoaded", () => {
    show(location.hash.length > 1);
    const button = document.querySelector(".theme");
    const label = () => { button.textContent = dark() ? "Light" : "Dark"; button.setAttribute("aria-label", dark() ? "Use light colours" : "Use dark colours"); };
    label();
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("gemmsmith-theme", root.dataset.theme); } catch { /* a local file may have no storage */ }
      label();
    });
  });
})();
