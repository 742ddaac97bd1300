// What all parts of the page share: making elements, loading data, showing text that nobody may trust.
"use strict";

const agentrl = { state: { index: null, sources: [] } };

// An element. Attributes are set, `on...` are listeners, children are elements or text: never HTML.
agentrl.el = function (tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  for (const child of children.flat(2)) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
};

agentrl.replace = function (parent, ...children) {
  parent.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
};

// Data are scripts that call `chunk`: a page opened from a file may load scripts and nothing else.
{
  const loads = new Map();
  const arrived = new Map();

  agentrl.chunk = (name, content) => arrived.set(name, content);

  // Load DATA/name.js; `fresh` asks for it anew.
  agentrl.load = function (name, fresh) {
    if (!fresh && loads.has(name)) return loads.get(name);
    const load = new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = `data/${name}.js` + (fresh ? `?${Date.now()}` : "");
      script.onload = () => {
        script.remove();
        const content = arrived.get(name);
        arrived.delete(name);
        content === undefined ? reject(new Error(`${name}: no data`)) : resolve(content);
      };
      script.onerror = () => {
        script.remove();
        loads.delete(name);
        reject(new Error(`${name}: not there`));
      };
      document.head.append(script);
    });
    loads.set(name, load);
    // Of an episode's chunks the newest few dozen are kept.
    if (loads.size > 60) loads.delete([...loads.keys()].find((key) => key.includes("/")));
    return load;
  };

  agentrl.forget = function (prefix) {
    for (const name of loads.keys()) if (name.startsWith(prefix)) loads.delete(name);
  };
}

// Control characters, marks of writing direction and lone surrogates could hide or reorder text: they become signs.
{
  const hidden = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
  agentrl.visible = (text) =>
    String(text).replace(hidden, (sign) => {
      const code = sign.charCodeAt(0);
      return code < 32 ? String.fromCharCode(0x2400 + code) : `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
    });
}

agentrl.MOST_SHOWN = 20000;

// Text in an element, its rest behind a button where it is very long.
agentrl.text = function (text, attributes, tag) {
  const whole = String(text);
  const element = agentrl.el(tag || "div", attributes);
  if (whole.length <= agentrl.MOST_SHOWN) {
    element.textContent = agentrl.visible(whole);
    return element;
  }
  const left = whole.length - agentrl.MOST_SHOWN;
  element.textContent = agentrl.visible(whole.slice(0, agentrl.MOST_SHOWN));
  const more = agentrl.el("button", { class: "more", type: "button" }, `… ${left.toLocaleString("en")} more characters: show`);
  more.addEventListener("click", () => (element.textContent = agentrl.visible(whole)));
  element.append(more);
  return element;
};

agentrl.number = function (value, digits) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(+value.toPrecision(digits || 4));
};

agentrl.cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
agentrl.sourceColour = (index) => agentrl.cssColour(`--run-${index % 8}`);
