/* Two kernels at the same issue slot: who owns what, the first warp in time, and what both cost. */
{
  const GROUPS = [
    ["arithmetic", "s3", ["arithmetic", "mma", "wgmma"]], ["global loads and copies", "s1", ["load global", "async copy", "TMA load"]],
    ["shared loads", "s6", ["load shared", "load matrix"]], ["shared stores", "s5", ["store shared", "store matrix"]],
    ["global stores", "s2", ["store global", "TMA store", "atomic"]], ["waits and barriers", "bad", ["barrier", "wait", "mbarrier wait"]],
    ["the rest", "rule", []],
  ];
  /** @param {Host} host */
  const create = (host) => {
    const { el, colour, mix } = GS, { data } = host;
    const groupOf = data.kinds.map((kind) => { const at = GROUPS.findIndex(([, , kinds]) => kinds.includes(kind)); return at < 0 ? GROUPS.length - 1 : at; });
    const number = (n) => (Math.abs(n) >= 1e4 ? Math.round(n).toLocaleString("en-US") : String(Math.round(n * 1000) / 1000));
    const total = Math.max(1, ...data.sides.map((side) => side.slots)), STEPS = Math.min(400, total);
    const slotAt = (step) => Math.round((step / Math.max(1, STEPS - 1)) * (total - 1));
    const span = Math.max(40, Math.min(total, 400));

    const sides = data.sides.map((side, which) => {
      const start = GS.unpack(side.start), length = GS.unpack(side.length), kind = GS.unpack(side.kind), instruction = GS.unpack(side.instruction);
      const map = side.map ? GS.unpack(side.map) : null, tile = side.tile;
      const eventAt = (slot) => { let low = 0, high = start.length - 1; while (low < high) { const mid = (low + high + 1) >> 1; if (start[mid] <= slot) low = mid; else high = mid - 1; } return start.length && slot < start[low] + length[low] ? low : -1; };
      const now = el("p", { class: "readout mono" });
      /** Runs of equal shade: lanes of warp 0, then whole warps. Found once. */
      let found = null;
      const runs = () => {
        if (found) return found;
        found = [];
        const shade = (thread) => (thread < 0 ? -1 : thread < 32 ? thread : 31 + Math.floor(thread / 32));
        for (let r = 0; r < rows(); r += 1) for (let from = 0; from < columns();) {
          const one = shade(map[r * columns() + from]); let to = from + 1;
          while (to < columns() && shade(map[r * columns() + to]) === one) to += 1;
          if (one >= 0) found.push([r, from, to, one]);
          from = to;
        }
        return found;
      };
      const owns = GS.canvas({ label: `${side.name}: which warp owns which output`, height: (w) => (map ? Math.max(40, Math.min(260, (w * rows()) / columns())) : 24), paint: (c, w, h) => {
        if (!map) { c.fillStyle = colour("soft"); c.fillText("no outputs were recorded", 4, 16); return; }
        const sx = w / columns(), sy = h / rows(), tints = new Map();
        for (const [r, from, to, shade] of runs()) {
          if (!tints.has(shade)) tints.set(shade, shade === 0 ? colour("ink") : shade < 32 ? mix(GS.series(0), colour("card"), 0.15 + shade / 60) : GS.series(shade - 31));
          const x = Math.floor(from * sx), y = Math.floor(r * sy);
          c.fillStyle = tints.get(shade);
          c.fillRect(x, y, Math.ceil(to * sx) - x, Math.ceil((r + 1) * sy) - y);
        }
      } });
      const [rows, columns] = tile ? [() => tile[2], () => tile[3]] : [() => 1, () => 1];
      const strip = GS.canvas({ label: `${side.name}: warp 0 in time`, height: () => 46, paint: (c, w) => {
        const slot = slotAt(host.player.step), from = Math.max(0, Math.min(total - span, slot - span * 0.4)), s = w / span;
        c.fillStyle = colour("sunk"); c.fillRect(0, 4, w, 30);
        for (let at = 0; at < start.length; at += 1) {
          if (start[at] + length[at] < from) continue;
          if (start[at] > from + span) break;
          c.fillStyle = colour(GROUPS[groupOf[kind[at]]][1]);
          const x = Math.max(0, (start[at] - from) * s);
          c.fillRect(x, groupOf[kind[at]] === GROUPS.length - 1 ? 12 : 4, Math.max(0.8, Math.min(w, (start[at] + length[at] - from) * s) - x - (s > 3 ? 1 : 0)), groupOf[kind[at]] === GROUPS.length - 1 ? 14 : 30);
        }
        if (side.slots < from + span) { c.fillStyle = colour("soft"); c.fillText("ends", Math.max(2, (side.slots - from) * s + 4), 24); }
        c.strokeStyle = colour("pick"); c.lineWidth = 2; c.beginPath(); c.moveTo((slot - from) * s, 0); c.lineTo((slot - from) * s, 40); c.stroke();
      } });
      const told = (slot) => {
        const at = slot >= side.slots ? -2 : eventAt(slot);
        if (at === -2) return `has ended, after ${side.slots.toLocaleString("en-US")} slots`;
        if (at < 0) return "waits";
        const [ptx, file, line] = side.ptx[instruction[at]];
        return `${data.kinds[kind[at]]}: ${ptx} (${file}:${line})`;
      };
      return { side, owns, strip, now, told, kindAt: (slot) => { const at = eventAt(slot); return at < 0 ? "" : data.kinds[kind[at]]; }, node: el("div", { class: "card grow" }, el("h2", {}, `${which ? "right" : "left"}: ${side.title}`), el("p", { class: "soft small" }, "Outputs of the block: the colour is the warp, shades are lanes of warp 0, and thread 0 stands out."), owns.node, el("p", { class: "soft small" }, "Warp 0 in time, by issue slot:"), strip.node, now) };
    });
    const better = (one, other, which) => (!which || one === other ? "" : (which === "less") === (other < one) ? "▲ better" : "▼ worse");
    const table = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "what both kernels cost" }, el("table", { class: "compare-table" },
      el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "simulated"), data.sides.map((side) => el("th", { scope: "col" }, side.name)), el("th", { scope: "col" }, "factor"), el("th", { scope: "col" }, "right is"))),
      el("tbody", {}, data.facts.map(([name, one, other, which]) => { const same = number(one) === number(other); return el("tr", { class: same ? "" : "differs" }, el("th", { scope: "row" }, name), el("td", {}, number(one)), el("td", {}, number(other)), el("td", {}, same ? "=" : one > 0 && other > 0 ? `×${number(other / one)}` : ""), el("td", {}, same ? "" : better(one, other, which))); }))));
    host.root.append(el("div", { class: "row" }, sides.map((one) => one.node)), GS.legend(GROUPS.map(([words, name]) => [colour(name), words])), el("div", { class: "card" }, el("h2", {}, "What both cost"), table));
    return {
      steps: STEPS, start: Math.floor(STEPS / 2), rate: 12,
      label: (step) => { const slot = slotAt(step), [a, b] = sides.map((one) => GS.kindWords(one.kindAt(slot)) || "waits or has ended"); return `slot ${slot.toLocaleString("en-US")}: ${a === b ? `both: ${a}` : `left ${a}, right ${b}`}`; },
      draw: (step) => {
        const slot = slotAt(step), same = sides[0].kindAt(slot) === sides[1].kindAt(slot);
        for (const one of sides) { one.owns.draw(); one.strip.draw(); one.now.textContent = one.told(slot); one.now.classList.toggle("differs", !same); }
      },
    };
  };
  GS.register({ name: "compare", create });
}
