// A turn's prompt, its parts coloured, and its reply, token by token.
"use strict";

{
  // Parts of a prompt: what it instructs, what is remembered of past turns, what is seen now.
  function parts(chunk, at) {
    const flat = chunk.messages[at];
    const found = [];
    for (let place = 0; place < flat.length; place += 2) {
      const role = chunk.texts[flat[place]];
      const text = chunk.texts[flat[place + 1]];
      const last = place + 2 === flat.length;
      const kind = role === "system" ? "instruction" : last ? "current" : "past";
      const cut = place === 0 && role !== "system" ? Math.min(chunk.instruction, text.length) : 0;
      if (cut) found.push({ role, kind: "instruction", text: text.slice(0, cut).trimEnd() });
      if (cut < text.length) found.push({ role, kind, text: text.slice(cut) });
    }
    return found;
  }

  agentrl.scene = function (chunk, at) {
    const flat = chunk.messages[at];
    if (!flat.length) return "";
    const text = chunk.texts[flat[flat.length - 1]];
    return flat.length === 2 && chunk.texts[flat[0]] !== "system" ? text.slice(Math.min(chunk.instruction, text.length)) : text;
  };

  const MANY = 8;
  const opened = { instruction: false, past: false };

  // Folded away; once opened it stays so from turn to turn.
  function folded(kind, label, ...content) {
    const details = agentrl.el("details", { class: `part ${kind}`, open: opened[kind] }, agentrl.el("summary", {}, label), ...content);
    details.addEventListener("toggle", () => (opened[kind] = details.open));
    return details;
  }

  agentrl.prompt = function (chunk, at) {
    const { el } = agentrl;
    const found = parts(chunk, at);
    const blocks = found.map(({ role, kind, text }) => {
      const body = agentrl.text(text, { class: "words" });
      const label = el("span", { class: "label" }, kind === "instruction" ? "instruction" : kind === "past" ? `past · ${agentrl.visible(role)}` : "current observation");
      if (kind !== "instruction") return el("div", { class: `part ${kind} ${role === "assistant" ? "said" : ""}` }, label, body);
      return folded("instruction", [label, ` ${text.length} characters`], body);
    });
    const first = found.findIndex((part) => part.kind === "past");
    const count = found.findLastIndex((part) => part.kind === "past") + 1 - first;
    if (first >= 0 && count > MANY) {
      const label = el("span", { class: "label" }, "past turns");
      blocks.splice(first, 0, folded("past", [label, ` ${count} messages`], ...blocks.splice(first, count)));
    }
    const dropped = chunk.dropped_turns[at];
    if (dropped) blocks.unshift(el("div", { class: "note" }, `${dropped} past turns did not fit and were left out`));
    return blocks.length ? blocks : [el("p", { class: "dim" }, "No messages were kept.")];
  };

  // Colour of a token: by logprob from nothing (certain) to full (unlikely); by advantage green or red.
  function shade(mode, logprob, advantage, most) {
    if (mode === "advantage") {
      if (advantage === null || !most) return "";
      const part = Math.min(1, Math.abs(advantage) / most);
      return `color-mix(in srgb, var(${advantage > 0 ? "--good" : "--bad"}) ${Math.round(part * 60)}%, transparent)`;
    }
    if (logprob === null || logprob === undefined) return "";
    return `color-mix(in srgb, var(--warn) ${Math.round(Math.min(1, -logprob / 3) * 70)}%, transparent)`;
  }

  agentrl.reply = function (chunk, at, mode) {
    const { el, number, visible } = agentrl;
    const ids = chunk.ids[at];
    const box = el("div", { class: "reply", id: "reply" });
    const text = chunk.reply_text[at];
    if (!ids.length || !chunk.tokens) {
      box.append(text ? agentrl.text(text, {}, "span") : el("span", { class: "dim" }, "(an empty reply)"));
      if (ids.length) box.append(el("div", { class: "dim" }, `${ids.length} tokens; their texts are unknown: no tokenizer was found`));
      return box;
    }
    const most = chunk.advantage.reduce((most, value) => Math.max(most, Math.abs(value || 0)), 0);
    const spans = ids.slice(0, 4000).map((id, place) => {
      const logprob = chunk.logprobs[at][place];
      const legal = (chunk.legal[at] || [])[place] || 0;
      const word = visible(chunk.vocabulary[chunk.tokens[at][place]]);
      const span = el("span", { class: "token" + (legal === 1 ? " forced" : "") }, word.replace(/\n/g, "↵\n") || "·");
      const choices = legal === 1 ? "the only legal token" : legal ? `one of ${legal} legal tokens` : "any token was legal";
      const chance = logprob === null || logprob === undefined ? "" : `logprob ${number(logprob)}, probability ${number(Math.exp(logprob), 3)}\n`;
      span.title = `token ${place} of ${ids.length}, id ${id}\n${chance}${choices}`;
      span.style.background = legal === 1 && mode !== "advantage" ? "" : shade(mode, logprob, chunk.advantage[at], most);
      return span;
    });
    box.append(...spans);
    if (ids.length > 4000) box.append(el("div", { class: "note" }, `${ids.length - 4000} more tokens are not shown`));
    return box;
  };
}
