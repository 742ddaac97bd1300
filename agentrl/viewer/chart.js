// Line charts on a canvas: several lines, the values under the pointer, a cursor.
"use strict";

// lines: [{name, colour, faint, x: [], y: []}], y null where there is none.
// options: height, title, cursor (an x), onpick(x), zero (0 is always in sight), whole (x are whole numbers).
agentrl.chart = function (lines, options) {
  const { el, number } = agentrl;
  const height = options.height || 180;
  const canvas = el("canvas", { role: "img", "aria-label": options.title || "chart" });
  const tip = el("div", { class: "tip", hidden: true });
  const frame = el(
    "figure",
    { class: "chart" },
    options.title ? el("figcaption", {}, options.title) : null,
    el("div", { class: "plot" }, canvas, tip),
  );
  canvas.style.height = `${height}px`;
  let cursor = options.cursor;
  let hover = null;
  let scale = null;

  function bounds(values, always) {
    let low = Infinity;
    let high = -Infinity;
    for (const value of values) {
      if (value === null || value === undefined) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    if (always !== undefined) {
      low = Math.min(low, always);
      high = Math.max(high, always);
    }
    if (low > high) return [0, 1];
    if (low === high) return [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
    return [low, high];
  }

  function draw() {
    const width = frame.clientWidth || 320;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const paper = canvas.getContext("2d");
    paper.scale(ratio, ratio);
    const [x0, x1] = bounds(lines.flatMap((line) => line.x));
    const [y0, y1] = bounds(lines.flatMap((line) => line.y), options.zero ? 0 : undefined);
    const edge = { left: 52, right: 8, top: 6, bottom: 18 };
    const toX = (x) => edge.left + ((x - x0) / (x1 - x0)) * (width - edge.left - edge.right);
    const toY = (y) => height - edge.bottom - ((y - y0) / (y1 - y0)) * (height - edge.top - edge.bottom);
    scale = { toX, x0, x1, width, edge };
    paper.font = "11px system-ui, sans-serif";
    paper.fillStyle = agentrl.cssColour("--dim");
    paper.strokeStyle = agentrl.cssColour("--line");
    paper.lineWidth = 1;
    for (let step = 0; step <= 2; step++) {
      const y = y0 + ((y1 - y0) * step) / 2;
      paper.beginPath();
      paper.moveTo(edge.left, toY(y));
      paper.lineTo(width - edge.right, toY(y));
      paper.stroke();
      paper.textAlign = "right";
      paper.fillText(number(y, 3), edge.left - 5, toY(y) + (step === 2 ? 8 : 4));
    }
    paper.textAlign = "left";
    paper.fillText(number(x0, 3), edge.left, height - 4);
    paper.textAlign = "right";
    paper.fillText(number(x1, 5), width - edge.right, height - 4);
    if (cursor !== undefined && cursor !== null) {
      paper.strokeStyle = agentrl.cssColour("--accent");
      paper.beginPath();
      paper.moveTo(toX(cursor), edge.top);
      paper.lineTo(toX(cursor), height - edge.bottom);
      paper.stroke();
    }
    for (const line of lines) {
      paper.strokeStyle = paper.fillStyle = line.colour;
      paper.globalAlpha = line.faint ? 0.25 : 1;
      paper.lineWidth = line.faint ? 1 : 1.6;
      paper.beginPath();
      let count = 0;
      line.y.forEach((y, index) => {
        if (y === null || y === undefined) return;
        count++ ? paper.lineTo(toX(line.x[index]), toY(y)) : paper.moveTo(toX(line.x[index]), toY(y));
      });
      paper.stroke();
      if (count < 30 && !line.faint) {
        line.y.forEach((y, index) => {
          if (y === null || y === undefined) return;
          paper.beginPath();
          paper.arc(toX(line.x[index]), toY(y), 2, 0, 7);
          paper.fill();
        });
      }
      paper.globalAlpha = 1;
    }
    if (hover !== null) {
      paper.strokeStyle = agentrl.cssColour("--dim");
      paper.setLineDash([3, 3]);
      paper.beginPath();
      paper.moveTo(toX(hover), edge.top);
      paper.lineTo(toX(hover), height - edge.bottom);
      paper.stroke();
      paper.setLineDash([]);
    }
  }

  // The point of a line that is nearest to x.
  function nearest(line, x) {
    let best = -1;
    line.x.forEach((at, index) => {
      if (line.y[index] === null || line.y[index] === undefined) return;
      if (best < 0 || Math.abs(at - x) < Math.abs(line.x[best] - x)) best = index;
    });
    return best;
  }

  function under(event) {
    const at = event.clientX - canvas.getBoundingClientRect().left;
    const part = (at - scale.edge.left) / (scale.width - scale.edge.left - scale.edge.right);
    const x = scale.x0 + Math.min(1, Math.max(0, part)) * (scale.x1 - scale.x0);
    return options.whole ? Math.round(x) : x;
  }

  canvas.addEventListener("pointermove", (event) => {
    if (!scale) return;
    hover = under(event);
    const rows = [];
    for (const line of lines.filter((each) => !each.faint)) {
      const index = nearest(line, hover);
      if (index < 0) continue;
      const key = el("span", { class: "key" });
      key.style.background = line.colour;
      rows.push(el("div", {}, key, agentrl.visible(line.name), " ", el("b", {}, number(line.y[index])), ` at ${number(line.x[index], 6)}`));
    }
    agentrl.replace(tip, rows);
    tip.hidden = rows.length === 0;
    tip.classList.toggle("left", scale.toX(hover) > scale.width / 2);
    draw();
  });
  canvas.addEventListener("pointerleave", () => {
    hover = null;
    tip.hidden = true;
    draw();
  });
  if (options.onpick) {
    canvas.classList.add("pick");
    canvas.addEventListener("click", (event) => scale && options.onpick(under(event)));
  }
  new ResizeObserver(draw).observe(frame);
  frame.setCursor = (x) => {
    cursor = x;
    draw();
  };
  return frame;
};

// Exponential moving average with weight `amount` on the past, corrected at the beginning; gaps stay gaps.
agentrl.smooth = function (values, amount) {
  if (!amount) return values;
  let mean = 0;
  let weight = 0;
  return values.map((value) => {
    if (value === null || value === undefined) return null;
    mean = amount * mean + (1 - amount) * value;
    weight = amount * weight + (1 - amount);
    return mean / weight;
  });
};
