/* Tensor-core fragments: who holds which element of A, B and D, and where it came from in shared memory. */
{
  /** @param {Host} host */
  const create = (host) => {
    const { data, page } = host, { colour, mix, series, el } = GS;
    const read = (operand) => operand && Object.fromEntries(Object.entries(operand).map(([name, value]) => [name, value && typeof value === "object" ? GS.unpack(value) : value]));
    const products = data.products.map((one) => ({ ...one, a: read(one.a), b: read(one.b), d: read(one.d) }));
    const loads = data.loads.map((one) => ({ ...one, held: GS.unpack(one.held), shared: GS.unpack(one.shared), row: one.row && GS.unpack(one.row), column: one.column && GS.unpack(one.column) }));
    const items = [...products.map((one) => ({ kind: "product", one })), ...loads.map((one) => ({ kind: "load", one }))];
    let chosen = 0, hovered = -1;
    const item = () => items[chosen], threads = () => (item().kind === "product" ? item().one.threads : 32);
    const selected = () => (hovered >= 0 ? hovered : Math.min(host.player.step, threads() - 1));
    /** @type {{x: number, y: number, w: number, h: number, text: string, who: number}[]} */
    let spots = [];
    const laneColour = (lane) => mix(series(lane >> 2), colour("card"), 0.25 + 0.17 * (lane & 3));
    const elementName = (operand, n) => (operand.array && operand.row && operand.row[n] >= 0 ? `${operand.array}[${operand.row[n]}][${operand.column[n]}]` : "");
    const whereText = (operand, n) => (operand.shared && operand.shared[n] >= 0 ? `from shared byte ${operand.shared[n]}, bank ${Math.floor(operand.shared[n] / 4) % 32}` : "");

    // ---- the matrices -----------------------------------------------------------------------------------
    /** One matrix at a place; `whoOf(n)` is the thread that holds element n, or -1. */
    const paintMatrix = (c, x0, y0, s, rows, columns, operand, title, whoOf, tint, feeds) => {
      const who = selected();
      c.fillStyle = colour("ink");
      c.fillText(c.measureText(title).width > columns * s + 8 ? title.split(/[:,]/)[0] : title, x0, y0 - 5);
      for (let r = 0; r < rows; r += 1) for (let k = 0; k < columns; k += 1) {
        const n = r * columns + k, holder = whoOf(r, k, n), x = x0 + k * s, y = y0 + r * s, mine = holder === who;
        const fed = feeds && feeds(r, k);
        c.fillStyle = mine ? colour("pick") : holder < 0 ? (fed ? tint : mix(tint, colour("card"), 0.75)) : fed ? laneColour(holder % 32) : mix(laneColour(holder % 32), colour("card"), s < 8 ? 0.3 : 0.45);
        c.fillRect(x, y, s - (s > 5 ? 1 : 0), s - (s > 5 ? 1 : 0));
        if (s >= 15 && holder >= 0) { c.fillStyle = mine ? "#111" : colour("ink"); c.textAlign = "center"; c.fillText(`${holder % 32}`, x + s / 2, y + s / 2 + 3.5); c.textAlign = "left"; }
        if (mine && s > 5) { c.strokeStyle = colour("ink"); c.lineWidth = 1; c.strokeRect(x + 0.5, y + 0.5, s - 2, s - 2); }
      }
      spots.push({ x: x0, y: y0, w: columns * s, h: rows * s, text: "", who: -1, of: (x, y) => {
        const k = Math.floor((x - x0) / s), r = Math.floor((y - y0) / s), n = r * columns + k, holder = whoOf(r, k, n), held = operand.held ? operand.held[n] : -1;
        const own = [elementName(operand, n), holder >= 0 ? `lane ${holder % 32}${threads() > 32 ? ` of warp ${Math.floor(holder / 32)}` : ""}, register ${(held >> 4) & 255}, element ${held & 15}` : "in shared memory, in no register", whereText(operand, n)].filter(Boolean);
        return [holder, `${title.split(":")[0]}, row ${r}, column ${k}\n${own.join("\n")}`];
      } });
    };
    const holderOf = (operand, one, rowsFirst) => (r, k, n) => { const held = operand.held[n]; return held < 0 ? -1 : (held >> 12) + (one.threads > 32 && rowsFirst ? 32 * Math.floor(r / 16) : 0); };
    const geometry = (w, one) => {
      const s = Math.max(1.4, Math.min(21, (w - 40) / (one.depth + one.columns + 1)));
      return { s, left: 6, gap: Math.max(14, s) };
    };
    const paintProduct = (c, w, one) => {
      const { s, left, gap } = geometry(w, one), top = 20, x1 = left + one.depth * s + gap, y1 = top + one.depth * s + gap + 16;
      const dRows = new Set(), dColumns = new Set(), who = selected();
      for (let n = 0; n < one.d.held.length; n += 1) { const r = Math.floor(n / one.columns); if (holderOf(one.d, one, true)(r, 0, n) === who) { dRows.add(r); dColumns.add(n % one.columns); } }
      paintMatrix(c, x1, top, s, one.depth, one.columns, one.b, `B: ${one.depth} × ${one.columns}${one.b.held[0] < 0 ? ", in shared memory" : ""}`, holderOf(one.b, one, false), colour("b"), (_, k) => dColumns.has(k));
      paintMatrix(c, left, y1, s, one.rows, one.depth, one.a, `A: ${one.rows} × ${one.depth}${one.a.held[0] < 0 ? ", in shared memory" : ""}`, holderOf(one.a, one, true), colour("a"), (r) => dRows.has(r));
      paintMatrix(c, x1, y1, s, one.rows, one.columns, one.d, `D: ${one.rows} × ${one.columns}, accumulators`, holderOf(one.d, one, true), colour("out"), null);
    };
    const productHeight = (w, one) => { const { s, gap } = geometry(w, one); return 20 + (one.depth + one.rows) * s + gap + 22; };
    const across = (w, one) => Math.max(1, Math.min(one.matrices, w > 700 ? 4 : 2)), loadSize = (w, one) => Math.max(9, Math.min(24, (w - 20) / across(w, one) / 9.6));
    const paintLoad = (c, w, one) => {
      const n = across(w, one), s = loadSize(w, one);
      for (let m = 0; m < one.matrices; m += 1) {
        const x0 = 6 + (m % n) * (s * 8 + s * 1.4), y0 = 20 + Math.floor(m / n) * (s * 8 + 34);
        const part = { held: one.held, array: one.array, row: one.row && one.row.slice(64 * m, 64 * m + 64), column: one.column && one.column.slice(64 * m, 64 * m + 64), shared: one.shared.slice(64 * m, 64 * m + 64) };
        paintMatrix(c, x0, y0, s, 8, 8, part, `matrix ${m}: rows from lanes ${8 * m}–${8 * m + 7}`.slice(0, s > 14 ? 60 : 8), (r, k, at) => one.held[at] >> 12, colour("a"), null);
      }
    };
    const loadHeight = (w, one) => Math.ceil(one.matrices / across(w, one)) * (loadSize(w, one) * 8 + 34) + 6;
    const matrices = GS.canvas({ label: "the matrices, with the lane that holds each element", height: (w) => (item().kind === "product" ? productHeight(w, item().one) : loadHeight(w, item().one)), paint: (c, w) => {
      spots = [];
      c.font = GS.font(11);
      if (item().kind === "product") paintProduct(c, w, item().one); else paintLoad(c, w, item().one);
    } });

    // ---- shared memory -----------------------------------------------------------------------------------
    const WORDS = 32;
    /** Words of shared memory that the operands come from: word to [operand, element numbers, holders]. */
    const wordsOf = () => {
      const found = new Map();
      const add = (operand, letter, whoOf, columns) => { if (operand.shared) operand.shared.forEach((at, n) => { if (at < 0) return; const word = Math.floor(at / 4); if (!found.has(word)) found.set(word, { letter, operand, numbers: [], holders: new Set() }); const one = found.get(word); one.numbers.push(n); one.holders.add(whoOf(Math.floor(n / columns), n % columns, n)); }); };
      if (item().kind === "product") { const one = item().one; add(one.a, "A", holderOf(one.a, one, true), one.depth); add(one.b, "B", holderOf(one.b, one, false), one.columns); }
      else add(item().one, "", (r, k, n) => item().one.held[n % 64] >> 12, 8);
      return found;
    };
    let words = wordsOf();
    const lines = () => [...new Set([...words.keys()].map((word) => Math.floor(word / WORDS)))].sort((a, b) => a - b);
    const left = (w) => (w < 520 ? 4 : 96), size = (w) => (w - left(w) - 6) / WORDS, high = 15;
    /** @type {{x: number, y: number, w: number, h: number, text: string, who: number}[]} */
    let memorySpots = [];
    const MOST = 48;
    const feeding = () => {
      const found = new Set();
      if (item().kind !== "product") return found;
      const one = item().one, who = selected(), rows = new Set(), columns = new Set();
      one.d.held.forEach((_, n) => { const r = Math.floor(n / one.columns); if (holderOf(one.d, one, true)(r, 0, n) === who) { rows.add(r); columns.add(n % one.columns); } });
      for (const [word, value] of words) if (value.numbers.some((n) => (value.letter === "A" ? rows.has(Math.floor(n / one.depth)) : columns.has(n % one.columns)))) found.add(word);
      return found;
    };
    const memory = GS.canvas({ label: "where in shared memory the elements come from, by bank", height: () => Math.min(MOST, lines().length) * high + 26, paint: (c, w) => {
      memorySpots = [];
      const s = size(w), x0 = left(w), who = selected(), fed = feeding();
      c.font = GS.font(10);
      c.fillStyle = colour("soft");
      c.textAlign = "center";
      for (let bank = 0; bank < WORDS; bank += 1) if (s > 14 || bank % 4 === 0) c.fillText(`${bank}`, x0 + (bank + 0.5) * s, 11);
      c.textAlign = "left";
      lines().slice(0, MOST).forEach((line, n) => {
        const y = 16 + n * high;
        c.fillStyle = colour("soft");
        if (x0 > 60) c.fillText(`+${line * 128}`, 2, y + 10);
        for (let bank = 0; bank < WORDS; bank += 1) {
          const word = line * WORDS + bank, value = words.get(word), x = x0 + bank * s;
          if (!value) { c.fillStyle = colour("sunk"); c.fillRect(x, y, s - 1, high - 2); continue; }
          const mine = value.holders.has(who), holder = [...value.holders][0], base = colour(value.letter === "B" ? "b" : "a");
          const k = value.letter === "B" ? Math.floor(value.numbers[0] / item().one.columns) : value.letter === "A" ? value.numbers[0] % item().one.depth : value.numbers[0] % 8;
          c.fillStyle = mine ? colour("pick") : holder >= 0 ? mix(laneColour(holder % 32), colour("card"), 0.35) : mix(base, colour("card"), fed.has(word) ? 0.05 : 0.45 + 0.25 * ((k >> 3) & 1));
          c.fillRect(x, y, s - 1, high - 2);
          if (s > 17 && holder >= 0) { c.fillStyle = mine ? "#111" : colour("ink"); c.textAlign = "center"; c.fillText(value.holders.size > 1 ? `${value.holders.size}×` : `${holder % 32}`, x + s / 2, y + 10); c.textAlign = "left"; }
          memorySpots.push({ x, y, w: s, h: high, who: holder, text: `shared byte ${word * 4}, bank ${bank}\n${value.numbers.slice(0, 4).map((m) => elementName(value.operand, m)).filter(Boolean).join(", ") || value.letter}` });
        }
      });
      if (lines().length > MOST) { c.fillStyle = colour("soft"); c.fillText(`and ${lines().length - MOST} more rows of 128 bytes`, x0, 16 + MOST * high + 8); }
    } });

    const hover = (who) => { if (who !== hovered) { hovered = who; paint(); } };
    matrices.node.addEventListener("pointermove", (event) => {
      const [x, y] = matrices.at(event), spot = spots.find((s) => x >= s.x && x < s.x + s.w && y >= s.y && y < s.y + s.h);
      const [who, text] = spot ? /** @type {any} */ (spot).of(x, y) : [-1, ""];
      GS.showTip(event, text); host.say(text.replaceAll("\n", ", ")); hover(who);
    });
    memory.node.addEventListener("pointermove", (event) => {
      const [x, y] = memory.at(event), spot = memorySpots.find((s) => x >= s.x && x < s.x + s.w && y >= s.y && y < s.y + s.h);
      GS.showTip(event, spot ? spot.text : ""); host.say(spot ? spot.text.replaceAll("\n", ", ") : ""); hover(spot ? spot.who : -1);
    });
    for (const each of [matrices, memory]) {
      each.node.addEventListener("pointerleave", (event) => { GS.showTip(event, ""); host.say(""); hover(-1); });
      each.node.addEventListener("click", () => { if (hovered >= 0) host.player.go(hovered); });
    }

    const title = ({ kind, one }) => { const ptx = page.instructions[one.instruction][0], name = kind === "product" ? one.name : ptx.split(" ")[0]; return `${name} · warp ${one.warp}, slot ${one.slot.toLocaleString("en-US")}${one.array || (one.a && one.a.array) ? ` · ${(kind === "product" ? [elementName(one.a, 0), elementName(one.b, 0)] : [elementName(one, 0)]).filter(Boolean).join(" · ")}` : ""}`; };
    const choice = GS.choice("Instruction", items.map((one, n) => [n, title(one)]), 0, (value) => { chosen = Number(value); hovered = -1; words = wordsOf(); host.redraw(); });
    const source = el("p", { class: "mono" }), memoryTitle = el("h2", {}, ""), memoryCard = el("div", { class: "card grow" }, memoryTitle, memory.node), legend = el("div");
    host.root.append(el("div", { class: "choices" }, choice.node), el("div", { class: "row" }, el("div", { class: "card grow" }, source, matrices.node, legend), memoryCard));
    const paint = () => { matrices.draw(); if (!memoryCard.hidden) memory.draw(); };
    return {
      get steps() { return threads(); }, rate: 4,
      label: (step) => {
        const { kind, one } = item(), who = threads() > 32 ? `thread ${step} of the warpgroup (warp ${Math.floor(step / 32)}, lane ${step % 32})` : `lane ${step}`;
        if (kind === "load") { const mine = []; for (let m = 0; m < one.matrices; m += 1) one.held.forEach((held, n) => { if (held >> 12 === step) mine.push(elementName({ ...one, row: one.row && one.row.slice(64 * m, 64 * m + 64), column: one.column && one.column.slice(64 * m, 64 * m + 64) }, n) || `matrix ${m}[${n >> 3}][${n % 8}]`); }); return `${who} gets ${mine.slice(0, 8).join(", ")}`; }
        const list = (operand, rowsFirst) => { const found = []; operand.held.forEach((_, n) => { const columns = operand === one.a ? one.depth : one.columns; if (holderOf(operand, one, rowsFirst)(Math.floor(n / columns), n % columns, n) === step) found.push(elementName(operand, n) || `[${Math.floor(n / columns)}][${n % columns}]`); }); return found; };
        const a = list(one.a, true), b = list(one.b, false), d = list(one.d, true), some = (all) => `${all.slice(0, 4).join(", ")}${all.length > 4 ? ", …" : ""}`;
        const parts = [a.length ? `${some(a)} of A` : "", b.length ? `${some(b)} of B` : "", `${GS.plural(d.length, "accumulator")}, D${some(d)}`].filter(Boolean);
        return `${who} holds ${parts.join("; ")}`;
      },
      draw: () => {
        const { kind, one } = item(), [ptx, , file, line] = page.instructions[one.instruction], key = `${file}:${line}`;
        source.replaceChildren(el("b", {}, `${key}  `), page.lines[key] || "", el("br"), el("span", { class: "soft ptx" }, ptx.length > 170 ? `${ptx.slice(0, 168)}…` : ptx));
        memoryCard.hidden = words.size === 0;
        memoryCard.classList.toggle("full", kind === "product" && one.columns > 32);
        const swizzle = kind === "product" && one.swizzle ? `, swizzled by ${one.swizzle} bytes` : "";
        memoryTitle.textContent = `Where it comes from: shared memory by bank${swizzle}`;
        const inShared = kind === "product" && one.b.held[0] < 0;
        GS.refill(legend, `${chosen}`, () => GS.legend([[colour("pick"), "held by the chosen lane"], [laneColour(0), "lanes 0–3"], [laneColour(4), "lanes 4–7"], [laneColour(28), "lanes 28–31"], ...(inShared ? [[colour("a"), "rows of A that it uses"], [colour("b"), "columns of B that it uses"]] : [])]));
        paint();
      },
    };
  };
  GS.register({ name: "fragments", create });
}
