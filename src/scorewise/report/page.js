"use strict";
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const PRINTED = 680; // pixels, the width of a page of paper
  const NARROW = 500;
  const LONG = 36; // characters of the title of an axis
  let printing = false;

  const isDark = () =>
    !printing && (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);

  // A copy with the colours of the theme; a name such as "#FFFFFF" is not changed.
  const themed = (value, isColor) => {
    if (Array.isArray(value)) return value.map((item) => themed(item, isColor));
    if (value && typeof value === "object") {
      return Object.fromEntries(
        Object.entries(value).map(([key, item]) => [key, themed(item, /color$/.test(key))]),
      );
    }
    return isColor && isDark() && Object.hasOwn(page.dark, value) ? page.dark[value] : value;
  };

  const brokenInTwo = (text) => {
    const middle = text.indexOf(" ", text.length / 2 - 4);
    return middle < 0 ? text : `${text.slice(0, middle)}<br>${text.slice(middle + 1)}`;
  };

  const configured = (isNarrow) => ({
    displaylogo: false,
    showLink: false,
    responsive: true,
    doubleClick: false,
    displayModeBar: isNarrow ? false : "hover", // it would cover the legend
    modeBarButtons: [["toImage"]],
  });

  const draw = () => {
    for (const place of document.querySelectorAll("[data-figure]")) {
      const figure = themed(page.figures[place.dataset.figure]);
      const isNarrow = !printing && place.clientWidth < NARROW;
      const entries = figure.data.filter((trace) => trace.showlegend !== false).length;
      if (isNarrow) {
        // a narrow legend has a line for every entry, a long title two lines
        figure.layout.height += 22 * entries;
        const title = figure.layout.xaxis?.title;
        if (title?.text.length > LONG) title.text = brokenInTwo(title.text);
      }
      if (printing) {
        const height = 0.8 * figure.layout.height;
        Object.assign(figure.layout, { width: PRINTED, height, autosize: false });
      }
      Plotly.react(place, figure.data, figure.layout, configured(isNarrow));
    }
  };

  const pressTheme = () => {
    const button = document.getElementById("theme");
    button.setAttribute("aria-pressed", String(isDark()));
  };

  const refresh = () => {
    pressTheme();
    draw();
  };

  const follow = () => {
    const slider = document.getElementById("coverage");
    const figure = page.figures.rejection;
    const mark = figure.data.length - 1;
    const plot = document.querySelector('[data-figure="rejection"]');
    const start = figure.layout.xaxis.range[0];
    const move = () => {
      const percent = Number(slider.value);
      const label = `${percent} %`;
      document.getElementById("percent").textContent = label;
      slider.setAttribute("aria-valuetext", `${label} of the rows`);
      document.querySelectorAll("#slider-text span").forEach((line, i) => {
        line.textContent = page.sentences[percent - 1][i];
      });
      const { x, y } = page.points[percent - 1];
      Object.assign(figure.data[mark], { x, y });
      Object.assign(figure.layout.shapes[0], { x0: percent, x1: percent });
      // the axis begins where the curves change, and extends to the mark
      figure.layout.xaxis.range[0] = Math.min(start, percent - 1);
      const moved = {
        "shapes[0].x0": percent,
        "shapes[0].x1": percent,
        "xaxis.range[0]": figure.layout.xaxis.range[0],
      };
      Plotly.update(plot, { x: [x], y: [y] }, moved, [mark]);
    };
    slider.addEventListener("input", move);
    slider.setAttribute("aria-valuetext", `${slider.value} % of the rows`);
  };

  const sortable = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const collator = new Intl.Collator(undefined, { numeric: true });
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const falling = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const key = (row) => row.cells[column].dataset.value;
        const missing = (text) => column > 0 && !Number.isFinite(Number.parseFloat(text));
        const rows = [...body.rows].sort((a, b) => {
          const [first, second] = [key(a), key(b)];
          if (missing(first) || missing(second)) return missing(first) - missing(second); // always last
          const order = column > 0 ? first - second : collator.compare(first, second);
          return falling ? -order : order;
        });
        body.append(...rows);
      });
    });
  };

  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    refresh();
  });
  prefersDark.addEventListener("change", refresh);
  addEventListener("beforeprint", () => {
    printing = true;
    draw();
  });
  addEventListener("afterprint", () => {
    printing = false;
    draw();
  });
  document.querySelectorAll("[data-sortable]").forEach(sortable);
  refresh();
  follow();
  root.dataset.ready = "";
})();
