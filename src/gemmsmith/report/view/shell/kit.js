"use strict";
/**
 * What the shell gives to views. One global object, because all scripts of the page are joined into one.
 *
 * @typedef {Object} Player  The player below the drawing.
 * @property {number} step   The step that is shown.
 * @property {(step: number) => void} go  Shows a step.
 *
 * @typedef {Object} Host    What a view is created with.
 * @property {string} name
 * @property {HTMLElement} root  An empty element to draw into.
 * @property {any} data      What the view's builder returned.
 * @property {any} page      Facts of the launch that all views share.
 * @property {Player} player
 * @property {() => void} redraw  Draws the current step again.
 * @property {(text: string) => void} say  Says what is hovered or chosen; '' says the step's label again.
 * @property {() => boolean} calm  Whether the reader asked for reduced motion.
 *
 * @typedef {Object} Instance
 * @property {number} steps
 * @property {(step: number) => void} draw
 * @property {(step: number) => string} [label]
 * @property {number} [start]
 * @property {number} [rate]   Steps in a second at speed 1.
 * @property {() => void} [resize]
 *
 * @typedef {{name: string, create: (host: Host) => Instance}} View
 */
const GS = (() => {
  /** @type {Map<string, View>} */
  const views = new Map();

  /** Makes an element. Attributes that are functions become listeners ("click": f); text children become text. */
  const make = (space) => (tag, attributes = {}, ...children) => {
    const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") node.addEventListener(name, value);
      else if (name === "style" && typeof value === "object") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, String(one));
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : String(value));
    }
    node.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return node;
  };
  const el = make("");
  const svg = make("http://www.w3.org/2000/svg");

  /** The colour of a CSS variable without its dashes: colour("s1"). */
  let known = new Map();
  const colour = (name) => {
    if (!known.has(name)) known.set(name, resolve(name));
    return known.get(name);
  };
  const resolve = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  let epoch = 0;
  const forgetColours = () => { known = new Map(); mixed = new Map(); epoch += 1; };
  /** A colour between two others, as CSS; share 0 is the first. */
  let mixed = new Map();
  const mix = (one, other, share) => {
    const key = `${one}${other}${share}`;
    if (!mixed.has(key)) mixed.set(key, between(one, other, share));
    return mixed.get(key);
  };
  const between = (one, other, share) => {
    const parts = (text) => (text.match(/[\d.]+/g) || []).slice(0, 3).map(Number);
    const a = parts(one), b = parts(other);
    return `rgb(${a.map((x, i) => Math.round(x + (b[i] - x) * share)).join(" ")})`;
  };
  let family = "";
  /** A canvas font of this size in pixels. */
  const font = (size, weight = 400) => { family = family || getComputedStyle(document.body).fontFamily; return `${weight} ${size}px ${family}`; };
  /** Eight colours that can be told apart, then again from the first. */
  const series = (n) => colour(`s${(n % 8) + 1}`);

  /**
   * A canvas as wide as its parent lets it be. `paint(context, width, height)` is called by draw(), in CSS pixels.
   * @param {{label: string, height: (width: number) => number, paint: (c: CanvasRenderingContext2D, w: number, h: number) => void}} options
   */
  const canvas = (options) => {
    const node = /** @type {HTMLCanvasElement} */ (el("canvas", { role: "img", "aria-label": options.label, style: { width: "100%" } }));
    const context = /** @type {CanvasRenderingContext2D} */ (node.getContext("2d"));
    let width = 0, height = 0;
    const draw = () => {
      const box = node.parentElement ? node.clientWidth : 0;
      if (!box) return;
      const ratio = devicePixelRatio || 1, tall = Math.round(options.height(box));
      if (box !== width || tall !== height || node.width !== Math.round(box * ratio)) {
        width = box; height = tall;
        node.width = Math.round(width * ratio); node.height = Math.round(height * ratio);
        node.style.height = `${height}px`;
      }
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      context.font = font(12);
      options.paint(context, width, height);
    };
    /** @type {Map<string, {key: string, node: HTMLCanvasElement}>} */
    const layers = new Map();
    /** Paints what seldom changes: again only when `key`, the size or the colours have changed. */
    const layer = (name, key, paint) => {
      const whole = `${key}/${node.width}/${node.height}/${epoch}`, kept = layers.get(name);
      if (!kept || kept.key !== whole) {
        const made = kept ? kept.node : document.createElement("canvas"), inner = /** @type {CanvasRenderingContext2D} */ (made.getContext("2d")), ratio = devicePixelRatio || 1;
        made.width = node.width; made.height = node.height;
        inner.setTransform(ratio, 0, 0, ratio, 0, 0);
        inner.font = context.font;
        paint(inner, width, height);
        layers.set(name, { key: whole, node: made });
      }
      context.drawImage(/** @type {any} */ (layers.get(name)).node, 0, 0, width, height);
    };
    /** Where a pointer event is, in CSS pixels of the canvas. */
    const at = (event) => { const box = node.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    return { node, draw, at, layer, get width() { return width; }, get height() { return height; } };
  };

  /** A small text beside the pointer; '' hides it. */
  const tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
  const showTip = (event, text) => {
    tip.hidden = !text;
    if (!text) return;
    if (!tip.parentElement) document.body.append(tip);
    tip.textContent = text;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 6), under = event.clientY + 18;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${under + box.height > innerHeight ? event.clientY - box.height - 10 : under}px`;
  };

  /** Calls `make` when `key` or the colours have changed, and puts what it returns into `node`. */
  const refill = (node, key, make) => { const whole = `${key}/${epoch}`; if (node.dataset.key !== whole) { node.dataset.key = whole; node.replaceChildren(...[make()].flat()); } };
  /** A list of colour and meaning; each entry is [CSS colour, text]. */
  const legend = (entries) => el("ul", { class: "legend" }, entries.map(([c, text]) => el("li", {}, el("i", { style: { "--c": c } }), text)));
  /** A labelled choice; entries are [value, text]. */
  const choice = (label, entries, value, changed) => {
    const select = el("select", { change: () => changed(select.value) }, entries.map(([v, text]) => el("option", { value: v, selected: String(v) === String(value) }, text)));
    return { node: el("label", {}, label, select), select };
  };
  /** The numbers that packing.py packed. */
  const unpack = (given) => {
    const [[kind, text]] = Object.entries(given), raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
    return kind === "i8" ? new Int8Array(raw) : kind === "i16" ? new Int16Array(raw) : kind === "i32" ? new Int32Array(raw) : new Float64Array(raw);
  };
  /** Ranges [[first, last], …] as text: 0–7, 16. */
  const rangeText = (ranges) => ranges.slice(0, 4).map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ") + (ranges.length > 4 ? ", …" : "");
  const bytes = (n) => (n >= 10240 ? `${(n / 1024).toFixed(n % 1024 ? 1 : 0)} KiB` : `${n} B`);
  const hex = (n) => `0x${n.toString(16)}`;
  const plural = (n, word, more = `${word}s`) => `${n.toLocaleString("en-US")} ${n === 1 ? word : more}`;

  /** Stall reasons of ncu, in words. */
  const STALLS = { long_scoreboard: "for global memory or an mbarrier", short_scoreboard: "for shared memory", barrier: "at a barrier", wait: "for the fixed latency of the instruction before", math_pipe_throttle: "for a busy arithmetic unit", mio_throttle: "for room in the queue of memory instructions", lg_throttle: "for room in the queue of global accesses", gmma: "for wgmma", not_selected: "while another warp issues", dispatch_stall: "for the dispatch unit", membar: "for a fence", sleeping: "asleep" };
  const stallWords = (name) => `${STALLS[name] || "for something else"} (${name.replace(/_/g, " ")})`;

  /** Kinds of a trace as they are said. */
  const KINDS = { other: "addresses, branches", "load global": "global load", "store global": "global store", "load shared": "shared load", "store shared": "shared store", "load matrix": "ldmatrix", "store matrix": "stmatrix", "async copy": "cp.async", wait: "wait for copies or wgmma" };
  const kindWords = (kind) => KINDS[kind] || kind;

  return { stallWords, kindWords, views, register: (/** @type {View} */ view) => { views.set(view.name, view); }, el, svg, colour, forgetColours, mix, font, series, canvas, showTip, refill, legend, choice, unpack, rangeText, bytes, hex, plural };
})();
