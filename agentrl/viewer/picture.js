// The game's picture before a turn: from a sheet of tiles, or a picture of its own.
"use strict";

{
  const images = new Map();

  function image(url) {
    if (!images.has(url)) {
      if (images.size > 400) images.clear();
      const made = new Image();
      made.src = url;
      images.set(url, made);
    }
    return images.get(url);
  }

  function ready(picture, then) {
    if (picture.complete) then();
    else picture.addEventListener("load", then, { once: true });
  }

  // How many pictures there are: one before each turn, one after the last.
  agentrl.frameCount = (frames) => (frames.tiles || frames.order || []).length;

  // Draw picture `at` on a canvas; false where there is none.
  agentrl.drawFrame = function (canvas, frames, at) {
    if (at >= agentrl.frameCount(frames)) return false;
    if (canvas.width !== frames.width || canvas.height !== frames.height) {
      canvas.width = frames.width;
      canvas.height = frames.height;
    }
    canvas.wanted = at;
    const paper = canvas.getContext("2d");
    const source = image(frames.tiles ? frames.sheet : frames.pictures[frames.order[at]]);
    ready(source, () => {
      if (canvas.wanted !== at) return;
      if (!frames.tiles) {
        paper.drawImage(source, 0, 0);
        return;
      }
      const { unit, columns } = frames;
      const across = frames.width / unit;
      frames.tiles[at].forEach((tile, place) => {
        const x = (tile % columns) * unit;
        const y = Math.floor(tile / columns) * unit;
        paper.drawImage(source, x, y, unit, unit, (place % across) * unit, Math.floor(place / across) * unit, unit, unit);
      });
    });
    return true;
  };
}
