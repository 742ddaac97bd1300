// Which view is shown (the address says so), keys, and following a training that runs.
"use strict";

{
  const { el, visible } = agentrl;
  const main = document.getElementById("main");
  const header = document.getElementById("header");
  const help = document.getElementById("help");
  const VIEWS = [["curves", "curves"], ["tasks", "tasks"], ["episodes", "episodes"]];
  const POLL = 2000;
  agentrl.state.hidden = new Set();
  agentrl.state.stamps = [];

  const KEYS = [
    ["1 2 3", "curves, tasks, episodes"], ["→ j  ← k", "next and last turn (in the list: ↓ j ↑ k)"], ["PgDn PgUp", "ten turns"],
    ["Home End", "first and last"], ["space", "play, pause"], ["[ ]", "last and next episode"], ["t", "shade by logprob or advantage"],
    ["Enter, Esc", "open an episode, back to the list"], ["?", "this"],
  ];

  function current() {
    const words = location.hash.slice(1).split("/");
    return words[0] === "e" ? "e" : VIEWS.some(([name]) => name === words[0]) ? words[0] : "curves";
  }

  function drawHeader() {
    const state = agentrl.state;
    const runs = state.sources.map((source, index) => {
      const box = el("input", { type: "checkbox", checked: !state.hidden.has(index) });
      box.addEventListener("change", () => {
        box.checked ? state.hidden.delete(index) : state.hidden.add(index);
        route();
      });
      const key = el("span", { class: "key" });
      key.style.background = agentrl.sourceColour(index);
      return el("label", { class: "source", title: visible(source.path) }, state.sources.length > 1 ? box : null, key, visible(source.name));
    });
    const notes = state.sources.flatMap((source) => source.notes.map((note) => `${source.name}: ${note}`));
    const running = state.sources.some((source) => source.kind === "run" && !source.finished);
    agentrl.replace(
      header,
      el("nav", {}, VIEWS.map(([name, title]) => el("a", { href: `#${name}`, class: current() === name || (name === "episodes" && current() === "e") ? "here" : "" }, title))),
      el("div", { class: "sources" }, runs),
      state.index.live ? el("span", { class: "live", id: "live" }, running ? "● live" : "● served") : null,
      el("button", { type: "button", title: "keys", onclick: () => help.showModal() }, "?"),
      notes.length ? el("div", { class: "note" }, visible(notes.join(" · ")).slice(0, 2000)) : null,
    );
  }

  function route() {
    main.token = {};
    main.onkey = null;
    drawHeader();
    const view = current();
    if (view !== "e") {
      document.title = `${view} · agentrl view`;
      agentrl[view](main);
      return;
    }
    const [, index, stem, number, turn] = location.hash.slice(1).split("/");
    let name = stem || "";
    try {
      name = decodeURIComponent(name);
    } catch {
      // The address is no good: no episode has that name.
    }
    const episode = agentrl.findEpisode(Number(index), name, Number(number));
    if (!episode) {
      agentrl.replace(main, el("p", { class: "empty" }, "There is no such episode. ", el("a", { href: "#episodes" }, "To the list")));
      return;
    }
    document.title = `${visible(episode.task)} ${episode.number} · agentrl view`;
    agentrl.player(main, episode, Number(turn) || 0);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (help.open) return;
    const target = event.target;
    const typing = target instanceof HTMLInputElement && target.type !== "range" && target.type !== "checkbox";
    if (typing || target instanceof HTMLSelectElement) {
      if (event.key === "Escape") target.blur();
      return;
    }
    const number = Number(event.key);
    if (event.key === "?") help.showModal();
    else if (number >= 1 && number <= VIEWS.length) location.hash = `#${VIEWS[number - 1][0]}`;
    else if (target instanceof HTMLButtonElement && (event.key === " " || event.key === "Enter")) return;
    else if (!main.onkey || !main.onkey(event.key)) return;
    event.preventDefault();
  });
  window.addEventListener("hashchange", route);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", route);

  async function take(index) {
    const changed = index.sources.map((source, at) => at).filter((at) => agentrl.state.stamps[at] !== index.sources[at].stamp);
    for (const at of changed) {
      agentrl.forget(`${at}/`);
      agentrl.state.sources[at] = await agentrl.load(String(at), true);
      agentrl.state.stamps[at] = index.sources[at].stamp;
    }
    agentrl.state.index = index;
    return changed.length > 0;
  }

  async function poll() {
    try {
      const index = await agentrl.load("index", true);
      // Who reads an episode, types or chooses is not disturbed: only what stands around is drawn anew.
      const busy = current() === "e" || document.activeElement instanceof HTMLInputElement || document.activeElement instanceof HTMLSelectElement;
      if (await take(index)) busy ? drawHeader() : route();
      document.getElementById("live")?.classList.remove("lost");
    } catch {
      document.getElementById("live")?.classList.add("lost");
    }
    setTimeout(poll, POLL);
  }

  async function start() {
    agentrl.replace(
      help,
      el("h2", {}, "Keys"),
      el("table", {}, KEYS.map(([keys, what]) => el("tr", {}, el("th", {}, keys), el("td", {}, what)))),
      el("form", { method: "dialog" }, el("button", {}, "close")),
    );
    help.querySelector("button").addEventListener("click", (event) => {
      event.preventDefault();
      help.close();
    });
    try {
      await take(await agentrl.load("index", true));
    } catch (error) {
      agentrl.replace(main, el("p", { class: "empty" }, `The page's data cannot be loaded: ${error.message}`));
      return;
    }
    route();
    document.body.dataset.ready = "yes";
    if (agentrl.state.index.live) setTimeout(poll, POLL);
  }
  start();
}
