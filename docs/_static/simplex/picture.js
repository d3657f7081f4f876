"use strict";
/*
 * The drawing of the page: the triangle with its shades, regions, members and mean, and below it the
 * scale of the shades. It knows places and pixels, and no rules: it is passed functions and numbers.
 *
 * Corners are as in the displays of the library: the first class left, the second right, the third
 * on top. Shades are transparent colours, so they suit a light and a dark theme.
 */
window.scorewise = window.scorewise || {};

scorewise.picture = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = Math.sqrt(0.75); // of a triangle with sides of 1
  const MARGIN = { side: 24, top: 34, bottom: 34 };
  const LARGEST_SIDE = 540; // pixels
  const FINENESS = 2; // pixels of the canvas per pixel of the page and direction
  const LINE = 0.55; // half the width of a contour line, in pixels of the page
  const TINTS = {
    entropy: [110, 110, 110],
    total: [110, 110, 110],
    aleatoric: [0, 114, 178],
    epistemic: [230, 159, 0],
  };

  const element = (name, attributes = {}, text = "") => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.textContent = text;
    return node;
  };

  // -- places ---------------------------------------------------------------------------------------

  const layoutFor = (width) => {
    const side = Math.min(width - 2 * MARGIN.side, LARGEST_SIDE);
    const height = side * HEIGHT;
    return {
      side,
      height,
      left: (width - side) / 2,
      top: MARGIN.top,
      width,
      fullHeight: MARGIN.top + height + MARGIN.bottom,
    };
  };

  const toPixels = (p, { left, top, side, height }) => [
    left + side * (p[1] + p[2] / 2),
    top + height * (1 - p[2]),
  ];

  const toProbabilities = ([x, y], { left, top, side, height }) => {
    const third = 1 - (y - top) / height;
    const second = (x - left) / side - third / 2;
    return [1 - second - third, second, third];
  };

  const pathOf = (points, layout) =>
    `M${points
      .map((p) =>
        toPixels(p, layout)
          .map((x) => x.toFixed(2))
          .join(),
      )
      .join("L")}Z`;

  // -- levels ---------------------------------------------------------------------------------------

  // About seven steps of 1, 2, 2.5 or 5 times a power of ten
  const stepFor = (range) => {
    const rough = range / 7;
    const power = 10 ** Math.floor(Math.log10(rough));
    return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough);
  };

  // From the least to the largest value of a field; bands lie between multiples of the step.
  const levelsOf = ({ least, largest }) => {
    // where a field is constant, its values differ by rounding
    const rounding = 1e-9 * Math.max(1, Math.abs(least), Math.abs(largest));
    if (!(largest - least > rounding)) return { least, largest, step: 0, edges: [] };
    const step = stepFor(largest - least);
    const edges = [];
    for (let i = Math.floor(least / step) + 1; i * step < largest - 1e-9 * step; i++)
      edges.push(i * step);
    return { least, largest, step, edges };
  };

  // The darkness of the band of a value; a plateau on top belongs to the band below it.
  const opacityAt = (value, { least, largest, step }) => {
    if (value === 0) return 0;
    if (step === 0) return 0.4;
    const last = Math.ceil(largest / step - 1e-9) - 1;
    const band = Math.min(Math.floor(value / step + 1e-9), last);
    const share = ((band + 0.5) * step - least) / (largest - least);
    return 0.08 + 0.62 * Math.min(1, Math.max(0, share));
  };

  // -- shades ---------------------------------------------------------------------------------------

  // The values of a function of p on a square grid over the triangle and its surroundings
  const sampleField = (f, side) => {
    const columns = Math.ceil(side) + 3;
    const rows = Math.ceil(side * HEIGHT) + 3;
    const values = new Float64Array(columns * rows);
    const unitLayout = { left: 1, top: 1, side, height: side * HEIGHT };
    let least = Infinity;
    let largest = -Infinity;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const p = toProbabilities([column, row], unitLayout);
        const outside = Math.min(...p);
        if (outside < -0.02) continue;
        // points just outside are moved to the edge, so that values can be interpolated there
        const inside = p.map((x) => Math.max(x, 0));
        const size = inside[0] + inside[1] + inside[2];
        const value = f(inside.map((x) => x / size));
        values[row * columns + column] = value;
        least = Math.min(least, value);
        largest = Math.max(largest, value);
      }
    }
    return { values, columns, rows, least, largest };
  };

  const interpolate = ({ values, columns }, x, y) => {
    const [column, row] = [Math.floor(x), Math.floor(y)];
    const [right, down] = [x - column, y - row];
    const at = row * columns + column;
    const above = values[at] + right * (values[at + 1] - values[at]);
    const below = values[at + columns] + right * (values[at + columns + 1] - values[at + columns]);
    return above + down * (below - above);
  };

  // Paint bands of one tint, with lines between them that are left transparent.
  const paintField = (canvas, field, levels, tint, side) => {
    const width = Math.round(side * FINENESS);
    const height = Math.round(side * HEIGHT * FINENESS);
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    for (let row = 0; row < height; row++) {
      const half = (row + 2) / HEIGHT / 2; // of the triangle's width in this row
      const start = Math.max(0, Math.floor(width / 2 - half) - 1);
      const end = Math.min(width - 1, Math.ceil(width / 2 + half) + 1);
      for (let column = start; column <= end; column++) {
        const [x, y] = [1 + column / FINENESS, 1 + row / FINENESS];
        const value = interpolate(field, x, y);
        let opacity = opacityAt(value, levels);
        if (opacity > 0) {
          const nearest = Math.round(value / levels.step) * levels.step;
          const slope = Math.hypot(
            interpolate(field, x + 0.5, y) - value,
            interpolate(field, x, y + 0.5) - value,
          );
          const distance = Math.abs(value - nearest) / (2 * slope); // to the line, in pixels
          const isLine = nearest > levels.least && slope > 1e-9 * levels.step;
          if (isLine) opacity *= Math.min(1, Math.max(0, distance - LINE + 0.5));
        }
        const at = 4 * (row * width + column);
        [image.data[at], image.data[at + 1], image.data[at + 2]] = tint;
        image.data[at + 3] = Math.round(255 * opacity);
      }
    }
    context.putImageData(image, 0, 0);
  };

  // -- the picture ----------------------------------------------------------------------------------

  // Returns draw(scene). The callbacks are onSelect(i), onMove(i, p), where p may lie outside of the
  // triangle, onStep(i, right, up) in steps of the arrow keys, and onRemove(i).
  const makePicture = (root, { onSelect, onMove, onStep, onRemove }) => {
    const canvas = root.querySelector("canvas");
    const svg = root.querySelector("svg.simplex-triangle");
    const scale = root.querySelector("svg.simplex-scale");
    const layers = Object.fromEntries(
      ["regions", "outline", "spokes", "mean", "members"].map((name) => [
        name,
        svg.appendChild(element("g", { class: name })),
      ]),
    );
    layers.members.setAttribute("role", "group");
    layers.members.setAttribute("aria-label", "Members of the ensemble");
    layers.mean.append(element("path", { d: "M0,-11L9,0L0,11L-9,0Z" }));
    let layout = null;
    let painted = "";
    let field = null;
    let levels = null;

    const drawRegions = ({ regions }) => {
      layers.regions.replaceChildren(
        ...regions.flatMap(({ name, corners }) => {
          const center = [0, 1, 2].map(
            (k) => corners.reduce((total, p) => total + p[k], 0) / corners.length,
          );
          const [x, y] = toPixels(center, layout);
          return [element("path", { d: pathOf(corners, layout) }), element("text", { x, y }, name)];
        }),
      );
    };

    const drawOutline = ({ classes }) => {
      const { left, top, side, height } = layout;
      // prettier-ignore
      const corners = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
      const below = top + height + 26;
      layers.outline.replaceChildren(
        element("path", { d: pathOf(corners, layout) }),
        element("text", { x: left - 12, y: below }, classes[0]),
        element("text", { x: left + side + 12, y: below, "text-anchor": "end" }, classes[1]),
        element("text", { x: left + side / 2, y: top - 16, "text-anchor": "middle" }, classes[2]),
      );
    };

    const makeHandle = (i) => {
      const handle = element("g", { class: "simplex-member", tabindex: 0, role: "slider" });
      handle.setAttribute("aria-roledescription", "point in the triangle");
      handle.append(
        element("circle", { class: "reach", r: 16 }),
        element("circle", { class: "dot", r: 10.5 }),
        element("text", { dy: "0.36em" }, String(i + 1)),
      );
      handle.addEventListener("focus", () => onSelect(i));
      handle.addEventListener("keydown", (event) => pressed(event, i));
      return handle;
    };

    const pressed = (event, i) => {
      const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key in steps) {
        const size = event.shiftKey ? 5 : 1;
        onStep(i, ...steps[event.key].map((step) => size * step));
      } else if (event.key === "Delete" || event.key === "Backspace") {
        onRemove(i);
      } else {
        return;
      }
      event.preventDefault();
    };

    const placeOf = (handle) => handle.dataset.place.split(",").map(Number);

    // Where members overlap, the nearest one is taken, not the one drawn last.
    const grabbed = (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      const pointer = [event.clientX - box.left, event.clientY - box.top];
      const handles = [...layers.members.children];
      const distances = handles.map((handle) => {
        const [x, y] = placeOf(handle);
        return Math.hypot(x - pointer[0], y - pointer[1]);
      });
      const i = distances.indexOf(Math.min(...distances));
      const handle = handles[i];
      const [x, y] = placeOf(handle);
      const offset = [x - event.clientX, y - event.clientY];
      const dragged = (move) =>
        onMove(i, toProbabilities([move.clientX + offset[0], move.clientY + offset[1]], layout));
      const released = () => {
        handle.removeEventListener("pointermove", dragged);
        handle.removeEventListener("lostpointercapture", released);
      };
      handle.addEventListener("pointermove", dragged);
      handle.addEventListener("lostpointercapture", released);
      handle.setPointerCapture(event.pointerId);
      handle.focus();
    };
    layers.members.addEventListener("pointerdown", grabbed);
    // Chromium scrolls the page in spite of touch-action in a part of an SVG.
    const keepStill = (event) => event.preventDefault();
    layers.members.addEventListener("touchstart", keepStill, { passive: false });

    const drawMembers = ({ members, mean, selected, describe }) => {
      const handles = layers.members.children;
      while (handles.length > members.length) layers.members.lastChild.remove();
      while (handles.length < members.length) layers.members.append(makeHandle(handles.length));
      const center = toPixels(mean, layout);
      layers.mean.setAttribute("transform", `translate(${center})`);
      layers.spokes.replaceChildren(
        ...members.map((p) => element("path", { d: `M${toPixels(p, layout)}L${center}` })),
      );
      members.forEach((p, i) => {
        const handle = handles[i];
        const place = toPixels(p, layout);
        handle.setAttribute("transform", `translate(${place})`);
        handle.dataset.place = place;
        handle.classList.toggle("is-selected", i === selected);
        handle.setAttribute("aria-label", `Member ${i + 1}`);
        handle.setAttribute("aria-valuemin", 0);
        handle.setAttribute("aria-valuemax", 1);
        handle.setAttribute("aria-valuenow", Math.max(...p));
        handle.setAttribute("aria-valuetext", describe(p));
      });
    };

    // Shades change with what is shaded, and not while the selected member moves.
    const drawShades = ({ shade }) => {
      const key = `${shade.key} ${layout.side}`;
      if (key === painted) return;
      painted = key;
      field = sampleField(shade.f, layout.side);
      levels = levelsOf(field);
      paintField(canvas, field, levels, TINTS[shade.part], layout.side);
      const { left, top, side, height } = layout;
      Object.assign(canvas.style, {
        left: `${left}px`,
        top: `${top}px`,
        width: `${side}px`,
        height: `${height}px`,
      });
    };

    // The bands of the triangle as a colour bar; above it marks, each at a value.
    const drawScale = ({ shade, marks }) => {
      const { least, largest, edges } = levels;
      const [left, length] = [layout.left, layout.side];
      const isFlat = edges.length === 0; // and then its one value stands in the middle
      const shareOf = (value) => (isFlat ? 0.5 : (value - least) / (largest - least));
      const at = (value) => left + length * shareOf(value);
      const [top, height] = [26, 12];
      scale.setAttribute("viewBox", `0 0 ${layout.width} 60`);
      scale.setAttribute("height", 60);
      const rectangle = (start, end, attributes) =>
        element("rect", { x: start, y: top, width: end - start, height, ...attributes });
      const bandOf = (start, end, value) => {
        const fill = `rgba(${TINTS[shade.part]}, ${opacityAt(value, levels)})`;
        return rectangle(start, end, { fill });
      };
      const ends = [least, ...edges, largest];
      const bands = isFlat
        ? [bandOf(left, left + length, least)]
        : ends.slice(1).map((end, i) => bandOf(at(ends[i]), at(end), (ends[i] + end) / 2));
      const frame = rectangle(left, left + length, { class: "frame" });
      const hasRoom = isFlat || at(edges[0]) - left > 36; // for the least value
      const labels = (hasRoom ? [least, ...edges] : edges).map((value) =>
        element("text", { x: at(value), y: top + height + 17 }, shade.format(value)),
      );
      const drawn = marks.map((mark) => drawMark(mark, at, top));
      scale.replaceChildren(...bands, frame, ...labels, ...drawn);
    };

    const drawMark = ({ kind, value, until }, at, bottom) => {
      const middle = bottom - 13;
      if (kind === "gap") {
        const [start, end] = [at(value), at(until)];
        return element("path", { class: "gap", d: `M${start},${middle}H${end}` });
      }
      const place = `translate(${at(value)},${middle})`;
      const shapes = {
        member: ["circle", { r: 4 }],
        aleatoric: ["path", { d: "M0,-10V25" }],
        total: ["path", { d: "M0,-9L7.5,0L0,9L-7.5,0Z" }],
        part: ["path", { d: "M-7,-8H7L0,9Z" }],
      };
      const [name, attributes] = shapes[kind];
      return element(name, { class: kind, transform: place, ...attributes });
    };

    const draw = (scene) => {
      layout = layoutFor(svg.parentElement.clientWidth);
      svg.setAttribute("viewBox", `0 0 ${layout.width} ${layout.fullHeight}`);
      svg.setAttribute("height", layout.fullHeight);
      drawShades(scene);
      drawRegions(scene);
      drawOutline(scene);
      drawMembers(scene);
      drawScale(scene);
    };

    const focusMember = (i) => layers.members.children[i].focus();
    return { draw, focusMember };
  };

  return { makePicture };
})();
