/* Who owns what: the whole product, the block's tile of C, and the block's threads. */
{
  /** Rows and columns at which an array is drawn: a vector is wrapped. */
  const drawn = (array) => {
    if (array.rows > 1) return { rows: array.rows, columns: array.columns, at: (r, c) => [r, c] };
    const columns = Math.max(32, Math.ceil(Math.sqrt(array.columns) / 32) * 32);
    return { rows: Math.ceil(array.columns / columns), columns, at: (r, c) => [Math.floor(c / columns), c % columns] };
  };

  /** @param {Host} host */
  const create = (host) => {
    const { data, page } = host, { colour, series, mix, el } = GS;
    const [row0, column0, rows, columns] = data.tile;
    const maps = Object.fromEntries(Object.entries(data.maps).map(([name, values]) => [name, GS.unpack(values)]));
    const fed = data.fed.map((one) => ({ ...one, by_thread: GS.unpack(one.by_thread) }));
    const arrays = Object.fromEntries(page.arrays.map((array) => [array.name, array]));
    let mode = Object.keys(maps)[0], hovered = -1, line = null;
    /** Outputs of each thread, as indices of the tile. */
    const owned = {};
    for (const [name, map] of Object.entries(maps)) {
      owned[name] = Array.from({ length: page.threads }, () => /** @type {number[]} */ ([]));
      map.forEach((thread, at) => { if (thread >= 0) owned[name][thread].push(at); });
    }
    const selected = () => (hovered >= 0 ? hovered : host.player.step);
    const setOf = (name, thread) => { const one = fed.find((each) => each.array === name); return one ? one.sets[one.by_thread[thread]] : null; };
    const product = data.roles.A && data.roles.B;

    // ---- the whole product: B above C, A beside it ------------------------------------------------
    const gap = 14, top = 18;
    const placed = () => {
      const width = picture.width || 500, c = drawn(arrays[data.out]);
      if (product) {
        const a = arrays[data.roles.A], b = arrays[data.roles.B];
        const scale = (width - gap - 8) / (a.columns + b.columns);
        const left = a.columns * scale + gap, under = top + b.rows * scale + gap + 14;
        return [{ array: b, at: drawn(b), x: left, y: top, scale }, { array: a, at: drawn(a), x: 4, y: under, scale }, { array: arrays[data.out], at: c, x: left, y: under, scale }];
      }
      let y = top;
      return page.arrays.map((array) => {
        const at = drawn(array), scale = Math.min((width - 8) / at.columns, 8, 240 / at.rows);
        const place = { array, at, x: 4, y, scale };
        y += at.rows * scale + top + 12;
        return place;
      });
    };
    const tall = () => Math.max(...placed().map((p) => p.y + p.at.rows * p.scale)) + 6;
    const picture = GS.canvas({ label: "A, B and C, with what the chosen thread uses", height: tall, paint: (c) => {
      const thread = selected(), all = placed();
      picture.layer("base", mode, (inner) => { for (const p of all) paintMatrix(inner, p); });
      for (const p of all) {
        if (p.array.name === data.out) paintOwned(c, p, thread);
        else paintUsed(c, p, thread);
        if (line && line.array === p.array.name) paintLine(c, p, thread);
        c.strokeStyle = colour("rule");
        c.lineWidth = 1;
        c.strokeRect(p.x + 0.5, p.y + 0.5, p.at.columns * p.scale - 1, p.at.rows * p.scale - 1);
      }
    } });
    const box = (c, p, r0, r1, c0, c1) => c.fillRect(p.x + c0 * p.scale, p.y + r0 * p.scale, Math.max(1.5, (c1 - c0 + 1) * p.scale), Math.max(1.5, (r1 - r0 + 1) * p.scale));
    const paintMatrix = (c, p) => {
      const { array, at } = p, isOut = array.name === data.out, wide = at.columns * p.scale, high = at.rows * p.scale;
      c.fillStyle = colour("ink");
      c.font = GS.font(13, 600);
      c.fillText(array.name, p.x, p.y - 5);
      c.font = GS.font(11);
      c.fillStyle = colour("soft");
      const name = c.measureText(array.name).width * 1.25 + 8, text = `${array.rows > 1 ? `${array.rows} × ` : ""}${array.columns} ${array.dtype}`;
      if (name + c.measureText(text).width < wide + 4) c.fillText(text, p.x + name, p.y - 5);
      c.fillStyle = colour("sunk");
      c.fillRect(p.x, p.y, wide, high);
      if (isOut) {
        c.strokeStyle = colour("grid-strong");
        c.lineWidth = 1;
        for (const [, , , r0, r1, c0, c1] of data.blocks) if (array.rows > 1) c.strokeRect(p.x + c0 * p.scale, p.y + r0 * p.scale, (c1 - c0 + 1) * p.scale, (r1 - r0 + 1) * p.scale);
        if (array.rows > 1) { c.fillStyle = mix(colour("out"), colour("sunk"), 0.75); box(c, p, row0, row0 + rows - 1, column0, column0 + columns - 1); }
      } else if (array.rows > 1) {
        const one = fed.find((each) => each.array === array.name);
        for (const set of one ? one.sets : []) paintSet(c, p, set, mix(tintOf(p), colour("sunk"), 0.82));
      }
    };
    const paintOwned = (c, p, thread) => {
      const warp = Math.floor(thread / 32);
      for (let lane = 0; lane < 32; lane += 1) paintOutputs(c, p, warp * 32 + lane, mix(colour("out"), colour("sunk"), 0.35));
      paintOutputs(c, p, thread, colour("pick"));
    };
    const paintOutputs = (c, p, who, style) => {
      c.fillStyle = style;
      for (const at of owned[mode][who] || []) { const [r, k] = p.at.at(row0 + Math.floor(at / columns), column0 + (at % columns)); box(c, p, r, r, k, k); }
    };
    const tintOf = (p) => colour(p.array.role === "B" ? "b" : "a");
    const paintSet = (c, p, set, style) => {
      c.fillStyle = style;
      const [rowRuns, columnRuns] = set;
      if (p.array.rows === 1) { for (const [c0, c1] of columnRuns) for (let k = c0; k <= c1; k += 1) { const [r, x] = p.at.at(0, k); box(c, p, r, r, x, x); } return; }
      for (const [r0, r1] of rowRuns) for (const [c0, c1] of columnRuns) box(c, p, r0, r1, c0, c1);
    };
    const paintUsed = (c, p, thread) => {
      const one = fed.find((each) => each.array === p.array.name);
      if (!one) return;
      const warp = Math.floor(thread / 32), seen = new Set();
      for (let lane = 0; lane < 32; lane += 1) { const at = one.by_thread[warp * 32 + lane]; if (at !== undefined && !seen.has(at)) { seen.add(at); paintSet(c, p, one.sets[at], mix(tintOf(p), colour("sunk"), 0.5)); } }
      paintSet(c, p, one.sets[one.by_thread[thread]] || [[], []], tintOf(p));
    };
    const paintLine = (c, p, thread) => {
      const warp = Math.floor(thread / 32), some = line.warps[warp] || line.warps[Object.keys(line.warps)[0]] || [];
      const place = (address) => {
        const element = Math.floor((address - p.array.address) / p.array.itemsize), wide = Math.max(p.array.row_stride, p.array.column_stride, 1);
        const far = Math.floor(element / wide), near = Math.floor((element % wide) / Math.max(1, Math.min(p.array.row_stride, p.array.column_stride)));
        return p.at.at(...(p.array.row_stride >= p.array.column_stride ? [far, near] : [near, far]));
      };
      for (const one of some) {
        if (one.length === 4) { c.fillStyle = mix(colour("bad"), colour("sunk"), 0.4); box(c, p, one[0], one[1], one[2], one[3]); continue; }
        const [pattern, at, width] = one;
        line.patterns[pattern].forEach((offset, lane) => {
          if (offset < 0) return;
          c.fillStyle = lane === thread % 32 ? colour("bad") : mix(colour("bad"), colour("sunk"), 0.55);
          for (let byte = 0; byte < width; byte += p.array.itemsize) { const [r, k] = place(at + offset + byte); box(c, p, r, r, k, k); }
        });
      }
    };

    // ---- the block's tile ----------------------------------------------------------------------------
    /** Width and height of an element: a square, unless the tile is so wide or flat that it would be a thin line. */
    const cell = (width) => {
      const fits = Math.min(26, (width - 34) / columns, 640 / rows);
      return fits >= 6 || rows * fits >= 60 ? [fits, fits] : [Math.min(26, (width - 34) / columns), Math.min(16, 60 / rows)];
    };
    const x0 = 32, y0 = 18;
    const tile = GS.canvas({ label: "the block's tile of outputs, coloured by warp", height: (w) => rows * cell(w)[1] + 24, paint: (c, w) => {
      const [wide, high] = cell(w), size = Math.min(wide, high), map = maps[mode], thread = selected(), warp = Math.floor(thread / 32);
      const gapped = size > 5 ? 1 : size > 3 ? 0.5 : 0, box = (at) => [x0 + (at % columns) * wide, y0 + Math.floor(at / columns) * high];
      const fill = (inner, at, style) => { const [x, y] = box(at); inner.fillStyle = style; inner.fillRect(x, y, Math.max(wide - gapped, 0.4), high - gapped); };
      const write = (inner, at, text, style) => { if (size < 15) return; const [x, y] = box(at); inner.fillStyle = style; inner.textAlign = "center"; inner.fillText(text, x + wide / 2, y + high / 2 + 3.5); inner.textAlign = "left"; };
      tile.layer("base", mode, (inner) => {
        edges(inner, wide, high);
        map.forEach((who, at) => { fill(inner, at, who < 0 ? colour("sunk") : mix(series(who >> 5), colour("card"), 0.74)); if (who >= 0) write(inner, at, `${who % 32}`, colour("soft")); });
      });
      c.font = GS.font(10);
      for (let lane = 0; lane < 32; lane += 1) for (const at of owned[mode][warp * 32 + lane] || []) { fill(c, at, mix(series(warp), colour("card"), 0.28)); write(c, at, `${lane}`, colour("ink")); }
      for (const at of owned[mode][thread] || []) {
        fill(c, at, colour("pick"));
        if (size > 4) { const [x, y] = box(at); c.strokeStyle = colour("ink"); c.lineWidth = 1; c.strokeRect(x + 0.5, y + 0.5, wide - gapped - 1, high - gapped - 1); }
        write(c, at, `${thread % 32}`, "#111");
      }
    } });
    /** The first and last column above the tile, the first and last row beside it. */
    const edges = (c, wide, high) => {
      c.fillStyle = colour("soft");
      c.font = GS.font(10);
      c.fillText(`${column0}`, x0, 12);
      c.textAlign = "right";
      const last = `${column0 + columns - 1}`, end = x0 + columns * wide;
      if (columns > 1 && end - c.measureText(last).width > x0 + c.measureText(`${column0}`).width + 4) c.fillText(last, end, 12);
      c.fillText(`${row0}`, x0 - 4, y0 + 9);
      if (rows * high > 24) c.fillText(`${row0 + rows - 1}`, x0 - 4, y0 + rows * high - 1);
      c.textAlign = "left";
    };
    tile.node.addEventListener("pointermove", (event) => {
      const [x, y] = tile.at(event), [wide, high] = cell(tile.width), column = Math.floor((x - x0) / wide), row = Math.floor((y - y0) / high);
      const inside = row >= 0 && row < rows && column >= 0 && column < columns, who = inside ? maps[mode][row * columns + column] : -1;
      GS.showTip(event, who < 0 ? "" : `${data.out}[${row0 + row}][${column0 + column}]\nthread ${who}: warp ${Math.floor(who / 32)}, lane ${who % 32}`);
      hover(who);
    });

    // ---- the threads -----------------------------------------------------------------------------------
    const warps = Math.ceil(page.threads / 32), side = (w) => Math.max(5, Math.min(17, (w - 44) / 32));
    const threads = GS.canvas({ label: "the block's threads by warp and lane", height: (w) => warps * side(w) + 16, paint: (c, w) => {
      const size = side(w), thread = selected();
      c.font = GS.font(10);
      c.fillStyle = colour("soft");
      for (const lane of [0, 8, 16, 24, 31]) { c.textAlign = lane === 31 ? "right" : "left"; c.fillText(`${lane}`, 44 + (lane === 31 ? 32 : lane) * size, 10); }
      c.textAlign = "left";
      for (let who = 0; who < page.threads; who += 1) {
        const warp = Math.floor(who / 32), x = 44 + (who % 32) * size, y = 14 + warp * size;
        if (who % 32 === 0 && (size > 8 || warp % 4 === 0)) { c.fillStyle = colour("soft"); c.fillText(`warp ${warp}`, 0, y + size - 2); }
        const idle = !(owned[mode][who] || []).length;
        c.fillStyle = who === thread ? colour("pick") : idle ? colour("sunk") : mix(series(warp), colour("card"), warp === Math.floor(thread / 32) ? 0.28 : 0.7);
        c.fillRect(x, y, size - 1, size - 1);
      }
    } });
    const threadAt = (event) => { const [x, y] = threads.at(event), size = side(threads.width), lane = Math.floor((x - 44) / size), warp = Math.floor((y - 14) / size); return lane >= 0 && lane < 32 && warp >= 0 && warp * 32 + lane < page.threads ? warp * 32 + lane : -1; };
    threads.node.addEventListener("pointermove", (event) => hover(threadAt(event)));
    for (const each of [threads, tile]) {
      each.node.addEventListener("pointerleave", (event) => { GS.showTip(event, ""); hover(-1); });
      each.node.addEventListener("click", () => { if (hovered >= 0) host.player.go(hovered); });
    }
    const hover = (who) => { if (who === hovered) return; hovered = who; paint(); host.say(who < 0 ? "" : label(who)); };

    // ---- the lines ---------------------------------------------------------------------------------------
    const lines = data.lines.length ? el("div", { class: "card full" }, el("h2", {}, "Lines that touch global memory"),
      el("p", { class: "soft small" }, "Point at a line, or tab to it: red is what this warp touches there, strongest for the chosen thread."),
      ...data.lines.map((one) => {
        const choose = (on) => () => { line = on ? one : null; paint(); };
        return el("button", { type: "button", class: "line mono", pointerenter: choose(true), pointerleave: choose(false), focus: choose(true), blur: choose(false) },
          el("span", { class: "soft" }, `${one.file}:${one.line} `), page.lines[`${one.file}:${one.line}`] || one.kind, ...(one.caller ? [el("span", { class: "soft" }, `  ← ${one.caller} `), page.lines[one.caller] || ""] : []), el("span", { class: "soft" }, `  (${one.kind}, ${one.array})`));
      }), ...(data.more_lines ? [el("p", { class: "soft small" }, `${GS.plural(data.more_lines, "more line")} of the same kinds, not listed.`)] : [])) : null;

    const modes = Object.keys(maps).length > 1 ? GS.choice("Show who", Object.keys(maps).map((name) => [name, `${name} each output`]), mode, (value) => { mode = value; host.redraw(); }) : null;
    const legend = () => GS.legend([[colour("pick"), "the chosen thread"], [mix(colour("out"), colour("sunk"), 0.35), "its warp's outputs"], [mix(colour("out"), colour("sunk"), 0.75), "the block's tile"],
      ...(product ? [["a", `its rows of ${data.roles.A}`, data.roles.A], ["b", `its columns of ${data.roles.B}`, data.roles.B]].filter(([, , name]) => fed.some((one) => one.array === name)).map(([tint, text]) => [colour(tint), text]) : [[colour("a"), "what it reads"]])]);
    const words = el("div");
    host.root.append(...(modes ? [el("div", { class: "choices" }, modes.node)] : []),
      el("div", { class: "row" },
        el("div", { class: "card grow" }, el("h2", {}, product ? "The whole product" : "The arrays"), picture.node, words),
        el("div", { class: "card grow" }, el("h2", {}, `The block's tile of ${data.out}, by warp`), tile.node, el("h2", { style: { "margin-top": "0.8rem" } }, "The block's threads"), threads.node),
        ...(lines ? [lines] : [])));
    const paint = () => { picture.draw(); tile.draw(); threads.draw(); };
    const axis = (runs, word) => `${word}${runs.length > 1 || runs[0][0] !== runs[0][1] ? "s" : ""} ${GS.rangeText(runs)}`;
    const label = (thread) => {
      const mine = owned[mode][thread] || [], verb = mode === "stores" || !product ? "stores" : "computes";
      let text = `thread ${thread} (warp ${Math.floor(thread / 32)}, lane ${thread % 32}) ${mine.length ? `${verb} ${GS.plural(mine.length, "element")} of ${data.out}` : `${verb} nothing of ${data.out}`}`;
      if (!product) {
        for (const one of fed) { const [r, k] = one.sets[one.by_thread[thread]] || [[], []], many = arrays[one.array].rows > 1; if (k.length) text += `; uses ${one.array}${many ? `[${GS.rangeText(r)}]` : ""}[${GS.rangeText(k)}]`; }
        return text;
      }
      const a = setOf(data.roles.A, thread), b = setOf(data.roles.B, thread);
      if (a && b && a[0].length && b[1].length) text += `, from ${axis(a[0], "row")} of ${data.roles.A} and ${axis(b[1], "column")} of ${data.roles.B}`;
      return text;
    };
    // A producer or an idle thread owns nothing: the view opens at the first one that does.
    const first = owned[mode].findIndex((mine) => mine && mine.length);
    return { steps: page.threads, start: Math.max(0, first), rate: 12, label, draw: () => { GS.refill(words, "", legend); paint(); } };
  };
  GS.register({ name: "ownership", create });
}
