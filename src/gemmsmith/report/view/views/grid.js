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
   * Blocks start in the order of their numbers, whole clusters together, as soon as an SM has room. All blocks take
   * equally long here, so that they run in waves; a real GPU starts a block when any other ends.
   * @returns {{wave: number, sm: number, slot: number}[]}
   */
  const placed = (count, cluster, sms, held) => {
    const groups = Math.max(1, Math.floor((sms * held) / cluster));
    return Array.from({ length: count }, (_, n) => {
      const group = Math.floor(n / cluster), at = (group % groups) * cluster + (n % cluster);
      return { wave: Math.floor(group / groups), sm: at % sms, slot: Math.floor(at / sms) };
    });
  };
  GS.placedBlocks = placed;

  /** @param {Host} host */
  const create = (host) => {
    const { el, colour, plural } = GS, { data } = host, blocks = data.blocks;
    let sms = data.start.sms, held = data.start.held, order = "real", where = [], waves = 1, pointed = -1;
    /** Block numbers in the order that is shown. */
    let sequence = blocks.map((_, n) => n);
    const byRows = () => sequence.slice().sort((a, b) => (blocks[a][1][0] - blocks[b][1][0]) || (blocks[a][1][2] - blocks[b][1][2]) || a - b);
    const plan = () => {
      sequence = blocks.map((_, n) => n);
      if (order === "rows") sequence = byRows();
      where = placed(blocks.length, data.cluster, sms, held);
      waves = where.length ? where[where.length - 1].wave + 1 : 1;
    };
    plan();
    const stepsOf = () => Math.max(1, Math.min(blocks.length, 400));
    const lastOf = (step) => Math.min(blocks.length - 1, Math.floor(((step + 1) * blocks.length) / stepsOf()) - 1);
    const inWave = (wave) => sequence.filter((_, n) => where[n].wave === wave);

    /** Bytes that a wave asks for, and those that are distinct. */
    const traffic = (numbers) => data.inputs.reduce(([all, once], array, at) => {
      const boxes = numbers.map((n) => blocks[n][2][at]).filter((box) => box.length);
      const size = boxes.reduce((sum, [a, b, c, d]) => sum + (b - a + 1) * (d - c + 1), 0);
      return [all + size * array.bytes, once + unionArea(boxes) * array.bytes];
    }, [0, 0]);
    const short = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} MB` : n >= 1e3 ? `${(n / 1e3).toFixed(1)} kB` : `${n} B`);

    const tint = (n, last, wave) => (n > last ? colour("sunk") : where[n].wave < wave ? colour("h2") : GS.series(where[n].sm));
    const matrix = (of, box, label, strong) => GS.canvas({ label, height: (w) => Math.max(34, Math.min(strong ? 360 : 110, (w * of.rows) / Math.max(1, of.columns))), paint: (c, w, h) => {
      const last = lastOf(host.player.step), wave = where[last].wave, sx = w / of.columns, sy = h / of.rows;
      c.fillStyle = colour("sunk"); c.fillRect(0, 0, w, h);
      const counts = new Map();
      sequence.forEach((number, n) => {
        const b = box(blocks[number]);
        if (!b.length || n > last || (!strong && where[n].wave !== wave)) return;
        const x = b[2] * sx, y = b[0] * sy, bw = (b[3] - b[2] + 1) * sx, bh = (b[1] - b[0] + 1) * sy, key = b.join();
        counts.set(key, (counts.get(key) || 0) + 1);
        if (!strong && counts.get(key) > 1) return;
        c.fillStyle = strong ? tint(n, last, wave) : colour("h4");
        c.globalAlpha = strong ? 1 : 0.8;
        c.fillRect(x, y, Math.max(1, bw - (bw > 4 ? 1 : 0)), Math.max(1, bh - (bh > 4 ? 1 : 0)));
        c.globalAlpha = 1;
        if (strong && bw > 24 && bh > 14 && counts.get(key) === 1) { c.fillStyle = where[n].wave < wave ? colour("ink") : colour("on-series"); c.textAlign = "center"; c.fillText(String(number), x + bw / 2, y + bh / 2 + 4); c.textAlign = "left"; }
      });
      if (strong) for (const [key, many] of counts) if (many > 1) { const b = key.split(",").map(Number); c.strokeStyle = colour("ink"); c.lineWidth = 2; c.strokeRect(b[2] * sx + 1, b[0] * sy + 1, (b[3] - b[2] + 1) * sx - 3, (b[1] - b[0] + 1) * sy - 3); }
      const at = pointed >= 0 ? pointed : sequence[last], b = box(blocks[at]);
      if (b.length) { c.strokeStyle = colour("pick"); c.lineWidth = 3; c.strokeRect(b[2] * sx + 1.5, b[0] * sy + 1.5, Math.max(2, (b[3] - b[2] + 1) * sx - 3), Math.max(2, (b[1] - b[0] + 1) * sy - 3)); }
    } });
    const c = matrix(data.output, (block) => block[1], `${data.output.name}: the tile of each block`, true);
    const inputs = data.inputs.map((array, at) => ({ array, drawn: matrix(array, (block) => block[2][at], `${array.name}: what the blocks in flight read`, false) }));

    const gpu = GS.canvas({ label: "the SMs and the blocks on them", height: (w) => { const across = Math.max(8, Math.floor(w / 34)); return Math.ceil(sms / across) * 34; }, paint: (g, w) => {
      const across = Math.max(8, Math.floor(w / 34)), size = 34, last = lastOf(host.player.step), wave = where[last].wave;
      for (let n = 0; n < sms; n += 1) { g.fillStyle = colour("sunk"); g.fillRect((n % across) * size + 1, Math.floor(n / across) * size + 1, size - 2, size - 2); }
      const rows = Math.ceil(Math.sqrt(held)), cell = (size - 4) / rows;
      for (let n = 0; n <= last; n += 1) {
        if (where[n].wave !== wave) continue;
        const { sm, slot } = where[n], x = (sm % across) * size + 2 + (slot % rows) * cell, y = Math.floor(sm / across) * size + 2 + Math.floor(slot / rows) * cell;
        g.fillStyle = sequence[n] === pointed || n === last ? colour("pick") : GS.series(sm);
        g.fillRect(x, y, cell - 1, cell - 1);
        if (cell > 22) { g.fillStyle = colour("on-series"); g.textAlign = "center"; g.fillText(String(sequence[n]), x + cell / 2, y + cell / 2 + 4); g.textAlign = "left"; }
      }
    } });

    const about = (number) => {
      const n = sequence.indexOf(number), b = blocks[number][1], [x, y, z] = blocks[number][0];
      const tile = b.length ? `rows ${b[0]}–${b[1]}, columns ${b[2]}–${b[3]} of ${data.output.name}` : "nothing";
      const same = b.length ? blocks.filter((other) => other[1].join() === b.join()).length : 1;
      const a = data.inputs.findIndex((array) => array.role === "A"), k = a >= 0 && same > 1 && blocks[number][2][a].length ? `, k ${blocks[number][2][a][2]}–${blocks[number][2][a][3]}` : "";
      return `block ${number} (${x}, ${y}, ${z}) on SM ${where[n].sm}, wave ${where[n].wave + 1}: ${tile}${k}${same > 1 ? `; ${same} blocks share this tile` : ""}`;
    };
    c.node.addEventListener("pointermove", (event) => {
      const [x, y] = c.at(event), row = (y / c.height) * data.output.rows, column = (x / c.width) * data.output.columns, last = lastOf(host.player.step);
      let found = -1;
      sequence.forEach((number, n) => { const b = blocks[number][1]; if (n <= last && b.length && b[0] <= row && row < b[1] + 1 && b[2] <= column && column < b[3] + 1) found = number; });
      if (found !== pointed) { pointed = found; host.redraw(); host.say(found >= 0 ? about(found) : ""); }
    });
    c.node.addEventListener("pointerleave", () => { pointed = -1; host.redraw(); host.say(""); });

    const slider = (label, min, max, value, set) => {
      const id = `grid-${label.replace(/\W+/g, "-")}`, out = el("output", { class: "small" }, String(value));
      const input = /** @type {HTMLInputElement} */ (el("input", { type: "range", id, min, max, value, input: () => { out.textContent = input.value; set(Number(input.value)); plan(); host.redraw(); } }));
      return el("label", { for: id }, `${label} `, out, input);
    };
    const told = el("p", { class: "readout" });
    host.root.append(
      el("div", { class: "choices" },
        slider(`SMs (${data.gpu.name}: ${data.gpu.sms})`, 1, Math.max(data.gpu.sms, 2), sms, (n) => { sms = n; }), slider(`blocks per SM (${data.gpu.held})`, 1, Math.max(32, held), held, (n) => { held = n; }),
        GS.choice("Order ", [["real", "of the block numbers (real)"], ["rows", "of the tiles, row by row"]], "real", (value) => { order = value; plan(); host.redraw(); }).node),
      el("div", { class: "row" },
        el("div", { class: "card grow" }, el("h2", {}, `${data.output.name}: the tile of each block`), c.node, GS.legend([[colour("h2"), "done"], [colour("s1"), "in flight; the colour is the SM"], [colour("pick"), "the block that starts now"], [colour("sunk"), "later"]]),
          el("p", { class: "soft small" }, "A frame is a tile that several blocks share: K is divided among them.")),
        el("div", { class: "card grow" }, el("h2", {}, "The SMs, and the blocks on them"), gpu.node, told,
          inputs.map(({ array, drawn }) => el("div", {}, el("h2", {}, `${array.name}: what the blocks in flight read`), drawn.node)))),
      el("p", { class: "soft small" }, "Which block computes which tile is recorded. When and where a block runs is a model: in the order of their numbers, round over the SMs, all equally long."));
    return {
      get steps() { return stepsOf(); }, start: Math.max(0, Math.min(stepsOf(), Math.ceil((sms * held * stepsOf()) / Math.max(1, blocks.length))) - 1), rate: 12,
      label: (step) => about(sequence[lastOf(step)]),
      draw: (step) => {
        const last = lastOf(step), wave = where[last].wave, flight = inWave(wave), [all, once] = traffic(flight), room = sms * held;
        const tail = wave === waves - 1 && flight.length < room ? ` The last wave leaves ${plural(room - flight.length, "place")} of ${room} empty.` : "";
        told.textContent = `Wave ${wave + 1} of ${waves}: ${plural(flight.length, "block")}. They ask for ${short(all)} of ${data.inputs.map((a) => a.name).join(" and ") || "nothing"}, of which ${short(once)} are distinct: ${once ? `each byte serves ${(all / once).toFixed(1)} blocks.` : ""}${tail}`;
        c.draw(); gpu.draw(); inputs.forEach(({ drawn }) => drawn.draw());
      },
    };
  };
  GS.register({ name: "grid", create });
}
