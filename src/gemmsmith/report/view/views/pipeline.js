/* The k-loop in time: one row for each warp, shared memory over time, and mbarriers. */
{
  const GROUPS = [
    ["arithmetic", "s3", ["arithmetic", "mma", "wgmma"]], ["global loads and copies", "s1", ["load global", "async copy", "TMA load"]],
    ["shared loads", "s6", ["load shared", "load matrix"]], ["shared stores", "s5", ["store shared", "store matrix"]],
    ["global stores", "s2", ["store global", "TMA store", "atomic"]], ["waits and barriers", "bad", ["barrier", "wait", "mbarrier wait"]],
    ["commit, arrive, fence", "s4", ["commit", "mbarrier arrive", "fence"]], ["addresses, branches", "rule", ["other", "local memory"]],
  ];

  /** @param {Host} host */
  const create = (host) => {
    const { data, page } = host, { colour, mix, series, el } = GS;
    const groupOf = data.kinds.map((kind) => GROUPS.findIndex(([, , kinds]) => kinds.includes(kind)));
    const warps = data.warps.map((warp) => ({ ...warp, start: GS.unpack(warp.start), slots: GS.unpack(warp.slots), count: GS.unpack(warp.count), kind: GS.unpack(warp.kind), instruction: GS.unpack(warp.instruction) }));
    // Two axes: issue slots, as recorded; and cycles of the time model, where it has a time for this launch.
    const model = data.cycles;
    let axisName = model ? "cycles" : "slots";
    /** Makes a function from issue slots to cycles. */
    const scaleOf = (name) => {
      const [slots, at] = model[name].map(GS.unpack);
      return (slot) => {
      if (slot < 0) return slot;
      let low = 0, high = slots.length - 1;
      while (low < high - 1) { const mid = (low + high) >> 1; if (slots[mid] <= slot) low = mid; else high = mid; }
      const wide = slots[high] - slots[low] || 1;
      return Math.round(at[low] + ((at[high] - at[low]) * Math.min(1, Math.max(0, (slot - slots[low]) / wide))));
      };
    };
    const timedWarp = (warp) => {
      const columns = model.warps[String(warp.number)];
      if (!columns) return { ...warp, start: [], slots: [], count: [], kind: [], wait: [], landed: [], reason: [], line: [] };
      const found = Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, GS.unpack(values)]));
      const start = new Int32Array(found.long.length);
      let at = 0;
      for (let n = 0; n < start.length; n += 1) { start[n] = at + found.wait[n]; at = start[n] + found.long[n]; }
      return { number: warp.number, role: warp.role, skipped: 0, facts: {}, start, slots: found.long, ...found };
    };
    const inSlots = Object.fromEntries(Object.entries(data.fills).map(([name, values]) => [name, GS.unpack(values)]));
    const all = { slots: { warps, fills: inSlots, barriers: data.barriers, moments: GS.unpack(data.steps), total: Math.max(1, data.slots), gap: data.gap } };
    if (model) {
      // What fills shared memory may run ahead of what uses it: each has its own scale.
      const [cycleOf, filling, using] = ["places", "filling", "using"].map(scaleOf), multiplies = new Set(warps.filter((warp) => warp.role !== "producer").map((warp) => warp.number));
      const columns = { ...inSlots, issued: [], landed: [], read: [], end: [] };
      inSlots.band.forEach((_, n) => {
        const issued = filling(inSlots.issued[n]), landed = Math.max(issued, using(inSlots.landed[n])), read = Math.max(landed, using(inSlots.read[n]));
        columns.issued.push(issued); columns.landed.push(landed); columns.read.push(read);
        columns.end.push(inSlots.end[n] < 0 ? -1 : Math.max(read, filling(inSlots.end[n])));
      });
      all.cycles = { warps: warps.map(timedWarp), fills: columns, gap: data.gap && data.gap.map(cycleOf), moments: Array.from(all.slots.moments, cycleOf), total: Math.max(1, model.total),
        barriers: data.barriers.map((one) => ({ at: one.at, phases: one.phases.map(([phase, slot]) => [phase, using(slot)]), arrivals: one.arrivals.map(([slot, warp]) => [multiplies.has(warp) ? using(slot) : filling(slot), warp]) })) };
    }
    const on = () => all[axisName];
    const spansOf = () => { const { total } = on(); return [total, 8000, 2000, 600, 150].filter((n, at) => at === 0 || n < total); };
    const spanOf = () => spansOf().find((n) => n <= Math.max(600, on().total / 4)) || spansOf()[spansOf().length - 1];
    let span = spanOf();
    const now = () => on().moments[host.player.step] || 0;
    const left = (w) => (w < 560 ? 52 : 132);
    const windowStart = () => Math.max(0, Math.min(on().total - span, now() - span * 0.4));
    const scale = (w) => (w - left(w) - 6) / span;

    /** The event of a warp at a slot, or -1. */
    const eventAt = (warp, slot) => {
      let low = 0, high = warp.start.length - 1;
      while (low < high) { const mid = (low + high + 1) >> 1; if (warp.start[mid] <= slot) low = mid; else high = mid - 1; }
      return warp.start.length && warp.start[low] <= slot && slot < warp.start[low] + warp.slots[low] ? low : -1;
    };
    const firstIn = (warp, slot) => { let low = 0, high = warp.start.length; while (low < high) { const mid = (low + high) >> 1; if (warp.start[mid] + warp.slots[mid] <= slot) low = mid + 1; else high = mid; } return low; };

    const row = Math.max(11, Math.min(22, 300 / warps.length)), axis = 20;
    const rowsTop = axis + 2;
    const axisTicks = (c, w, h) => {
      const x0 = left(w), from = windowStart(), step = 10 ** Math.floor(Math.log10(span / 4)), every = span / step > 25 ? step * 10 : span / step > 10 ? step * 5 : step * 2;
      c.fillStyle = colour("soft");
      c.strokeStyle = colour("grid");
      c.lineWidth = 1;
      c.textAlign = "center";
      for (let slot = Math.ceil(from / every) * every; slot <= from + span; slot += every) {
        const x = x0 + (slot - from) * scale(w);
        c.beginPath(); c.moveTo(x, axis - 3); c.lineTo(x, h); c.stroke();
        if (x < w - 20) c.fillText(slot.toLocaleString("en-US"), x, 12);
      }
      c.textAlign = "left";
    };
    /** Events that a long trace leaves out: a pale band with a word, so that it is not taken for waiting. */
    const leftOut = (c, w, h) => {
      const { gap } = on(), x0 = left(w), x = (slot) => Math.max(x0, Math.min(w - 6, x0 + (slot - windowStart()) * scale(w)));
      if (!gap || x(gap[1]) - x(gap[0]) < 1) return;
      c.fillStyle = colour("card"); c.fillRect(x(gap[0]), rowsTop, x(gap[1]) - x(gap[0]), h - rowsTop);
      c.strokeStyle = colour("grid-strong"); hatch(c, x(gap[0]), rowsTop, x(gap[1]) - x(gap[0]), h - rowsTop);
      const text = "not in the trace", wide = c.measureText(text).width;
      if (x(gap[1]) - x(gap[0]) > wide + 12) { const at = (x(gap[0]) + x(gap[1]) - wide) / 2; c.fillStyle = colour("card"); c.fillRect(at - 5, rowsTop + 2, wide + 10, 17); c.fillStyle = colour("soft"); c.fillText(text, at, rowsTop + 14); }
    };
    const cursor = (c, w, h) => {
      const x = left(w) + (now() - windowStart()) * scale(w);
      c.strokeStyle = colour("pick");
      c.lineWidth = 2;
      c.beginPath(); c.moveTo(x, 2); c.lineTo(x, h); c.stroke();
    };

    const lanes = GS.canvas({ label: "what each warp executes, in time", height: () => rowsTop + warps.length * row + 4, paint: (c, w, h) => {
      c.font = GS.font(11);
      axisTicks(c, w, h);
      const x0 = left(w), from = windowStart(), s = scale(w), tints = GROUPS.map(([, name]) => colour(name));
      on().warps.forEach((warp, n) => {
        const y = rowsTop + n * row;
        c.fillStyle = colour("soft");
        const short = warp.number < 0 ? "cluster" : w < 560 ? `w${warp.number}` : `warp ${warp.number}${warp.role ? ` ${warp.role}` : ""}`;
        if (row > 11 || n % 2 === 0) c.fillText(short, 2, y + row / 2 + 4, x0 - 6);
        c.fillStyle = colour("sunk");
        c.fillRect(x0, y, w - x0 - 6, row - 2);
        let lastX = -1, lastKind = -1;
        for (let at = firstIn(warp, from); at < warp.start.length && warp.start[at] < from + span; at += 1) {
          const x = x0 + Math.max(0, (warp.start[at] - from) * s), end = Math.min(w - 6, x0 + (warp.start[at] + warp.slots[at] - from) * s), group = groupOf[warp.kind[at]];
          if (axisName === "cycles") {
            // A wait is a pale red line up to the instruction; a load, copy or wgmma has a line below until it is complete.
            const waits = Math.max(x0, x0 + (warp.start[at] - warp.wait[at] - from) * s);
            if (x - waits > 1) { c.fillStyle = colour("bad-soft"); c.fillRect(waits, y + row * 0.2, x - waits, row * 0.6 - 2); }
            const landed = Math.min(w - 6, end + warp.landed[at] * s);
            if (warp.landed[at] && landed - end > 1) { c.fillStyle = tints[group]; c.fillRect(end, y + row - 4, landed - end, 2); }
          }
          if (Math.floor(x) === lastX && group === lastKind && end - x < 1) continue;
          lastX = Math.floor(x); lastKind = group;
          c.fillStyle = tints[group];
          const thin = group === 7 ? row * 0.3 : 0;
          c.fillRect(x, y + thin, Math.max(0.8, end - x - (s > 3 ? 1 : 0)), row - 2 - 2 * thin);
        }
      });
      if (axisName === "slots") leftOut(c, w, h);
      cursor(c, w, h);
    } });

    // ---- shared memory -----------------------------------------------------------------------------------
    const band = Math.max(6, Math.min(14, 260 / Math.max(1, data.bands)));
    const tileOf = (k) => Math.floor(k / data.depth);
    const hatch = (c, x, y, wide, high) => {
      c.save(); c.beginPath(); c.rect(x, y, wide, high); c.clip();
      c.lineWidth = 1.2; c.beginPath();
      for (let at = x - high; at < x + wide; at += 5) { c.moveTo(at, y + high); c.lineTo(at + high, y); }
      c.stroke(); c.restore();
    };
    const memory = data.bands ? GS.canvas({ label: "what shared memory holds, in time", height: () => rowsTop + data.bands * band + 4, paint: (c, w, h) => {
      c.font = GS.font(11);
      axisTicks(c, w, h);
      const x0 = left(w), from = windowStart(), s = scale(w), clampX = (slot) => Math.max(x0, Math.min(w - 6, x0 + (slot - from) * s));
      c.fillStyle = colour("sunk");
      c.fillRect(x0, rowsTop, w - x0 - 6, data.bands * band - 1);
      for (let n = 0; n < data.bands; n += 1) {
        const known = page.shared.find((one) => Math.floor(Math.max(0, one.start - data.first) / data.band) === n && one.nbytes >= data.band / 4);
        c.fillStyle = colour("soft");
        if (known && (known.nbytes > data.band || band > 9)) c.fillText(known.name, 2, rowsTop + n * band + 10, x0 - 6);
        else if (n % 8 === 0 && band * 8 > 24 && w > 560) c.fillText(`+${GS.bytes(n * data.band)}`, 2, rowsTop + n * band + 10, x0 - 6);
      }
      const { fills, total } = on();
      for (let n = 0; n < fills.band.length; n += 1) {
        const end = fills.end[n] < 0 ? total : fills.end[n];
        if (end < from || fills.issued[n] > from + span) continue;
        const y = rowsTop + fills.band[n] * band, k = fills.k[n], tint = k < 0 ? colour("s7") : series(tileOf(k));
        const issued = clampX(fills.issued[n]), landed = clampX(fills.landed[n]), read = clampX(Math.max(fills.read[n], fills.landed[n])), stop = clampX(end);
        if (landed > issued) { c.fillStyle = mix(tint, colour("card"), 0.8); c.fillRect(issued, y, landed - issued, band - 1); c.strokeStyle = tint; hatch(c, issued, y, landed - issued, band - 1); }
        c.fillStyle = tint;
        c.fillRect(landed, y, Math.max(0, read - landed), band - 1);
        c.fillStyle = mix(tint, colour("card"), 0.78);
        c.fillRect(read, y, Math.max(0, stop - read), band - 1);
      }
      leftOut(c, w, h);
      cursor(c, w, h);
    } }) : null;

    // ---- mbarriers ---------------------------------------------------------------------------------------
    const bar = 16;
    const barriers = data.barriers.length ? GS.canvas({ label: "phases of mbarriers, in time", height: () => rowsTop + data.barriers.length * bar + 4, paint: (c, w, h) => {
      c.font = GS.font(11);
      axisTicks(c, w, h);
      const x0 = left(w), from = windowStart(), s = scale(w), clampX = (slot) => Math.max(x0, Math.min(w - 6, x0 + (slot - from) * s));
      const { total } = on();
      on().barriers.forEach((one, n) => {
        const y = rowsTop + n * bar;
        c.fillStyle = colour("soft");
        c.fillText(w < 560 ? `+${one.at}` : `mbarrier +${one.at}`, 2, y + 11, x0 - 6);
        let start = 0;
        [...one.phases, [one.phases.length, total]].forEach(([phase, slot]) => {
          const x = clampX(start), end = clampX(slot);
          c.fillStyle = mix(colour(phase % 2 ? "s4" : "s6"), colour("card"), 0.62);
          c.fillRect(x, y, Math.max(0, end - x - 1), bar - 3);
          if (end - x > 16) { c.fillStyle = colour("ink"); c.fillText(`${phase}`, x + 3, y + 11); }
          start = slot;
        });
        c.fillStyle = colour("ink");
        for (const [slot] of one.arrivals) if (slot >= from && slot <= from + span) c.fillRect(clampX(slot) - 0.7, y - 1, 1.6, bar - 2);
      });
      cursor(c, w, h);
    } }) : null;

    // ---- pointer -------------------------------------------------------------------------------------------
    const describe = (warp, at) => {
      const kind = data.kinds[warp.kind[at]], count = warp.count[at];
      if (axisName === "cycles") {
        const line = model.lines[warp.line[at]], waits = warp.wait[at] > 1 ? `, after ${GS.plural(warp.wait[at], "cycle")} ${GS.stallWords(model.reasons[warp.reason[at]])}` : "", landed = warp.landed[at] ? `, complete ${GS.plural(warp.landed[at], "cycle")} later` : "";
        return `${kind}${count > 1 ? ` ×${count}` : ""}${waits}${landed}: ${(page.lines[line] || line).slice(0, 90)}`;
      }
      const [ptx, , file, line] = page.instructions[warp.instruction[at]];
      const text = page.lines[`${file}:${line}`] || ptx, facts = warp.facts[at] || {};
      const more = [facts.group !== undefined ? `group ${facts.group}` : "", facts.done !== undefined ? `groups up to ${facts.done - 1} are complete` : "", facts.barrier !== undefined ? `mbarrier +${facts.barrier}${facts.phase !== undefined ? `, phase ${facts.phase}` : ""}` : "", facts.array ? `${facts.array} rows ${facts.rows[0]}–${facts.rows[1]}, columns ${facts.columns[0]}–${facts.columns[1]}` : ""].filter(Boolean).join(", ");
      return `${kind}${count > 1 ? ` ×${count}` : ""}${warp.slots[at] > count ? ` for ${GS.plural(warp.slots[at], "slot")}` : ""}${more ? ` (${more})` : ""}: ${text.slice(0, 90)}`;
    };
    const slotOf = (drawing, event) => { const [x, y] = drawing.at(event); return [windowStart() + (x - left(drawing.width)) / scale(drawing.width), y, x]; };
    lanes.node.addEventListener("pointermove", (event) => {
      const [slot, y] = slotOf(lanes, event), warp = on().warps[Math.floor((y - rowsTop) / row)], at = warp ? eventAt(warp, slot) : -1;
      const text = at < 0 ? "" : `warp ${warp.number}, ${axisName.slice(0, -1)} ${warp.start[at].toLocaleString("en-US")}\n${describe(warp, at)}`;
      GS.showTip(event, text); host.say(text.replace("\n", ": "));
    });
    if (memory) memory.node.addEventListener("pointermove", (event) => {
      const [slot, y] = slotOf(memory, event), n = Math.floor((y - rowsTop) / band);
      const { fills, total } = on();
      let text = "";
      for (let f = 0; f < fills.band.length; f += 1) if (fills.band[f] === n && fills.issued[f] <= slot && slot < (fills.end[f] < 0 ? total : fills.end[f])) {
        const array = page.arrays[fills.array[f]], state = slot < fills.landed[f] ? "being filled" : slot <= fills.read[f] ? "in use" : "no longer needed";
        text = `shared bytes ${data.first + n * data.band}–${data.first + (n + 1) * data.band - 1}\n${array ? `${array.name}${fills.k[f] >= 0 ? `, ${data.axis === "k" ? `k-tile ${tileOf(fills.k[f])}, k` : data.axis} from ${fills.k[f]}` : ""}` : "results"}: ${state}`;
      }
      GS.showTip(event, text); host.say(text.replace("\n", ": "));
    });
    for (const each of [lanes, memory, barriers]) if (each) {
      each.node.addEventListener("pointerleave", (event) => { GS.showTip(event, ""); host.say(""); });
      each.node.addEventListener("click", (event) => { const [slot] = slotOf(each, event); let best = 0; const { moments } = on(); moments.forEach((m, n) => { if (Math.abs(m - slot) < Math.abs(moments[best] - slot)) best = n; }); host.player.go(best); });
    }

    const entries = () => spansOf().map((n) => [n, n === on().total ? `all ${n.toLocaleString("en-US")} ${axisName}` : `${n.toLocaleString("en-US")} ${axisName}`]);
    const zoom = GS.choice("Show", entries(), span, (value) => { span = Number(value); host.redraw(); });
    const explained = el("span", { class: "soft small" });
    const explain = () => {
      const skipped = warps.reduce((sum, warp) => sum + warp.skipped, 0);
      explained.textContent = axisName === "cycles"
        ? `Cycles of the time model for ${model.gpu}, predicted: the block ${model.resident > 1 ? `shares its SM with ${GS.plural(model.resident - 1, "other")}` : "has its SM to itself"}. Pale red: the warp waits. A thin line below: a load, copy or wgmma is under way. Shared memory and mbarriers are placed by the instructions that PTX and machine code share.`
        : `An issue slot is one instruction of a warp: order of execution, not time.${skipped ? ` ${skipped.toLocaleString("en-US")} events in the middle are left out.` : ""}`;
    };
    const chooseAxis = (value) => {
      axisName = value; span = spanOf();
      zoom.select.replaceChildren(...entries().map(([n, text]) => el("option", { value: n, selected: n === span }, text)));
      explain(); host.redraw();
    };
    const axisChoice = model ? [GS.choice("Axis", [["cycles", "cycles (predicted)"], ["slots", "issue slots (recorded)"]], axisName, chooseAxis).node] : [];
    explain();
    const words = el("div"), words2 = el("div");
    host.root.append(el("div", { class: "choices" }, ...axisChoice, zoom.node, explained),
      el("div", { class: "card" }, el("h2", {}, "Warps"), lanes.node, words),
      ...(memory ? [el("div", { class: "card", style: { "margin-top": "0.9rem" } }, el("h2", {}, `Shared memory, in pieces of ${GS.bytes(data.band)}`), memory.node, words2)] : []),
      ...(barriers ? [el("div", { class: "card", style: { "margin-top": "0.9rem" } }, el("h2", {}, "mbarriers: phases, and arrivals as ticks"), barriers.node)] : []));

    const lineOf = (warp, at) => { if (axisName === "cycles") return model.lines[warp.line[at]]; const [, , file, line] = page.instructions[warp.instruction[at]]; return `${file}:${line}`; };
    const label = (step) => {
      const slot = on().moments[step], found = new Map(), waiting = new Map();
      const note = (map, key, warp, at) => { if (!map.has(key)) map.set(key, []); map.get(key).push([warp.number, warp, at]); };
      for (const warp of on().warps) {
        if (warp.number < 0) continue;
        const at = eventAt(warp, slot), next = at < 0 && axisName === "cycles" ? firstIn(warp, slot) : -1;
        if (at >= 0) note(found, data.kinds[warp.kind[at]], warp, at);
        else if (next >= 0 && next < warp.start.length) note(waiting, GS.stallWords(model.reasons[warp.reason[next]]), warp, next);
      }
      const who = (list) => { const runs = []; for (const [n] of list) if (runs.length && runs[runs.length - 1][1] === n - 1) runs[runs.length - 1][1] = n; else runs.push([n, n]); return `warp${list.length > 1 ? "s" : ""} ${GS.rangeText(runs)}`; };
      const parts = [...[...found].map(([kind, list]) => `${who(list)}: ${kind} (${lineOf(list[0][1], list[0][2])})`), ...[...waiting].map(([reason, list]) => `${who(list)} wait${list.length > 1 ? "" : "s"} ${reason}`)];
      return `${axisName.slice(0, -1)} ${slot.toLocaleString("en-US")}: ${parts.slice(0, 3).join(" · ") || "done"}`;
    };
    const used = new Set(warps.flatMap((warp) => [...new Set(warp.kind)].map((kind) => groupOf[kind])));
    const first = on().moments.findIndex((slot) => slot >= (on().gap ? on().gap[0] : on().total) * 0.3);
    return { steps: all.slots.moments.length, start: Math.max(0, first), rate: 10, label, draw: () => {
      GS.refill(words, "", () => GS.legend(GROUPS.map(([name, tint], n) => [n, colour(tint), name]).filter(([n]) => used.has(n)).map(([, tint, name]) => [tint, name])));
      GS.refill(words2, "", () => [GS.legend([...data.tiles.slice(0, 8).map((n) => [series(n), `${data.axis} ${n * data.depth}–${(n + 1) * data.depth - 1}`]), ...(inSlots.k.some((k) => k < 0) ? [[colour("s7"), "results"]] : [])]), el("p", { class: "soft small" }, "Hatched: being filled. Full: in use, until its last read. Pale: no longer needed.")]);
      lanes.draw(); if (memory) memory.draw(); if (barriers) barriers.draw();
    } };
  };
  GS.register({ name: "pipeline", create });
}
