// The table of tasks: what evaluations and benchmarks found, with 95 % intervals.
"use strict";

{
  const FIGURES = [
    ["success", "success", true],
    ["progression", "progression", true],
    ["return", "return", false],
    ["achievements", "achievements", false],
    ["length", "turns", false],
    ["invalid_fraction", "invalid", false],
    ["errors", "errors", false],
    ["episodes", "episodes", false],
  ];

  function cell(line, name, fraction) {
    const { el, number } = agentrl;
    const value = line[name];
    if (value === null || value === undefined) return el("td", { class: "number dim" }, "–");
    const interval = line[`${name}_ci95`];
    const told = interval && interval[0] !== null ? ` [${number(interval[0], 3)}, ${number(interval[1], 3)}]` : "";
    const td = el("td", { class: "number" }, number(value, 3), el("span", { class: "dim" }, told));
    if (fraction) {
      const track = el("div", { class: "track" });
      if (told) {
        const range = el("div", { class: "range" });
        range.style.left = `${100 * interval[0]}%`;
        range.style.width = `${100 * (interval[1] - interval[0])}%`;
        track.append(range);
      }
      const point = el("div", { class: "point" });
      point.style.left = `${100 * value}%`;
      track.append(point);
      td.append(track);
    }
    return td;
  }

  agentrl.tasks = function (main) {
    const { el, visible } = agentrl;
    const lines = agentrl.state.sources.flatMap((source, index) =>
      source && !agentrl.state.hidden.has(index) ? source.table.map((line) => ({ ...line, source, index })) : [],
    );
    if (!lines.length) {
      agentrl.replace(main, el("p", { class: "empty" }, "No evaluation has ended yet."));
      return;
    }
    const shown = FIGURES.filter(([name]) => lines.some((line) => line[name] !== null && line[name] !== undefined));
    const rows = lines.map((line) => {
      const key = el("span", { class: "key" });
      key.style.background = agentrl.sourceColour(line.index);
      return el(
        "tr",
        {},
        el("td", {}, key, visible(line.source.name)),
        el("td", {}, visible(line.task)),
        el("td", {}, visible(line.player)),
        shown.map(([name, , fraction]) => cell(line, name, fraction)),
      );
    });
    agentrl.replace(
      main,
      el(
        "div",
        { class: "scroll" },
        el(
          "table",
          { id: "tasks" },
          el("thead", {}, el("tr", {}, ["source", "task", "player"].map((name) => el("th", {}, name)), shown.map(([, title]) => el("th", { class: "number" }, title)))),
          el("tbody", {}, rows),
        ),
      ),
      el("p", { class: "dim" }, "In brackets, 95 % intervals: those of results.json; of totals over tasks, 1.96 standard errors to each side. References were measured beforehand, by random and scripted play."),
    );
  };
}
