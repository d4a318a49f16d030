/* The grid over SMs: blocks in the order in which they start, waves, the tail, and what the tiles in flight share. */
{
  /** Elements that at least one box [first row, last row, first column, last column] covers. */
  const unionArea = (boxes) => {
    const given = boxes.filter((box) => box.length);
    const edges = (a, b) => [...new Set(given.flatMap((box) => [box[a], box[b] + 1]))].sort((x, y) => x - y);
    const rows = edges(0, 1), columns = edges(2, 3);
    const place = (list) => new Map(list.map((value, at) => [value, at])), row = place(rows), column = place(columns);
    const covered = rows.map(() => new Uint8Array(columns.length));
    for (const [first, last, left, right] of given) for (let r = row.get(first); r < row.get(last + 1); r += 1) covered[r].fill(1, column.get(left), column.get(right + 1));
    let area = 0;
    covered.forEach((line, r) => line.forEach((one, c) => { if (one) area += (rows[r + 1] - rows[r]) * (columns[c + 1] - columns[c]); }));
    return area;
  };
  GS.unionArea = unionArea;

  /**
   * Blocks start in the order of their numbers, whole clusters together, as soon as an SM has room. A block takes as
   * long as its multiply-adds here; a real GPU also waits for memory.
   * @returns {{wave: number, sm: number, slot: number, start: number, end: number}[]}
   */
  const placed = (count, cluster, sms, held, long = () => 1) => {
    const groups = Math.max(1, Math.floor((sms * held) / cluster)), free = new Float64Array(groups), rounds = new Int32Array(groups), made = [];
    for (let first = 0; first < count; first += cluster) {
      let group = 0;
      for (let g = 1; g < groups && free[group] > 0; g += 1) if (free[g] < free[group]) group = g;
      const start = free[group], last = Math.min(count, first + cluster);
      let end = start;
      for (let n = first; n < last; n += 1) {
        const at = group * cluster + (n - first);
        made.push({ wave: rounds[group], sm: at % sms, slot: Math.floor(at / sms), start, end: start + long(n) });
        end = Math.max(end, start + long(n));
      }
      free[group] = end; rounds[group] += 1;
    }
    return made;
  };
  GS.placedBlocks = placed;

  /** @param {Host} host */
  const create = (host) => {
    const { el, colour, plural } = GS, { data } = host, blocks = data.blocks, depth = data.k || 1;
    let sms = data.start.sms, held = data.start.held, order = "real", items = [], waves = 1, span = 1, pointed = -1;
    /** Block numbers in the order that is shown. */
    let sequence = blocks.map((_, n) => n);
    const firstTile = (n) => (data.parts[n].length ? data.tiles[data.parts[n][0][0]] : [Infinity, 0, 0, 0]);
    const byRows = () => sequence.slice().sort((a, b) => (firstTile(a)[0] - firstTile(b)[0]) || (firstTile(a)[2] - firstTile(b)[2]) || a - b);
    const work = ([tile, first, last]) => { const [a, b, c, d] = data.tiles[tile]; return ((b - a + 1) * (d - c + 1) * (last < first ? depth : last - first + 1)); };
    const unit = Math.max(1, ...data.parts.map((mine) => mine.reduce((sum, part) => sum + work(part), 0)));
    const long = (number) => (data.parts[number].length ? data.parts[number].reduce((sum, part) => sum + work(part), 0) / unit : 0.02);
    const sharers = data.tiles.map(() => 0);
    data.parts.forEach((mine) => mine.forEach(([tile]) => { sharers[tile] += 1; }));
    /** What an array's part is, of a block and its part: rows and columns. */
    const boxOf = (at, number, part) => {
      const { role } = data.inputs[at];
      if (!part || part[2] < part[1] || (role !== "A" && role !== "B")) return blocks[number][2][at];
      const [a, b, c, d] = data.tiles[part[0]];
      return role === "A" ? [a, b, part[1], part[2]] : [part[1], part[2], c, d];
    };
    /** Each item is one part of a block's work; a block without work has one item as well. */
    const plan = () => {
      sequence = blocks.map((_, n) => n);
      if (order === "rows") sequence = byRows();
      const where = placed(blocks.length, data.cluster, sms, held, (n) => long(sequence[n]));
      items = [];
      where.forEach((place, n) => {
        let start = place.start;
        const number = sequence[n], mine = data.parts[number].length ? data.parts[number] : [null];
        for (const part of mine) { const end = start + (part ? work(part) / unit : 0.02); items.push({ ...place, number, part, n, start, end }); start = end; }
      });
      items.sort((a, b) => a.start - b.start || a.n - b.n);
      waves = items.reduce((most, item) => Math.max(most, item.wave + 1), 1);
      span = items.reduce((most, item) => Math.max(most, item.end), 0) || 1;
    };
    plan();
    const stepsOf = () => Math.max(1, Math.min(items.length, 400));
    const lastOf = (step) => Math.min(items.length - 1, Math.floor(((step + 1) * items.length) / stepsOf()) - 1);
    /** Items in flight when an item starts: with those that start at the same moment. */
    const inFlight = (item) => items.filter((one) => one.start <= item.start + 1e-9 && one.end > item.start + 1e-9);

    /** Bytes that a wave asks for, and those that are distinct. */
    const traffic = (flight) => data.inputs.reduce(([asked, once], array, at) => {
      const boxes = flight.map((item) => boxOf(at, item.number, item.part)).filter((box) => box.length);
      const size = boxes.reduce((sum, [a, b, c, d]) => sum + (b - a + 1) * (d - c + 1), 0);
      return [asked + size * array.bytes, once + unionArea(boxes) * array.bytes];
    }, [0, 0]);
    const short = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : n >= 1e3 ? `${(n / 1e3).toFixed(1)} kB` : `${n} B`);
    const frame = (c, x, y, w, h, tint, wide) => { c.strokeStyle = colour(tint); c.lineWidth = wide; c.strokeRect(x + wide / 2, y + wide / 2, Math.max(1, w - wide), Math.max(1, h - wide)); };
    const written = (c, text, x, y, w, h, tint) => { if (h > 13 && w > c.measureText(text).width + 4) { c.fillStyle = colour(tint); c.textAlign = "center"; c.fillText(text, x + w / 2, y + h / 2 + 4); c.textAlign = "left"; } };

    // ---- C: tiles, and strips of tiles that are divided along k --------------------------------------------
    const strip = (item, sx, sy) => {
      const [a, b, l, r] = data.tiles[item.part[0]], [, first, last] = item.part, whole = last < first || sharers[item.part[0]] < 2;
      const x = l * sx, w = (r - l + 1) * sx, from = whole ? 0 : first / depth, to = whole ? 1 : (last + 1) / depth;
      return [x + w * from, a * sy, w * (to - from), (b - a + 1) * sy];
    };
    const c = GS.canvas({ label: `${data.output.name}: the tile of each block`, height: (w) => Math.max(34, Math.min(360, (w * data.output.rows) / Math.max(1, data.output.columns))), paint: (g, w, h) => {
      const now = items[lastOf(host.player.step)], sx = w / data.output.columns, sy = h / data.output.rows;
      g.fillStyle = colour("sunk"); g.fillRect(0, 0, w, h);
      const seen = new Set();
      items.slice(0, lastOf(host.player.step) + 1).forEach((item) => {
        if (!item.part) return;
        const [x, y, bw, bh] = strip(item, sx, sy), done = item.end <= now.start + 1e-9;
        g.fillStyle = done ? colour("h2") : GS.series(item.part[0]);
        g.fillRect(x, y, Math.max(1, bw - (bw > 4 ? 1 : 0)), Math.max(1, bh - (bh > 4 ? 1 : 0)));
        written(g, String(item.number), x, y, bw, bh, done ? "ink" : "on-series");
        if (sharers[item.part[0]] > 1) seen.add(item.part[0]);
      });
      for (const tile of seen) { const [a, b, l, r] = data.tiles[tile]; frame(g, l * sx, a * sy, (r - l + 1) * sx - 1, (b - a + 1) * sy - 1, "ink", 2); }
      for (const item of items) if (item.part && (pointed >= 0 ? item.number === pointed : item === now)) { const [x, y, bw, bh] = strip(item, sx, sy); frame(g, x, y, bw, bh, "pick", 3); }
    } });
    const inputs = data.inputs.map((array, at) => ({ array, drawn: GS.canvas({ label: `${array.name}: what the blocks in flight read`, height: (w) => Math.max(34, Math.min(110, (w * array.rows) / Math.max(1, array.columns))), paint: (g, w, h) => {
      const now = items[lastOf(host.player.step)], sx = w / array.columns, sy = h / array.rows, seen = new Set();
      g.fillStyle = colour("sunk"); g.fillRect(0, 0, w, h);
      for (const item of inFlight(now)) {
        const b = boxOf(at, item.number, item.part);
        if (!b.length || seen.has(b.join())) continue;
        seen.add(b.join());
        g.fillStyle = colour("h4"); g.globalAlpha = 0.8;
        const bw = (b[3] - b[2] + 1) * sx, bh = (b[1] - b[0] + 1) * sy;
        g.fillRect(b[2] * sx, b[0] * sy, Math.max(1, bw - (bw > 4 ? 1 : 0)), Math.max(1, bh - (bh > 4 ? 1 : 0)));
        g.globalAlpha = 1;
      }
      const one = pointed >= 0 ? items.find((item) => item.number === pointed) : now, b = one ? boxOf(at, one.number, one.part) : [];
      if (b.length) frame(g, b[2] * sx, b[0] * sy, Math.max(4, (b[3] - b[2] + 1) * sx), Math.max(4, (b[1] - b[0] + 1) * sy), "pick", 3);
    } }) }));

    // ---- the SMs over time: a bar is a part of a tile ------------------------------------------------------
    const rowHigh = () => Math.max(2, Math.min(20, 330 / (sms * held)));
    const time = GS.canvas({ label: "the SMs over time: a bar is a block's part of a tile", height: () => 16 + sms * held * rowHigh(), paint: (g, w) => {
      const high = rowHigh(), x0 = 46, scale = (w - x0 - 4) / span, now = items[lastOf(host.player.step)];
      g.fillStyle = colour("soft"); g.font = GS.font(11);
      for (let n = 0; n < sms; n += Math.max(1, Math.ceil(16 / (high * held)))) g.fillText(`SM ${n}`, 2, 8 + (n + 0.5) * held * high);
      g.fillStyle = colour("sunk"); g.fillRect(x0, 4, w - x0 - 4, sms * held * high);
      for (const item of items) {
        if (!item.part) continue;
        const x = x0 + item.start * scale, bw = (item.end - item.start) * scale, y = 4 + (item.sm * held + item.slot) * high, later = item.start > now.start + 1e-9;
        g.globalAlpha = later ? 0.22 : 1;
        g.fillStyle = GS.series(item.part[0]);
        g.fillRect(x, y, Math.max(1, bw - 1), Math.max(1, high - (high > 3 ? 1 : 0)));
        if (!later) written(g, sharers[item.part[0]] > 1 && item.part[2] >= item.part[1] ? `tile ${item.part[0]}, k ${item.part[1]}–${item.part[2]}` : `tile ${item.part[0]}`, x, y, bw, high, "on-series");
        g.globalAlpha = 1;
        if (item.number === pointed || (pointed < 0 && item === now)) frame(g, x, y, bw, high, "pick", 2);
      }
      const x = x0 + now.start * scale;
      g.fillStyle = colour("pick"); g.fillRect(x - 1, 0, 2, 8 + sms * held * high);
    } });

    const axis = (word, first, last) => (first === last ? `${word} ${first}` : `${word}s ${first}–${last}`);
    const about = (item) => {
      const { number, part } = item, [x, y, z] = blocks[number][0], same = part ? sharers[part[0]] : 1, mine = data.parts[number];
      const box = part ? data.tiles[part[0]] : [], tile = part ? `${data.output.rows > 1 ? `${axis("row", box[0], box[1])}, ${axis("column", box[2], box[3])}` : axis("element", box[2], box[3])} of ${data.output.name}` : `nothing of ${data.output.name}`;
      const k = part && part[2] >= part[1] && (same > 1 || mine.length > 1) ? `, k ${part[1]}–${part[2]}` : "";
      const several = mine.length > 1 ? `; part ${mine.indexOf(part) + 1} of ${mine.length} of this block` : "";
      return `block ${number} (${x}, ${y}, ${z}) on SM ${item.sm}, wave ${item.wave + 1}: ${tile}${k}${same > 1 ? `; ${same} blocks share this tile` : ""}${several}`;
    };
    const point = (found) => { const to = found ? found.number : -1; if (to !== pointed) { pointed = to; host.redraw(); } host.say(found ? about(found) : ""); };
    c.node.addEventListener("pointermove", (event) => {
      const [x, y] = c.at(event), sx = c.width / data.output.columns, sy = c.height / data.output.rows, last = lastOf(host.player.step);
      point(items.slice(0, last + 1).reverse().find((item) => { if (!item.part) return false; const [bx, by, bw, bh] = strip(item, sx, sy); return bx <= x && x < bx + bw && by <= y && y < by + bh; }));
    });
    time.node.addEventListener("pointermove", (event) => {
      const [x, y] = time.at(event), row = Math.floor((y - 4) / rowHigh()), at = ((x - 46) * span) / (time.width - 50);
      point(items.find((item) => item.sm * held + item.slot === row && item.start <= at && at < item.end));
    });
    for (const each of [c, time]) each.node.addEventListener("pointerleave", () => point(undefined));

    const slider = (label, min, max, value, set) => {
      const id = `grid-${label.replace(/\W+/g, "-")}`, out = el("output", { class: "small" }, String(value));
      const input = /** @type {HTMLInputElement} */ (el("input", { type: "range", id, min, max, value, input: () => { out.textContent = input.value; set(Number(input.value)); plan(); host.redraw(); } }));
      return el("label", { for: id }, `${label} `, out, input);
    };
    const told = el("p", { class: "readout" });
    const alongK = data.parts.some((mine) => mine.some(([tile, first, last]) => sharers[tile] > 1 && last >= first));
    const divided = alongK ? el("p", { class: "soft small" }, `A frame is a tile that several blocks share. Its strips are their parts of K, from k = 0 on the left to k = ${depth - 1} on the right.`) : "";
    host.root.append(
      el("div", { class: "choices" },
        slider(`SMs (${data.gpu.name}: ${data.gpu.sms})`, 1, Math.max(data.gpu.sms, 2), sms, (n) => { sms = n; }), slider(`blocks per SM (${data.gpu.held})`, 1, Math.max(32, held), held, (n) => { held = n; }),
        GS.choice("Order ", [["real", "of the block numbers (real)"], ["rows", "of the tiles, row by row"]], "real", (value) => { order = value; plan(); host.redraw(); }).node),
      el("div", { class: "row" },
        el("div", { class: "card grow" }, el("h2", {}, `${data.output.name}: the tile of each block`), c.node, GS.legend([[colour("h2"), "done"], [colour("s1"), "in flight; each tile has a colour"], [colour("pick"), "the block that starts now"], [colour("sunk"), "later"]]), divided,
          inputs.map(({ array, drawn }) => el("div", {}, el("h2", {}, `${array.name}: what the blocks in flight read`), drawn.node))),
        el("div", { class: "card grow" }, el("h2", {}, "The SMs over time, in the colours of the tiles"), time.node, told)),
      el("p", { class: "soft small" }, `Which block computes which part of which tile is recorded. When and where it runs is a model: in the order of block numbers, on the SM that is free first, ${data.product ? "as long as it has multiply-adds" : "each as long as it has outputs"}.`));
    // Opens when the first wave is under way; blocks without work teach nothing.
    let start = Math.max(0, Math.min(stepsOf(), Math.ceil((sms * held * stepsOf()) / Math.max(1, items.length))) - 1);
    while (start > 0 && !items[lastOf(start)].part) start -= 1;
    return {
      get steps() { return stepsOf(); }, start, rate: 12,
      label: (step) => about(items[lastOf(step)]),
      draw: (step) => {
        const now = items[lastOf(step)], flight = inFlight(now), [asked, once] = traffic(flight), room = sms * held, busy = new Set(flight.map((item) => item.number)).size;
        const tail = now.wave === waves - 1 && waves > 1 && busy < room ? ` The last wave leaves ${plural(room - busy, "place")} of ${room} empty.` : "";
        told.textContent = `Wave ${now.wave + 1} of ${waves}: ${plural(busy, "block")} in flight. They ask for ${short(asked)} of ${data.inputs.map((a) => a.name).join(" and ") || "nothing"}, of which ${short(once)} are distinct: ${once ? `each byte serves ${(asked / once).toFixed(1)} blocks.` : ""}${tail}`;
        c.draw(); time.draw(); inputs.forEach(({ drawn }) => drawn.draw());
      },
    };
  };
  GS.register({ name: "grid", create });
}
