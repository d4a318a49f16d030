/* Who owns what. */
{
  /** @param {Host} host */
  const create = (host) => {
    const drawing = GS.canvas({ label: "threads", height: () => 60, paint: (c, w, h) => {
      c.fillStyle = GS.colour("s1");
      c.fillRect(0, 0, (w * (host.player.step + 1)) / host.data.threads, h);
    } });
    host.root.append(drawing.node);
    return { steps: host.data.threads, rate: 16, label: (step) => `thread ${step}`, draw: drawing.draw };
  };
  GS.register({ name: "ownership", create });
}
