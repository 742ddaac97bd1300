// The curves of metrics.jsonl: one large, those of most interest small below it.
"use strict";

{
  const MAIN = [
    "episode/success", "episode/progression", "episode/achievements", "episode/return", "episode/length", "entropy",
    "explained_variance", "approx_kl", "losses/policy", "losses/value", "turns/invalid_fraction", "turns/error_fraction",
    "time/turns_per_second",
  ];
  const choice = { metric: null, smoothing: 0.6, axis: "update", filter: "" };

  function lines(metric, smoothing) {
    const found = [];
    agentrl.state.sources.forEach((source, index) => {
      if (!source || agentrl.state.hidden.has(index)) return;
      const entry = source.curves.metrics.find(([name]) => name === metric);
      if (!entry) return;
      const axis = choice.axis === "turns" && source.curves.turns.some((value) => value !== null) ? "turns" : "update";
      const x = [];
      const y = [];
      entry[1].forEach((value, at) => {
        if (value === null || source.curves[axis][at] === null) return;
        x.push(source.curves[axis][at]);
        y.push(value);
      });
      const colour = agentrl.sourceColour(index);
      if (smoothing && y.length > 2) found.push({ name: source.name, colour, faint: true, x, y });
      found.push({ name: source.name, colour, x, y: y.length > 2 ? agentrl.smooth(y, smoothing) : y });
    });
    return found;
  }

  agentrl.curves = function (main) {
    const { el } = agentrl;
    const known = new Set();
    for (const source of agentrl.state.sources) for (const [name] of source ? source.curves.metrics : []) known.add(name);
    const names = [...known].sort();
    if (!names.length) {
      agentrl.replace(main, el("p", { class: "empty" }, "No curves: metrics.jsonl is written by training."));
      return;
    }
    const main_names = MAIN.filter((name) => known.has(name));
    if (!known.has(choice.metric)) choice.metric = main_names[0] || names[0];
    const big = el("div", { class: "big" });
    const small = el("div", { class: "small-charts" });
    const select = el("select", { id: "metric", onchange: () => pick(select.value) });

    function redraw() {
      agentrl.replace(
        select,
        names.map((name) => el("option", { value: name, selected: name === choice.metric }, agentrl.visible(name))),
      );
      const title = `${agentrl.visible(choice.metric)} by ${choice.axis}`;
      agentrl.replace(big, agentrl.chart(lines(choice.metric, choice.smoothing), { height: 300, title }));
      const wanted = choice.filter ? names.filter((name) => name.includes(choice.filter)).slice(0, 24) : main_names;
      agentrl.replace(
        small,
        wanted.map((name) =>
          agentrl.chart(lines(name, choice.smoothing), { height: 110, title: agentrl.visible(name), onpick: () => pick(name) }),
        ),
      );
    }
    function pick(name) {
      choice.metric = name;
      redraw();
    }
    const smoothing = el("input", { id: "smoothing", type: "range", min: 0, max: 0.98, step: 0.02, value: choice.smoothing });
    smoothing.addEventListener("input", () => {
      choice.smoothing = Number(smoothing.value);
      redraw();
    });
    const axis = el("select", { id: "axis" }, ["update", "turns"].map((name) => el("option", { value: name, selected: name === choice.axis }, name)));
    axis.addEventListener("change", () => {
      choice.axis = axis.value;
      redraw();
    });
    const filter = el("input", { id: "metric-filter", type: "search", placeholder: "part of a name", value: choice.filter });
    filter.addEventListener("input", () => {
      choice.filter = filter.value.trim();
      redraw();
    });
    agentrl.replace(
      main,
      el(
        "div",
        { class: "bar" },
        el("label", {}, "metric ", select),
        el("label", {}, "by ", axis),
        el("label", {}, "smoothing ", smoothing),
        el("label", {}, "small charts ", filter),
      ),
      big,
      small,
    );
    redraw();
  };
}
