/* CUDA, PTX and SASS side by side: a line and what it became are highlighted together; shades are counts. */
{
  /** @param {Host} host */
  const create = (host) => {
    const { el, plural } = GS, { data } = host, steps = GS.unpack(data.steps), f = (n) => n.toLocaleString("en-US");
    const compact = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)}M` : n >= 1e4 ? `${Math.round(n / 1e3)}k` : n ? String(n) : "");
    const key = (file, line) => `${file}:${line}`;
    let file = 0, chosen = "";

    // What each source line cost: its own instructions, and those that were inlined into it.
    const lines = new Map();
    const hottest = Math.max(1, ...data.ptx.map((one) => one[5]));
    const shade = (n) => (n ? Math.max(0, 8 - Math.round(2 * Math.log10(hottest / Math.min(n, hottest)))) : -1);
    data.ptx.forEach((one, at) => {
      for (const where of new Set([key(one[1], one[2]), one[3] >= 0 ? key(one[3], one[4]) : ""])) {
        if (!where) continue;
        if (!lines.has(where)) lines.set(where, { ptx: [], executed: 0, sectors: 0, wavefronts: 0, conflicts: 0, hottest: 0 });
        const line = lines.get(where);
        line.ptx.push(at); line.executed += one[5]; line.sectors += one[6]; line.wavefronts += one[7]; line.conflicts += one[8]; line.hottest = Math.max(line.hottest, one[5]);
      }
    });

    // What the time model says of machine code: how often warps of the block issued it, and how long they waited.
    const waited = (stalls) => stalls.reduce((sum, [, cycles]) => sum + cycles, 0);
    const stallsOf = new Map();
    data.sass.forEach((one) => { const where = key(one[1], one[2]); if (!stallsOf.has(where)) stallsOf.set(where, new Map()); const mine = stallsOf.get(where); for (const [reason, cycles] of one[5]) mine.set(reason, (mine.get(reason) || 0) + cycles); });
    const longest = Math.max(1, ...data.sass.map((one) => waited(one[5])), ...[...stallsOf.values()].map((mine) => waited([...mine])));
    const most = Math.max(1, ...data.sass.map((one) => one[4]));
    const stallWords = (stalls) => { const all = waited(stalls); return all ? `warps waited ${f(all)} cycles: ${[...stalls].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([reason, cycles]) => `${Math.round((100 * cycles) / all)} % ${GS.stallWords(data.reasons[reason])}`).join(", ")}` : ""; };
    const wait = (stalls) => { const all = waited(stalls); return el("span", { class: "wait", title: stallWords(stalls), style: { "--share": `${Math.round(100 * Math.sqrt(all / longest))}%` } }, compact(all)); };
    const count = (n, heat) => el("span", { class: heat >= 0 ? `h-${heat}${heat > 4 ? " deep" : ""}` : "" }, compact(n));
    const rowOf = (at, number, executed, heat, text, stalls) => el("div", { "data-at": at }, el("span", {}, number), count(executed, heat), ...(stalls && data.timed ? [wait(stalls)] : []), el("span", {}, text));
    const listing = (label, name) => el("div", { class: `listing${data.timed && name !== "ptx" ? " timed" : ""}`, tabindex: "0", role: "group", "aria-label": label, "data-list": name });
    const source = listing("CUDA source", "source"), ptx = listing("PTX", "ptx"), sass = listing("SASS", "sass");
    const showFile = () => {
      let number = 0;
      source.replaceChildren(...data.files[file].lines.flatMap((text) => {
        if (typeof text === "number") { number += text; return [el("div", {}, el("span", {}, "⋯"), el("span", {}), ...(data.timed ? [el("span", {})] : []), el("span", {}, `${plural(text, "line")} that did not run`))]; }
        number += 1;
        const cost = lines.get(key(file, number));
        return [rowOf(key(file, number), String(number), cost ? cost.executed : 0, cost ? shade(cost.hottest) : -1, text || " ", [...(stallsOf.get(key(file, number)) || [])])];
      }));
    };
    ptx.append(...data.ptx.map((one, at) => rowOf(at, String(at), one[5], one[9], one[0])));
    // Without a time, machine code has no counts of its own: a row is shaded as the hottest PTX instruction of its line.
    const sassShade = (one) => (data.timed ? (one[4] ? Math.max(0, 8 - Math.round(2 * Math.log10(most / one[4]))) : -1) : lines.has(key(one[1], one[2])) ? shade(lines.get(key(one[1], one[2])).hottest) : -1);
    sass.append(...data.sass.map((one, at) => rowOf(at, one[3].toString(16).padStart(4, "0"), one[4], sassShade(one), one[0], one[5])));
    const picker = GS.choice("File ", data.files.map((one, at) => [at, one.name]), 0, (value) => { file = Number(value); showFile(); mark(chosen, false); });

    const about = (where) => {
      const cost = lines.get(where), [at, line] = where.split(":").map(Number), name = `${data.files[at].name}:${line}`;
      if (!cost) return `${name}: nothing of it was executed`;
      const parts = [`${name}: ${plural(cost.ptx.length, "PTX instruction")}, ${f(cost.executed)} executed by warps`];
      if (cost.sectors) parts.push(`${f(cost.sectors)} sectors of global memory`);
      if (cost.wavefronts) parts.push(`${f(cost.wavefronts)} wavefronts of shared memory${cost.conflicts ? `, ${f(cost.conflicts)} of them bank conflicts` : ""}`);
      const words = stallWords([...(stallsOf.get(where) || [])]);
      if (words) parts.push(words);
      return parts.join(", ");
    };
    const aboutSass = (one) => `${one[0].trim()}: ${f(one[4])} issued by the block${waited(one[5]) ? `, ${stallWords(one[5])}` : ""}`;
    const into = (list, node) => { if (node) list.scrollTop = Math.max(0, node.offsetTop - list.offsetTop - list.clientHeight / 3); };
    /** Highlights a source line and all that it became. */
    const mark = (where, speak) => {
      chosen = where;
      const cost = lines.get(where), wanted = new Set(cost ? cost.ptx : []), [at, line] = where.split(":").map(Number);
      const pairs = new Set([...wanted].map((n) => key(data.ptx[n][1], data.ptx[n][2])).concat(where));
      const toggle = (list, test) => { let first = null; for (const node of list.children) { const on = test(/** @type {HTMLElement} */ (node).dataset.at); node.classList.toggle("match", on); if (on && !first) first = node; } return first; };
      const found = [toggle(source, (one) => one === where || (one !== undefined && pairs.has(one))), toggle(ptx, (one) => wanted.has(Number(one))), toggle(sass, (one) => pairs.has(key(data.sass[Number(one)][1], data.sass[Number(one)][2])))];
      [source, ptx, sass].forEach((list, n) => { if (found[n]) into(list, found[n]); });
      if (speak && Number.isFinite(at) && Number.isFinite(line)) host.say(about(where));
    };
    const lineOf = (list, value) => (list === source ? value : list === ptx ? key(data.ptx[Number(value)][1], data.ptx[Number(value)][2]) : key(data.sass[Number(value)][1], data.sass[Number(value)][2]));
    const choose = (list, node) => {
      if (!node || node.dataset.at === undefined) return;
      const where = lineOf(list, node.dataset.at), [at] = where.split(":").map(Number);
      if (at < 0) return host.say(list === sass && data.timed ? `${aboutSass(data.sass[Number(node.dataset.at)])}; no source line` : "this instruction has no source line");
      if (list !== source && at !== file) { file = at; picker.select.value = String(at); showFile(); }
      const top = list.scrollTop;
      mark(where, true);
      if (list === sass && data.timed) host.say(aboutSass(data.sass[Number(node.dataset.at)]));
      list.scrollTop = top;
    };
    for (const list of [source, ptx, sass]) {
      list.addEventListener("click", (event) => choose(list, /** @type {HTMLElement} */ (event.target).closest("[data-at]")));
      list.addEventListener("keydown", (event) => {
        const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (!move) return;
        event.preventDefault(); event.stopPropagation();
        const rows = [...list.querySelectorAll("[data-at]")], at = rows.findIndex((row) => row.classList.contains("match"));
        const next = rows[Math.max(0, Math.min(rows.length - 1, at + move))];
        choose(list, next);
        if (next) into(list, next);
      });
    }
    showFile();
    const column = (title, node, more) => el("div", { class: "card" }, el("h2", {}, title), more || "", node);
    host.root.append(
      el("div", { class: "choices" }, picker.node, el("span", { class: "soft small" }, `The second column counts warp instructions that were executed, ${plural(data.blocks, "simulated block")} together${data.timed && data.sass.length ? "; for SASS, of the block in full" : ""}. Darker is more often, on a logarithmic scale.${data.timed ? " The bars are cycles that warps of the block waited there, predicted; choose a line for the reasons." : ""}`)),
      el("div", { class: "three" }, column("CUDA", source), column(`PTX, ${plural(data.ptx.length, "instruction")} that ran`, ptx), data.sass.length ? column(`SASS, ${plural(data.sass.length, "instruction")}`, sass) : ""));
    return {
      steps: Math.max(1, steps.length), start: Math.max(0, steps.findIndex((at) => data.ptx[at][9] === 8)), rate: 6,
      label: (step) => (steps.length ? `warp ${data.warp}: ${data.ptx[steps[step]][0]}` : "nothing was executed"),
      draw: (step) => {
        if (!steps.length) return;
        const now = steps[step], one = data.ptx[now], where = one[3] === file ? key(one[3], one[4]) : key(one[1], one[2]);
        if (Number(where.split(":")[0]) !== file) { file = Number(where.split(":")[0]); picker.select.value = String(file); showFile(); }
        if (where !== chosen) mark(where, false);
        for (const node of ptx.querySelectorAll(".now")) node.classList.remove("now");
        const row = ptx.children[now];
        row.classList.add("now");
        into(ptx, row);
      },
    };
  };
  GS.register({ name: "code", create });
}
