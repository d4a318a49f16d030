/* Occupancy: sliders for registers, shared memory and threads, live, for every GPU. */
{
  /**
   * Resident blocks and warps per SM, by the formulas of explain/occupancy.py; a test compares both.
   *
   * @param {any} gpu its limits, under the names of gpus.toml
   * @param {{threads: number, registers: number, static_smem: number, dynamic_smem: number, barriers: number}} use
   * @param {boolean} [words] whether to explain the limits; without, a curve of thousands of points is drawn in time
   * @returns {{blocks: number, warps: number, fraction: number, limiters: string[], limits: [string, number | null, string][]}}
   */
  const occupancy = (gpu, use, words = true) => {
    const up = (n, unit) => Math.ceil(n / unit) * unit, f = words ? (n) => n.toLocaleString("en-US") : (n) => n;
    const warps = Math.ceil(use.threads / gpu.warp_size), most = Math.floor(gpu.threads_per_sm / gpu.warp_size);
    /** @type {[string, number | null, string][]} */
    const limits = [];
    if (use.threads > gpu.threads_per_block) limits.push(["warps", 0, `${f(use.threads)} threads exceed the limit of ${f(gpu.threads_per_block)} per block`]);
    else limits.push(["warps", Math.floor(most / warps), `${most} warps / ${warps} per block`]);
    limits.push(["block slots", gpu.blocks_per_sm, `an SM holds at most ${gpu.blocks_per_sm} blocks`]);
    limits.push(registers(gpu, use.registers, warps, up, f));
    limits.push(shared(gpu, use.static_smem + use.dynamic_smem, up, f));
    if (gpu.barriers_per_sm && use.barriers) limits.push(["barriers", Math.floor(gpu.barriers_per_sm / use.barriers), `${gpu.barriers_per_sm} barriers / ${use.barriers} per block`]);
    const blocks = Math.min(...limits.map(([, n]) => (n === null ? Infinity : n)));
    return { blocks, warps: blocks * warps, fraction: (blocks * warps) / most, limiters: limits.filter(([, n]) => n === blocks).map(([name]) => name), limits };
  };
  const registers = (gpu, each, warps, up, f) => {
    if (each > gpu.registers_per_thread) return ["registers", 0, `${each} registers exceed the limit of ${gpu.registers_per_thread} per thread`];
    if (each === 0) return ["registers", null, "none used"];
    const taken = up(each * gpu.warp_size, gpu.register_unit), even = up(warps, gpu.sm_partitions);
    if (taken * even > gpu.registers_per_sm) return ["registers", 0, `${f(taken)} per warp, ${even} warps need ${f(taken * even)}, and an SM has ${f(gpu.registers_per_sm)}`];
    const part = Math.floor(Math.floor(gpu.registers_per_sm / gpu.sm_partitions) / taken), held = Math.floor((part * gpu.sm_partitions) / warps);
    return ["registers", held, `${f(taken)} per warp, so an SM holds ${part * gpu.sm_partitions} warps, / ${warps} per block`];
  };
  const shared = (gpu, asked, up, f) => {
    const taken = up(asked + gpu.reserved_smem_per_block, gpu.smem_unit);
    if (taken === 0) return ["shared memory", null, "none used"];
    if (taken > gpu.smem_per_block + gpu.reserved_smem_per_block) return ["shared memory", 0, `${f(asked)} B exceed the limit of ${f(gpu.smem_per_block)} B per block`];
    return ["shared memory", Math.floor(gpu.smem_per_sm / taken), `${f(gpu.smem_per_sm)} B / ${f(taken)} B per block`];
  };
  GS.occupancy = occupancy;

  /** @param {Host} host */
  const create = (host) => {
    const { el, colour } = GS, { kernel, gpus } = host.data;
    let gpu = gpus.find((one) => one.name === host.data.gpu) || gpus[0];
    const use = { threads: kernel.threads, registers: kernel.registers, static_smem: kernel.static_smem, dynamic_smem: kernel.dynamic_smem, barriers: kernel.barriers };
    const percent = (x) => `${Math.round(x * 1000) / 10} %`;
    const words = (o) => (o.blocks ? `${GS.plural(o.blocks, "block")} and ${GS.plural(o.warps, "warp")} per SM, ${percent(o.fraction)}, limited by ${o.limiters.join(" and ")}` : `a block does not fit: ${o.limits.filter(([, n]) => n === 0).map(([, , why]) => why).join("; ")}`);

    const picker = GS.choice("GPU ", gpus.map((one) => [one.name, `${one.name} (sm_${one.arch})`]), gpu.name, (name) => { gpu = gpus.find((one) => one.name === name); bound(); host.redraw(); });
    const slider = (label, min, max, step, value, set) => {
      const out = el("output", { class: "small" }), id = `occupancy-${label.replace(/\W+/g, "-")}`;
      const input = /** @type {HTMLInputElement} */ (el("input", { type: "range", id, min, max, step, value, style: { width: "100%" }, input: () => { set(Number(input.value)); host.redraw(); } }));
      return { node: el("div", {}, el("label", { for: id }, `${label} `), out, input), input, show: (text) => { out.textContent = text; } };
    };
    const threads = slider("threads per block", 1, 1024, 1, use.threads, (n) => { use.threads = n; });
    const memory = slider("shared memory per block, bytes", 0, gpu.smem_per_block, 1, use.static_smem + use.dynamic_smem, (n) => { use.static_smem = Math.min(kernel.static_smem, n); use.dynamic_smem = n - use.static_smem; });
    const regs = slider("registers per thread", 1, 255, 1, use.registers, (n) => { host.player.go(n - 1); });
    const bound = () => { memory.input.max = String(gpu.smem_per_block); };
    const reset = el("button", { type: "button", click: () => { Object.assign(use, { threads: kernel.threads, static_smem: kernel.static_smem, dynamic_smem: kernel.dynamic_smem }); host.player.go(kernel.registers - 1); host.redraw(); } }, "As the kernel is");

    // Occupancy over one resource, the others as they are set.
    const stairs = (label, range, key) => GS.canvas({ label: `occupancy over ${label}`, height: () => 132, paint: (c, w, h) => {
      const [from, to, step] = range(), left = 38, top = 10, bottom = h - 24, x = (v) => left + ((v - from) / (to - from)) * (w - left - 10), y = (v) => bottom - v * (bottom - top);
      c.strokeStyle = colour("grid-strong"); c.fillStyle = colour("soft"); c.lineWidth = 1; c.font = "11px " + getComputedStyle(document.body).fontFamily;
      for (const level of [0, 0.5, 1]) { c.beginPath(); c.moveTo(left, y(level)); c.lineTo(w - 10, y(level)); c.stroke(); c.fillText(`${level * 100} %`, 2, y(level) + 4); }
      c.textAlign = "center"; c.fillText(label, (left + w) / 2, h - 5);
      const ends = [from, to].map((v) => v.toLocaleString("en-US"));
      c.textAlign = "left"; c.fillText(ends[0], left, h - 5); c.textAlign = "right"; c.fillText(ends[1], w - 10, h - 5); c.textAlign = "left";
      c.strokeStyle = colour("s1"); c.lineWidth = 2.25; c.beginPath();
      for (let v = from, last = NaN; v <= to; v += step) { const o = occupancy(gpu, { ...use, ...key(v) }, false).fraction; if (Number.isNaN(last)) c.moveTo(x(v), y(o)); else { c.lineTo(x(v), y(last)); c.lineTo(x(v), y(o)); } last = o; }
      c.stroke();
      const here = { registers: use.registers, threads: use.threads, smem: use.static_smem + use.dynamic_smem }[Object.keys(key(0)).includes("registers") ? "registers" : Object.keys(key(0)).includes("threads") ? "threads" : "smem"];
      const now = occupancy(gpu, use, false).fraction;
      c.fillStyle = colour("pick"); c.beginPath(); c.arc(x(Math.min(to, Math.max(from, here))), y(now), 5.5, 0, 7); c.fill();
    } });
    const curves = [
      stairs("registers per thread", () => [1, gpu.registers_per_thread, 1], (v) => ({ registers: v })),
      stairs("shared memory per block, bytes", () => [0, gpu.smem_per_block, gpu.smem_unit], (v) => ({ static_smem: v, dynamic_smem: 0 })),
      stairs("threads per block", () => [gpu.warp_size, gpu.threads_per_block, gpu.warp_size], (v) => ({ threads: v })),
    ];

    // One SM: a box for each warp it can hold, coloured by block.
    const sm = GS.canvas({ label: "the warps of one SM", height: (w) => (w < 420 ? 150 : 120), paint: (c, w, h) => {
      const o = occupancy(gpu, use), most = Math.floor(gpu.threads_per_sm / gpu.warp_size), per = Math.ceil(use.threads / gpu.warp_size);
      const across = Math.ceil(most / gpu.sm_partitions), cell = Math.min(w / across, h / gpu.sm_partitions);
      for (let n = 0; n < most; n += 1) {
        const px = Math.floor(n / gpu.sm_partitions) * cell, py = (n % gpu.sm_partitions) * cell;
        c.fillStyle = n < o.warps ? GS.series(Math.floor(n / per)) : colour("sunk");
        c.fillRect(px + 1, py + 1, cell - 2, cell - 2);
      }
    } });
    const verdict = el("p", { class: "readout", role: "status" }), body = el("tbody");
    host.root.append(
      el("div", { class: "choices" }, picker.node, reset),
      el("div", { class: "row" },
        el("div", { class: "card grow" }, el("h2", {}, "The kernel"), regs.node, memory.node, threads.node, verdict,
          el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "limits" }, el("table", { class: "limits small" }, el("thead", {}, el("tr", {}, el("th", {}, "limit"), el("th", {}, "blocks per SM"), el("th", {}, "because"))), body))),
        el("div", { class: "card grow" }, el("h2", {}, "One SM: each box is a warp, each colour a block"), sm.node, curves.map((one) => one.node)),
      ),
    );
    return {
      steps: 255, start: Math.max(0, kernel.registers - 1), rate: 12,
      label: () => `${use.registers} registers on ${gpu.name}: ${words(occupancy(gpu, use))}`,
      draw: (step) => {
        use.registers = step + 1;
        const o = occupancy(gpu, use);
        regs.input.value = String(use.registers); regs.show(String(use.registers));
        memory.input.value = String(use.static_smem + use.dynamic_smem); memory.show((use.static_smem + use.dynamic_smem).toLocaleString("en-US"));
        threads.input.value = String(use.threads); threads.show(`${use.threads} (${GS.plural(Math.ceil(use.threads / gpu.warp_size), "warp")})`);
        verdict.textContent = `${gpu.name}: ${words(o)}.`;
        body.replaceChildren(...o.limits.map(([name, n, why]) => el("tr", {}, el("th", { scope: "row" }, n === o.blocks ? el("b", {}, `${name} ◂`) : name), el("td", {}, n === null ? "no limit" : String(n)), el("td", {}, why))));
        sm.draw(); curves.forEach((one) => one.draw());
      },
    };
  };
  GS.register({ name: "occupancy", create });
}
