/* A memory instruction, lane by lane. */
{
  const WORDS = 32; // of 4 bytes, in a line of 128 bytes; and as many banks

  /** @param {Host} host */
  const create = (host) => {
    const { data, page } = host, { colour, mix, series, el } = GS;
    let [which, execution] = data.start, by = "column", under = -1;
    const access = () => data.accesses[which], example = () => access().examples[execution];
    const lanesOf = (one) => data.patterns[one.pattern].map((offset) => (offset < 0 ? -1 : one.at + offset));
    const arrayAt = (address) => page.arrays.find((a) => a.address <= address && address < a.address + a.nbytes);
    const place = (array, address) => {
      const element = Math.floor((address - array.address) / array.itemsize), wide = Math.max(array.row_stride, array.column_stride, 1);
      const far = Math.floor(element / wide), near = Math.floor((element % wide) / Math.max(1, Math.min(array.row_stride, array.column_stride)));
      return array.row_stride >= array.column_stride ? [far, near] : [near, far];
    };
    const name = (address) => { const array = address > 0 && arrayAt(address); if (!array) return ""; const [r, c] = place(array, address); return array.rows > 1 ? `${array.name}[${r}][${c}]` : `${array.name}[${c}]`; };
    /** What shared memory held when it was first read: granule to address. */
    const held = new Map();
    for (const [first, count, address, step] of data.runs) for (let n = 0; n < count; n += 1) held.set(first + n, address + n * step);
    const heldAt = (byte) => held.get(Math.floor(byte / page.granule)) || 0;
    const sharedAt = (byte) => page.shared.find((s) => s.start <= byte && byte < s.start + s.nbytes);

    const laneColour = (lane) => mix(mix(colour("s1"), colour("s4"), Math.min(1, lane / 16)), colour("s2"), Math.max(0, (lane - 16) / 16));
    const tint = (address) => {
      const array = address > 0 && arrayAt(address);
      if (!array) return null;
      const [r, c] = place(array, address), value = by === "column" ? c : r;
      return mix(series([0, 1, 2, 3, 4, 5, 6, 7][(Math.floor(value / Math.max(1, tintWidth)) % 8 + 8) % 8]), colour("card"), array.role === "B" ? 0.72 : 0.62);
    };
    /** Bytes that stay together: 16 where all accesses to shared memory are that wide, else a word. */
    const chunk = data.accesses.some((one) => one.examples[0].space === "shared" && one.examples[0].width < 16) ? 4 : 16;
    let tintWidth = 1;

    // ---- choices --------------------------------------------------------------------------------------
    const title = (one) => {
      const text = page.lines[`${one.file}:${one.line}`] || page.instructions[one.instruction][0], first = one.examples[0];
      const what = one.side ? "its target in shared memory" : one.kind;
      return `${one.file}:${one.line} · ${what}${first.array ? ` of ${first.array}` : ""}, ${first.served || first.width} B a lane · ${text.length > 60 ? `${text.slice(0, 58)}…` : text}`;
    };
    const instructions = GS.choice("Instruction", data.accesses.map((one, n) => [n, title(one)]), which, (value) => { which = Number(value); execution = 0; choose(); });
    const executions = GS.choice("Executed by", [], 0, (value) => { execution = Number(value); choose(); });
    const tints = GS.choice("Colour words by", [["column", "column of the array"], ["row", "row of the array"]], by, (value) => { by = value; host.redraw(); });
    const choose = () => { listExecutions(); instance.start = instance.steps - 1; host.redraw(); host.player.go(instance.steps - 1); };
    const listExecutions = () => executions.select.replaceChildren(...access().examples.map((one, n) => el("option", { value: n, selected: n === execution }, `warp ${one.warp} in slot ${one.slot.toLocaleString("en-US")}${name(one.space === "global" ? one.at : one.of) ? `, from ${name(one.space === "global" ? one.at : one.of)}` : ""}`)));
    const source = el("p", { class: "mono" }), numbers = el("p", { class: "readout" }), legend = el("div");

    // ---- global memory ----------------------------------------------------------------------------------
    const left = (w) => (w < 520 ? 4 : 118), size = (w) => (w - left(w) - 6) / WORDS, rowHeight = (w) => Math.max(15, Math.min(24, size(w)));
    const linesOf = (one) => {
      const found = new Map();
      lanesOf(one).forEach((at, lane) => {
        if (at < 0) return;
        for (let byte = 0; byte < one.width; byte += 1) {
          const line = Math.floor((at + byte) / 128);
          if (!found.has(line)) found.set(line, new Map());
          const words = found.get(line), word = Math.floor(((at + byte) % 128) / 4);
          if (!words.has(word)) words.set(word, []);
          if (!words.get(word).includes(lane)) words.get(word).push(lane);
        }
      });
      return [...found.entries()].sort((a, b) => a[0] - b[0]);
    };
    const MOST = 34;
    /** @type {{x: number, y: number, w: number, h: number, text: () => string}[]} */
    let spots = [];
    const fit = (c, text, room) => { let shown = text; while (shown.length > 2 && c.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`; return shown; };
    const heading = 34;
    const paintLanes = (c, w, one, step, style) => {
      const s = size(w), x0 = left(w);
      c.fillStyle = colour("soft");
      if (x0 > 60) c.fillText("lane", x0 - 30, 16);
      c.textAlign = "center";
      lanesOf(one).forEach((at, lane) => {
        const x = x0 + lane * s, on = at >= 0;
        c.fillStyle = on ? style(lane) : colour("sunk");
        c.fillRect(x + 0.5, 3, s - 1, 18);
        c.fillStyle = on ? colour("on-series") : colour("soft");
        if (s > 11) c.fillText(`${lane}`, x + s / 2, 16);
        spots.push({ x, y: 3, w: s, h: 18, text: () => (on ? `lane ${lane}: ${one.space === "global" ? name(at) || GS.hex(at) : `shared byte ${at}${elementOf(one, lane) ? `, holds ${elementOf(one, lane)}` : ""}`}` : `lane ${lane} takes no part`) });
      });
      c.textAlign = "left";
    };
    const elementOf = (one, lane) => {
      if (one.elements < 0) return "";
      const per = data.patterns[one.elements].length / 32, offset = data.patterns[one.elements][lane * per];
      return offset < 0 ? "" : name(one.of + offset);
    };
    const paintGlobal = (c, w, one, step) => {
      const s = size(w), h = rowHeight(w), x0 = left(w), lines = linesOf(one), now = step - 1;
      paintLanes(c, w, one, step, (lane) => (lane < step ? laneColour(lane) : mix(laneColour(lane), colour("card"), 0.75)));
      lines.slice(0, MOST).forEach(([line, words], n) => {
        const y = heading + n * (h + 3), fetched = new Set();
        for (const [word, lanes] of words) if (lanes.some((lane) => lane < step)) fetched.add(Math.floor(word / 8));
        c.fillStyle = colour("soft");
        if (x0 > 60) c.fillText(fit(c, name(line * 128) || GS.hex(line * 128), x0 - 10), 2, y + h - 5);
        for (let sector = 0; sector < 4; sector += 1) {
          const on = fetched.has(sector), x = x0 + sector * 8 * s;
          c.fillStyle = on ? colour("bad-soft") : colour("card");
          c.fillRect(x, y, 8 * s, h);
          c.strokeStyle = on ? colour("bad") : colour("grid-strong");
          c.lineWidth = 1;
          c.strokeRect(x + 0.5, y + 0.5, 8 * s - 1, h - 1);
          spots.push({ x, y, w: 8 * s, h, text: () => `sector of 32 bytes${name(line * 128 + sector * 32) ? ` from ${name(line * 128 + sector * 32)}` : ""}: ${on ? "moved" : "not moved"}` });
        }
        for (const [word, lanes] of words) {
          const here = lanes.filter((lane) => lane < step);
          if (!here.length) continue;
          const x = x0 + word * s;
          c.fillStyle = laneColour(here[0]);
          c.fillRect(x + 0.5, y + 1.5, s - 1, h - 3);
          c.fillStyle = colour("on-series");
          c.textAlign = "center";
          if (s > 13) c.fillText(here.length > 1 ? `${here.length}×` : `${here[0]}`, x + s / 2, y + h / 2 + 4);
          c.textAlign = "left";
          spots.push({ x, y, w: s, h, text: () => `${name(line * 128 + word * 4) || GS.hex(line * 128 + word * 4)}: ${here.length > 1 ? `lanes ${here.join(", ")}` : `lane ${here[0]}`}` });
        }
        const mine = [...words].find(([, lanes]) => lanes.includes(now));
        if (mine && step < 32) {
          c.strokeStyle = laneColour(now);
          c.lineWidth = 2;
          c.beginPath();
          c.moveTo(x0 + (now + 0.5) * s, 21);
          c.bezierCurveTo(x0 + (now + 0.5) * s, 21 + (y - 21) * 0.6, x0 + (mine[0] + 0.5) * s, y - (y - 21) * 0.4, x0 + (mine[0] + 0.5) * s, y);
          c.stroke();
        }
      });
      if (lines.length > MOST) { c.fillStyle = colour("soft"); c.fillText(`and ${lines.length - MOST} more lines of 128 bytes`, x0, heading + MOST * (h + 3) + 12); }
    };

    // ---- shared memory ----------------------------------------------------------------------------------
    /** Rows of 128 bytes that are drawn: those around what is accessed. */
    const rowsOf = (one) => {
      const touched = new Set(one.waves.flat().flatMap(([, ...words]) => words.map((word) => Math.floor(word / WORDS))));
      const first = Math.min(...touched), last = Math.max(...touched);
      if (last - first < 30) {
        const shown = sharedAt(first * 128), low = Math.max(shown ? Math.floor(shown.start / 128) : 0, first - 2), high = Math.min(shown ? Math.ceil((shown.start + shown.nbytes) / 128) - 1 : last, Math.max(last, low + 11));
        return Array.from({ length: high - low + 1 }, (_, n) => low + n);
      }
      return [...touched].sort((a, b) => a - b).slice(0, 40);
    };
    const paintShared = (c, w, one, step) => {
      const s = size(w), h = rowHeight(w), x0 = left(w), rows = rowsOf(one), waves = one.waves, waveOf = new Map();
      waves.forEach((wave, n) => wave.forEach(([lane, ...words]) => words.forEach((word) => { if (!waveOf.has(word)) waveOf.set(word, []); waveOf.get(word).push([n, lane]); })));
      const laneWave = new Map();
      waves.forEach((wave, n) => wave.forEach(([lane]) => { if (!laneWave.has(lane)) laneWave.set(lane, n); }));
      const all = step === waves.length;
      paintLanes(c, w, one, step, (lane) => { const n = laneWave.get(lane); return n === undefined ? colour("sunk") : all || n === step ? series(n) : mix(series(n), colour("card"), 0.75); });
      // how many different words a bank must serve in the busiest group
      const per = new Map();
      waves.forEach((wave, n) => { if (all || n <= step) for (const [, ...words] of wave) for (const word of words) { const bank = word % WORDS; if (!per.has(bank)) per.set(bank, new Set()); per.get(bank).add(n); } });
      c.textAlign = "center";
      for (let bank = 0; bank < WORDS; bank += 1) {
        const busy = per.has(bank) ? per.get(bank).size : 0, clash = one.wavefronts > one.groups && busy > 1;
        c.fillStyle = clash ? colour("bad") : colour("soft");
        if (s > 11) c.fillText(`${bank}`, x0 + (bank + 0.5) * s, heading + 4);
        if (clash) { c.fillStyle = mix(colour("bad-soft"), colour("card"), 0.2); c.fillRect(x0 + bank * s, heading + 8, s, rows.length * (h + 2)); }
        spots.push({ x: x0 + bank * s, y: 24, w: s, h: 16, text: () => `bank ${bank}: ${busy ? `busy in ${GS.plural(busy, "wavefront")}` : "idle"}` });
      }
      c.textAlign = "left";
      if (x0 > 60) { c.fillStyle = colour("soft"); c.fillText("bank", x0 - 30, heading + 4); }
      rows.forEach((row, n) => {
        const y = heading + 9 + n * (h + 2);
        c.fillStyle = colour("soft");
        const known = sharedAt(row * 128);
        if (x0 > 60) c.fillText(fit(c, `${known ? `${known.name} ` : ""}+${row * 128 - (known ? known.start : 0)}`, x0 - 8), 2, y + h - 5);
        for (let bank = 0; bank < WORDS; bank += 1) {
          const x = x0 + bank * s, word = row * WORDS + bank, address = heldAt(word * 4), served = waveOf.get(word);
          c.fillStyle = tint(address) || colour("sunk");
          c.fillRect(x + 0.5, y, s - 1, h);
          const what = () => `shared byte ${word * 4}, bank ${bank}${address ? `: ${name(address)}` : ""}`;
          if (served) {
            const [wave] = served[0], now = all || wave === step, done = !all && wave < step;
            c.fillStyle = now ? series(wave) : done ? mix(series(wave), colour("card"), 0.55) : "transparent";
            c.fillRect(x + 0.5, y, s - 1, h);
            c.strokeStyle = series(wave);
            c.lineWidth = now ? 2 : 1;
            c.strokeRect(x + 1.5, y + 1, s - 3, h - 2);
            c.fillStyle = now ? colour("on-series") : colour("ink");
            c.textAlign = "center";
            const lanes = [...new Set(served.map(([, lane]) => lane))];
            if (s > 13) c.fillText(lanes.length > 1 && s < 26 ? `${lanes.length}×` : lanes.length > 2 ? `${lanes.length}×` : lanes.join(","), x + s / 2, y + h / 2 + 4);
            c.textAlign = "left";
            spots.push({ x, y, w: s, h, text: () => `${what()}\nwavefront ${wave + 1}, lane${lanes.length > 1 ? "s" : ""} ${lanes.join(", ")}` });
          } else spots.push({ x, y, w: s, h, text: what });
        }
      });
    };

    const height = (w) => { const one = example(), h = rowHeight(w); return one.space === "global" ? heading + Math.min(MOST + 1, linesOf(one).length) * (h + 3) + 8 : heading + 12 + rowsOf(one).length * (h + 2) + 6; };
    const drawing = GS.canvas({ label: "the lanes of the warp and the memory they access", height, paint: (c, w) => {
      spots = [];
      c.font = GS.font(11);
      const one = example(), step = host.player.step;
      tintWidth = Math.max(1, Math.round(chunk / page.granule / (by === "column" ? 1 : chunk / page.granule)));
      if (one.space === "global") paintGlobal(c, w, one, step); else paintShared(c, w, one, step);
    } });
    const spotAt = (event) => { const [x, y] = drawing.at(event); for (let n = spots.length - 1; n >= 0; n -= 1) { const s = spots[n]; if (x >= s.x && x < s.x + s.w && y >= s.y && y < s.y + s.h) return n; } return -1; };
    drawing.node.addEventListener("pointermove", (event) => { const n = spotAt(event); GS.showTip(event, n < 0 ? "" : spots[n].text()); if (n !== under) { under = n; host.say(n < 0 ? "" : spots[n].text().replace("\n", ", ")); } });
    drawing.node.addEventListener("pointerleave", (event) => { GS.showTip(event, ""); under = -1; host.say(""); });

    const facts = () => {
      const one = example(), lanes = lanesOf(one).filter((at) => at >= 0).length;
      if (one.space === "global") {
        const moved = one.sectors * 32;
        const used = moved ? (100 * Math.min(one.used, moved)) / moved : 0;
        return `${GS.plural(lanes, "lane")} × ${GS.plural(one.width, "byte")}: ${GS.plural(one.used, "different byte")} in ${GS.plural(one.sectors, "sector")} of 32 bytes. ${moved} bytes move, ${used.toFixed(0)} % of them used, ${Math.max(0, moved - one.used)} wasted.`;
      }
      if (access().side) {
        const clashes = one.wavefronts - one.groups;
        return `${GS.plural(lanes, "lane")} copy ${GS.plural(one.served, "byte")} each, ${one.waves.length > 1 ? `${one.waves.length} groups of lanes one after the other` : "all lanes in one group"}. The profiler counts ${GS.plural(one.wavefronts, "wavefront")} for this cp.async, ${clashes ? `${clashes} of them because lanes of a group write to the same bank, or read addresses that are a multiple of 128 bytes apart` : "none because of conflicts"}.`;
      }
      const extra = one.wavefronts - one.groups, fused = one.served > one.width ? ` The compiler joins ${one.served / one.width} neighbouring loads of ${one.width} bytes into one of ${one.served}.` : "";
      return `${GS.plural(lanes, "lane")} × ${GS.plural(one.served, "byte")} take ${GS.plural(one.wavefronts, "wavefront")}${extra > 0 ? `, where ${one.groups} would do: ${extra} because of bank conflicts` : ": no bank conflict"}.${fused}`;
    };
    const instance = {
      get steps() { const one = example(); return one.space === "global" ? 33 : one.waves.length + 1; },
      start: 0, rate: 6,
      label: (step) => {
        const one = example();
        if (one.space === "global") {
          if (step === 0) return "no lane has asked yet";
          if (step === 32) return facts();
          const at = lanesOf(one)[step - 1];
          return at < 0 ? `lane ${step - 1} takes no part` : `lane ${step - 1} asks for ${name(at) || GS.hex(at)}`;
        }
        if (step >= one.waves.length) return facts();
        const wave = one.waves[step], banks = new Set(wave.flatMap(([, ...words]) => words.map((word) => word % WORDS)));
        return `${access().side ? "group" : "wavefront"} ${step + 1} of ${one.waves.length} ${access().side ? "has" : "serves"} ${wave.length > 8 ? GS.plural(wave.length, "lane") : `lane${wave.length > 1 ? "s" : ""} ${wave.map(([lane]) => lane).join(", ")}`} from ${GS.plural(banks.size, "bank")}`;
      },
      draw: () => {
        const one = access(), shared = example().space === "shared";
        GS.refill(source, `${which}`, () => [el("b", {}, `${one.file}:${one.line}  `), page.lines[`${one.file}:${one.line}`] || "", el("br"), el("span", { class: "soft ptx" }, page.instructions[one.instruction][0]), ...(one.caller ? [el("br"), el("span", { class: "soft" }, `called at ${one.caller}  ${page.lines[one.caller] || ""}`)] : [])]);
        GS.refill(numbers, `${which}/${execution}`, facts);
        tints.node.hidden = !shared || !data.runs.length;
        GS.refill(legend, `${which}/${execution}/${by}`, () => (shared
          ? GS.legend([...example().waves.slice(0, 8).map((_, n) => [series(n), `${one.side ? "group" : "wavefront"} ${n + 1}`]), ...(example().wavefronts > example().groups ? [[colour("bad-soft"), "bank in conflict"]] : []), ...(data.runs.length ? [[mix(series(2), colour("card"), 0.62), `pale: what lies there, by ${by}`]] : [])])
          : GS.legend([[laneColour(0), "lane 0"], [laneColour(16), "lane 16"], [laneColour(31), "lane 31"], [colour("bad-soft"), "moved, not used"], [colour("card"), "not moved"]])));
        drawing.draw();
      },
    };
    instance.start = instance.steps - 1;
    listExecutions();
    host.root.append(el("div", { class: "choices" }, instructions.node, executions.node, tints.node), el("div", { class: "card" }, source, numbers, drawing.node, legend));
    return instance;
  };
  GS.register({ name: "access", create });
}
