// The list of episodes: filtered, sorted, and only the lines in sight are in the page.
"use strict";

{
  const ROW = 30;
  const COLUMNS = [
    ["source", "source"], ["file", "played in"], ["number", "#"], ["task", "task"], ["seed", "seed"], ["success", "success"],
    ["progression", "progr."], ["return", "return"], ["length", "turns"], ["invalid", "invalid"], ["ending", "end"], ["error", "error"],
  ];
  const choice = { words: "", success: "", ending: "", task: "", sort: null, down: false, at: 0, top: 0 };
  let made = null;

  // All episodes as one list of {source, stem, line...}; made once for each state of the data.
  function all() {
    const stamp = agentrl.state.stamps.join() + [...agentrl.state.hidden].join();
    if (made && made.stamp === stamp) return made.list;
    const list = [];
    agentrl.state.sources.forEach((source, index) => {
      if (!source || agentrl.state.hidden.has(index)) return;
      const stems = new Map(source.files);
      const columns = source.episodes;
      columns.file.forEach((file, at) => {
        const episode = { index, source: source.name, stem: stems.get(file), at };
        for (const name of Object.keys(columns)) episode[name === "file" ? "fileNumber" : name] = columns[name][at];
        episode.file = episode.stem;
        list.push(episode);
      });
    });
    made = { stamp, list };
    return list;
  }

  agentrl.selected = function () {
    const words = choice.words.toLowerCase().split(/\s+/).filter(Boolean);
    const list = all().filter((episode) => {
      if (choice.task && episode.task !== choice.task) return false;
      if (choice.success === "yes" && episode.success !== true) return false;
      if (choice.success === "no" && episode.success !== false) return false;
      if (choice.success === "unknown" && episode.success !== null) return false;
      if (choice.ending === "invalid" ? !episode.invalid : choice.ending && episode.ending !== choice.ending) return false;
      if (!words.length) return true;
      const text = `${episode.source} ${episode.stem} ${episode.task} seed:${episode.seed} ${episode.ending} ${episode.error}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (choice.sort) {
      const name = choice.sort;
      const rank = (value) => (value === null || value === undefined || value === "" ? null : typeof value === "boolean" ? Number(value) : value);
      list.sort((one, other) => {
        const a = rank(one[name]);
        const b = rank(other[name]);
        if (a === null || b === null) return (a === null) - (b === null);
        const order = typeof a === "string" ? a.localeCompare(b) : a - b;
        return choice.down ? -order : order;
      });
    }
    return list;
  };

  agentrl.address = (episode, turn) =>
    `#e/${episode.index}/${encodeURIComponent(episode.stem)}/${episode.number}` + (turn ? `/${turn}` : "");

  agentrl.findEpisode = (index, stem, number) =>
    all().find((episode) => episode.index === index && episode.stem === stem && episode.number === number);

  function word(episode, name) {
    const value = episode[name];
    if (name === "file") return agentrl.visible(value).replace(/^evaluation-/, "");
    if (name === "success") return value === null ? "–" : value ? "yes" : "no";
    if (name === "progression") return agentrl.number(value, 3);
    return typeof value === "number" && name !== "seed" ? agentrl.number(value) : agentrl.visible(String(value === null ? "–" : value).slice(0, 80));
  }

  agentrl.episodes = function (main) {
    const { el } = agentrl;
    const everything = all();
    if (!everything.length) {
      agentrl.replace(main, el("p", { class: "empty" }, "No episodes: runs keep those of evaluations (evaluation.keep_episodes) and of some updates (tracking.turns_every)."));
      return;
    }
    const shown = COLUMNS.filter(([name]) => {
      if (name === "source") return agentrl.state.sources.length > 1;
      if (name === "error") return everything.some((episode) => episode.error);
      return true;
    });
    const widths = { source: "8em", file: "minmax(10em, 1.2fr)", task: "minmax(9em, 2fr)", seed: "7em", error: "minmax(8em, 2fr)", ending: "6.5em" };
    const template = shown.map(([name]) => widths[name] || "5em").join(" ");
    const count = el("span", { class: "dim", id: "count" });
    const head = el("div", { class: "row head" });
    head.style.gridTemplateColumns = template;
    const inside = el("div", { class: "inside" });
    const list = el("div", { class: "list", id: "list", tabindex: 0, role: "listbox", "aria-label": "episodes" }, inside);
    let selected = [];

    function render() {
      const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
      const last = Math.min(selected.length, first + Math.ceil((list.clientHeight || 600) / ROW) + 10);
      const rows = [];
      for (let at = first; at < last; at++) {
        const episode = selected[at];
        const row = el(
          "a",
          { class: "row" + (at === choice.at ? " chosen" : ""), href: agentrl.address(episode), onclick: () => (choice.at = at) },
          shown.map(([name]) => {
            const cell = el("span", { class: `cell ${name}` }, word(episode, name));
            if (name === "success" && episode.success !== null) cell.classList.add(episode.success ? "good" : "bad");
            if ((name === "invalid" && episode.invalid) || name === "error") cell.classList.add("warn");
            return cell;
          }),
        );
        row.style.top = `${at * ROW}px`;
        row.style.gridTemplateColumns = template;
        rows.push(row);
      }
      agentrl.replace(inside, rows);
    }

    function update() {
      selected = agentrl.selected();
      choice.at = Math.min(choice.at, Math.max(0, selected.length - 1));
      count.textContent = `${selected.length.toLocaleString("en")} of ${everything.length.toLocaleString("en")} episodes`;
      inside.style.height = `${selected.length * ROW}px`;
      agentrl.replace(
        head,
        shown.map(([name, title]) =>
          el("button", { type: "button", class: "cell", "data-sort": name, onclick: () => sort(name) }, title, choice.sort === name ? (choice.down ? " ▾" : " ▴") : ""),
        ),
      );
      render();
    }

    function sort(name) {
      if (choice.sort !== name) [choice.sort, choice.down] = [name, false];
      else if (!choice.down) choice.down = true;
      else choice.sort = null;
      update();
    }

    function field(name, title, values) {
      const select = el("select", { id: `filter-${name}` }, values.map(([value, text]) => el("option", { value, selected: value === choice[name] }, agentrl.visible(text))));
      select.addEventListener("change", () => {
        choice[name] = select.value;
        list.scrollTop = 0;
        update();
      });
      return el("label", {}, `${title} `, select);
    }
    const words = el("input", { id: "filter-words", type: "search", placeholder: "words: task, seed:7, error …", value: choice.words });
    words.addEventListener("input", () => {
      choice.words = words.value;
      list.scrollTop = 0;
      update();
    });
    const tasks = [...new Set(everything.map((episode) => episode.task))].sort();
    agentrl.replace(
      main,
      el(
        "div",
        { class: "bar" },
        el("label", {}, "find ", words),
        tasks.length > 1 ? field("task", "task", [["", "all"], ...tasks.map((task) => [task, task])]) : null,
        field("success", "success", [["", "any"], ["yes", "yes"], ["no", "no"], ["unknown", "unknown"]]),
        field("ending", "end", [["", "any"], ["ended", "ended by the game"], ["time limit", "time limit"], ["cut", "cut by the batch"], ["error", "error"], ["invalid", "with invalid turns"]]),
        count,
      ),
      el("div", { class: "scroll" }, el("div", { class: "table" }, head, list)),
    );
    let waiting = false;
    list.addEventListener("scroll", () => {
      choice.top = list.scrollTop;
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        render();
      });
    });
    new ResizeObserver(render).observe(list);
    const top = choice.top;
    update();
    // Whoever comes back, or sees the list drawn anew, finds it where it was.
    list.scrollTop = top;
    render();
    main.onkey = (key) => {
      const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[key];
      if (step) choice.at = Math.min(selected.length - 1, Math.max(0, choice.at + step));
      else if (key === "Home") choice.at = 0;
      else if (key === "End") choice.at = selected.length - 1;
      else if (key === "Enter" && selected[choice.at]) location.hash = agentrl.address(selected[choice.at]);
      else return false;
      const top = choice.at * ROW;
      if (top < list.scrollTop || top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight / 2;
      render();
      return true;
    };
  };
}
