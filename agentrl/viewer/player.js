// One episode, turn by turn.
"use strict";

{
  const choice = { shade: "logprob", playing: null, speed: 4 };

  // Returns from each turn on, discounted as training does, from the rewards alone: nothing is added at a cut.
  function returnsToGo(rewards, discount) {
    const returns = new Array(rewards.length);
    let sum = 0;
    for (let at = rewards.length - 1; at >= 0; at--) returns[at] = sum = (rewards[at] || 0) + discount * sum;
    return returns;
  }

  function facts(chunk, at) {
    const { number, visible } = agentrl;
    const rows = [
      ["action", visible(chunk.action[at]).slice(0, 300) || "–"],
      ["legal", chunk.error[at] ? "–" : chunk.valid[at] ? "yes" : "no: the default action was played", chunk.valid[at] ? "" : "bad"],
      ["reward", number(chunk.reward[at])],
      ...chunk.parts[at].map(([name, value]) => [`  ${visible(name)}`, number(value)]),
      ...["value", "advantage"].filter((name) => chunk[name][at] !== null).map((name) => [name, number(chunk[name][at])]),
      ["finish", visible(chunk.finish_reason[at]), chunk.finish_reason[at] === "stop" ? "" : "warn"],
      ["reply", chunk.ids[at].length ? `${chunk.ids[at].length} tokens` : `${chunk.reply_text[at].length} characters`],
    ];
    if (chunk.policy_version[at]) rows.push(["policy", `version ${chunk.policy_version[at]}`]);
    if (chunk.terminated[at] || chunk.truncated[at]) rows.push(["end", chunk.terminated[at] ? "ended by the game" : "time limit"]);
    if (chunk.error[at]) rows.push(["error", visible(chunk.error[at]).slice(0, 2000), "bad"]);
    for (const [name, note] of chunk.notes[at]) rows.push([visible(name), visible(note).slice(0, 2000)]);
    return rows;
  }

  agentrl.player = async function (main, episode, wanted) {
    const { el, number, visible } = agentrl;
    const name = `${episode.index}/${episode.fileNumber}/${episode.number}`;
    const token = (main.token = {});
    let chunk;
    try {
      chunk = await agentrl.load(name);
    } catch (error) {
      agentrl.replace(main, el("p", { class: "empty" }, `This episode cannot be loaded: ${error.message}`));
      return;
    }
    if (main.token !== token) return;
    const turns = chunk.turn.length;
    let at = Math.min(Math.max(0, wanted), turns - 1);
    let frames = null;

    const canvas = el("canvas", { class: "game", id: "game", role: "img", "aria-label": "the game before this turn" });
    const scene = el("div", { class: "scene", id: "scene" });
    const frameNote = el("div", { class: "note", hidden: true });
    const slider = el("input", { type: "range", min: 0, max: turns - 1, value: at, id: "turn", "aria-label": "turn" });
    const label = el("span", { class: "turn-label", id: "turn-label" });
    const table = el("dl", { class: "facts", id: "facts" });
    const prompt = el("div", { class: "prompt", id: "prompt" });
    const reply = el("div", { class: "reply-box" });
    const play = el("button", { type: "button", title: "space", onclick: () => toggle() }, "play");
    const shade = el(
      "select",
      { id: "shade", title: "t" },
      ["logprob", "advantage"].map((mode) => el("option", { value: mode, selected: mode === choice.shade }, mode)),
    );
    shade.addEventListener("change", () => {
      choice.shade = shade.value;
      show();
    });
    const shadeNote = el("span", { class: "dim" });

    const x = chunk.turn;
    const discount = agentrl.state.sources[episode.index].discount;
    let sum = 0;
    const far = chunk.reward.map((reward) => (sum += reward || 0));
    const lines = [
      { name: "reward so far", colour: agentrl.cssColour("--run-0"), x, y: far },
      { name: `return to come, discount ${number(discount)}`, colour: agentrl.cssColour("--run-2"), x, y: returnsToGo(chunk.reward, discount) },
    ];
    const valued = chunk.value.some((value) => value !== null);
    if (valued) lines.push({ name: "value", colour: agentrl.cssColour("--run-1"), x, y: chunk.value });
    const jump = (turn) => go(turn - x[0]);
    const chart = agentrl.chart(lines, { height: 130, cursor: x[at], onpick: jump, whole: true, zero: true, title: valued ? "return and value" : "return" });
    const legend = el("div", { class: "legend" }, lines.map((line) => {
      const key = el("span", { class: "key" });
      key.style.background = line.colour;
      return el("span", {}, key, line.name, " ");
    }));
    const advantages = chunk.advantage.some((value) => value !== null)
      ? agentrl.chart([{ name: "advantage", colour: agentrl.cssColour("--run-3"), x, y: chunk.advantage }], { height: 80, cursor: x[at], onpick: jump, whole: true, zero: true, title: "advantage" })
      : null;

    function show() {
      label.textContent = `turn ${x[at]} of ${x[0]}–${x[turns - 1]}`;
      slider.value = at;
      agentrl.replace(table, facts(chunk, at).map(([key, value, kind]) => el("div", { class: String(value).length > 16 ? "wide" : "" }, el("dt", {}, key), el("dd", { class: kind || "" }, value))));
      agentrl.replace(prompt, agentrl.prompt(chunk, at));
      agentrl.replace(reply, agentrl.reply(chunk, at, choice.shade));
      shadeNote.textContent = choice.shade === "logprob" ? "darker: less likely; underlined: the only legal token" : "green: better than expected, red: worse; one a turn";
      chart.setCursor(x[at]);
      if (advantages) advantages.setCursor(x[at]);
      draw();
      history.replaceState(null, "", agentrl.address(episode, at));
    }

    function draw() {
      const drawn = frames && agentrl.drawFrame(canvas, frames, at);
      canvas.classList.toggle("coarse", canvas.width < 256);
      canvas.hidden = !drawn;
      scene.hidden = Boolean(drawn);
      if (!drawn) agentrl.replace(scene, agentrl.text(agentrl.scene(chunk, at), { class: "words" }));
    }

    function go(to) {
      at = Math.min(turns - 1, Math.max(0, to));
      show();
    }

    function toggle() {
      if (choice.playing) {
        clearInterval(choice.playing);
        choice.playing = null;
      } else {
        if (at === turns - 1) go(0);
        choice.playing = setInterval(() => (at === turns - 1 || !canvas.isConnected ? toggle() : go(at + 1)), 1000 / choice.speed);
      }
      play.textContent = choice.playing ? "pause" : "play";
    }

    function neighbour(step) {
      const list = agentrl.selected();
      const here = list.findIndex((each) => each.index === episode.index && each.stem === episode.stem && each.number === episode.number);
      const next = list[here + step];
      if (here >= 0 && next) location.hash = agentrl.address(next);
    }

    slider.addEventListener("input", () => go(Number(slider.value)));
    const outcome = episode.success === null ? episode.ending : episode.success ? "success" : "no success";
    const kind = episode.success === null ? "" : episode.success ? "good" : "bad";
    const progress = episode.progression === null ? "" : ` · progression ${number(episode.progression, 3)}`;
    agentrl.replace(
      main,
      el(
        "div",
        { class: "bar" },
        el("a", { href: "#episodes", class: "button", title: "Esc" }, "← list"),
        el("button", { type: "button", title: "[", onclick: () => neighbour(-1) }, "‹ episode"),
        el("button", { type: "button", title: "]", onclick: () => neighbour(1) }, "episode ›"),
        el("b", {}, visible(episode.task)),
        el("span", { class: "dim" }, `${visible(episode.source)} · ${visible(episode.stem)} · episode ${episode.number} · seed ${episode.seed}`),
        el("span", { class: kind }, `${outcome}`),
        el("span", { class: "dim" }, `return ${number(episode.return)} · ${episode.length} turns${progress}`),
      ),
      el(
        "div",
        { class: "bar" },
        el("button", { type: "button", title: "←", onclick: () => go(at - 1) }, "◀"),
        play,
        el("button", { type: "button", title: "→", onclick: () => go(at + 1) }, "▶"),
        slider,
        label,
      ),
      el(
        "div",
        { class: "player" },
        el("section", { class: "left" }, canvas, scene, frameNote, table, chart, legend, advantages),
        el(
          "section",
          { class: "right" },
          el("h2", {}, "reply ", el("label", { class: "small" }, "shaded by ", shade), " ", shadeNote),
          reply,
          el("h2", {}, "prompt ", el("span", { class: "small keys" }, ["instruction", "past", "current"].map((part) => el("span", { class: `part-key ${part}` }, part === "past" ? "past turns" : part === "current" ? "current observation" : part)))),
          prompt,
        ),
      ),
    );
    show();
    main.onkey = (key) => {
      if (key === "ArrowRight" || key === "j") go(at + 1);
      else if (key === "ArrowLeft" || key === "k") go(at - 1);
      else if (key === "PageDown") go(at + 10);
      else if (key === "PageUp") go(at - 10);
      else if (key === "Home") go(0);
      else if (key === "End") go(turns - 1);
      else if (key === " ") toggle();
      else if (key === "[") neighbour(-1);
      else if (key === "]") neighbour(1);
      else if (key === "Escape") location.hash = "#episodes";
      else if (key === "t") {
        choice.shade = shade.value = choice.shade === "logprob" ? "advantage" : "logprob";
        show();
      } else return false;
      return true;
    };
    if (!episode.frames && !agentrl.state.index.live) {
      frameNote.textContent = "No picture was drawn: agentrl view --serve draws what is opened, --frames N more beforehand.";
      frameNote.hidden = false;
    }
    if (episode.frames || agentrl.state.index.live) {
      try {
        frames = await agentrl.load(`${name}.frames`);
      } catch {
        return;
      }
      if (main.token !== token) return;
      frameNote.textContent = visible(frames.note);
      frameNote.hidden = !frames.note;
      draw();
    }
  };
}
