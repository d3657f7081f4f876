"use strict";
/*
 * The page: its state, the controls that change it, and what shows it.
 *
 * Probabilities are kept in thousandths, as whole numbers that sum to 1000, so that members can be
 * exactly equal, and code that is copied has the same numbers.
 */
(() => {
  const { FAMILIES, decompose, makeRule, partWithMemberAt } = scorewise.rules;
  const { asPython, describeMember, explain, format, withUnit } = scorewise.explain;
  const { makePicture } = scorewise.picture;

  const WHOLE = 1000;
  const MOST_MEMBERS = 10;
  const ACTIONS = { fewest: 2, most: 5 };
  const STEP = 10; // thousandths that an arrow key moves
  const LONGEST_NAME = 14;
  const CLASSES = ["cat", "dog", "bird"];

  // prettier-ignore
  const PRESETS = {
    agreeing: [[790, 130, 80], [820, 100, 80], [800, 110, 90], [780, 130, 90], [810, 130, 60]],
    "same-argmax": [[920, 50, 30], [520, 420, 60], [480, 100, 420], [700, 250, 50], [580, 170, 250]],
    outlier: [[850, 100, 50], [820, 90, 90], [870, 70, 60], [840, 120, 40], [60, 110, 830]],
    camps: [[850, 100, 50], [800, 120, 80], [830, 80, 90], [110, 840, 50], [130, 800, 70], [90, 820, 90]],
    uncertain: [[380, 320, 300], [370, 310, 320], [390, 310, 300], [360, 330, 310], [380, 300, 320]],
  };

  const root = document.getElementById("simplex-app");
  const one = (selector) => root.querySelector(selector);
  const all = (selector) => [...root.querySelectorAll(selector)];

  const state = {
    members: PRESETS["same-argmax"],
    selected: 0,
    rule: "log",
    shade: "entropy",
    beta: 1.5,
    alpha: 3,
    actions: ["cat", "dog", "bird", "ask"],
    costs: [
      [0, 1, 2, 0.5],
      [1, 0, 2, 0.5],
      [2, 2, 0, 0.5],
    ],
  };

  // -- changes of the state -------------------------------------------------------------------------

  const change = (changes) => {
    Object.assign(state, changes);
    draw();
    announceLater();
  };

  // The nearest point of the triangle
  const projected = (p) => {
    const falling = [...p].sort((a, b) => b - a);
    const shifts = falling.map(
      (_, k) => (falling.slice(0, k + 1).reduce((a, b) => a + b) - 1) / (k + 1),
    );
    const shift = shifts.findLast((value, k) => falling[k] > value);
    return p.map((x) => Math.max(0, x - shift));
  };

  // Probabilities in thousandths whose sum is right: what rounding adds, the largest one gives.
  const inThousandths = (p) => {
    const rounded = p.map((x) => Math.round(WHOLE * x));
    rounded[rounded.indexOf(Math.max(...rounded))] += WHOLE - rounded[0] - rounded[1] - rounded[2];
    return rounded;
  };

  const moveMember = (i, p) =>
    change({ selected: i, members: state.members.with(i, inThousandths(projected(p))) });

  // By steps of the arrow keys to the right and up, as the triangle is drawn
  const stepMember = (i, right, up) => {
    const [left, second, top] = state.members[i];
    const moved = [
      left - STEP * (right + up / 2),
      second + STEP * (right - up / 2),
      top + STEP * up,
    ];
    moveMember(
      i,
      moved.map((x) => x / WHOLE),
    );
  };

  // One probability is entered, the other two keep their ratio.
  const setProbability = (i, k, value) => {
    const entered = Math.min(WHOLE, Math.round(WHOLE * value));
    const [a, b] = [(k + 1) % 3, (k + 2) % 3];
    const member = state.members[i];
    const others = member[a] + member[b];
    const share = others > 0 ? member[a] / others : 0.5;
    const changed = member.with(k, entered);
    changed[a] = Math.round(share * (WHOLE - entered));
    changed[b] = WHOLE - entered - changed[a];
    change({ selected: i, members: state.members.with(i, changed) });
  };

  const addMember = () => {
    if (state.members.length === MOST_MEMBERS) return;
    change({ members: [...state.members, [334, 333, 333]], selected: state.members.length });
  };

  const removeMember = (i) => {
    if (state.members.length === 1) return false;
    change({
      members: state.members.toSpliced(i, 1),
      selected: Math.min(i, state.members.length - 2),
    });
    return true;
  };

  const setCost = (y, a, cost) =>
    change({ costs: state.costs.with(y, state.costs[y].with(a, cost)) });

  const addAction = () => {
    let number = state.actions.length + 1;
    while (state.actions.includes(`act ${number}`)) number++;
    change({
      actions: [...state.actions, `act ${number}`],
      costs: state.costs.map((row) => [...row, 1]),
    });
  };

  const removeAction = (a) => {
    change({
      actions: state.actions.toSpliced(a, 1),
      costs: state.costs.map((row) => row.toSpliced(a, 1)),
    });
    drawNow();
    one("[data-do=add-action]").focus(); // which would be lost with the column
  };

  // -- what is shown --------------------------------------------------------------------------------

  const probabilities = () => state.members.map((p) => p.map((x) => x / WHOLE));

  const measured = (name, members) => {
    const rule = makeRule(name, state);
    return { rule, parts: decompose(members, rule) };
  };

  // The regions of zero-one have the names of the corners.
  const regionsOf = (rule) => {
    const names = rule.name === "cost-matrix" ? state.actions : ["", "", ""];
    return (rule.regions ?? [])
      .map((corners, a) => ({ name: names[a], corners }))
      .filter(({ corners }) => corners.length > 2);
  };

  const shadeOf = (rule, members) => {
    const part = state.shade;
    const others = part === "entropy" ? [] : members.toSpliced(state.selected, 1);
    return {
      part,
      f: part === "entropy" ? rule.entropy : partWithMemberAt(part, others, rule),
      format: (value) => {
        const number = Number((rule.isProportion ? 100 * value : value).toPrecision(3));
        return rule.isProportion ? `${number}\u00a0%` : String(number);
      },
      key: JSON.stringify([part, rule.python, others]),
    };
  };

  const marksOf = ({ total, aleatoric, epistemic, entropies, ...parts }) =>
    state.shade === "entropy"
      ? [
          ...(epistemic > 0 ? [{ kind: "gap", value: aleatoric, until: total }] : []),
          ...entropies.map((value) => ({ kind: "member", value })),
          { kind: "aleatoric", value: aleatoric },
          { kind: "total", value: total },
        ]
      : [{ kind: "part", value: { total, aleatoric, epistemic }[state.shade] }];

  let isScheduled = false;
  const draw = () => {
    if (isScheduled) return;
    isScheduled = true;
    requestAnimationFrame(() => {
      isScheduled = false;
      drawNow();
    });
  };

  const drawNow = () => {
    const members = probabilities();
    const table = Object.keys(FAMILIES).map((name) => measured(name, members));
    const find = (name) => table.find(({ rule }) => rule.name === name);
    const { rule, parts } = find(state.rule);
    const actions = state.rule === "cost-matrix" ? state.actions : CLASSES;
    const view = {
      members,
      rule,
      parts,
      actions,
      classes: CLASSES,
      log: find("log"),
      zeroOne: find("zero-one"),
    };
    picture.draw({
      members,
      mean: parts.mean,
      selected: state.selected,
      classes: CLASSES,
      describe: (p) => describeMember(p, CLASSES),
      regions: regionsOf(rule),
      shade: shadeOf(rule, members),
      marks: marksOf(parts),
    });
    showSum(view);
    showShades(view);
    showRule(view);
    one(".simplex-explanation").replaceChildren(
      ...explain(view).map((text) => make("p", {}, text)),
    );
    showTable(table);
    showMembers(view);
    showCosts();
    one(".simplex-code").textContent = asPython(view);
    one(".simplex-link").href = `#${writeHash()}`;
  };

  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };

  // Replace the value of an input unless it is being edited.
  const refresh = (input, value) => {
    if (input !== document.activeElement) input.value = value;
  };

  const showSum = ({ rule, parts }) => {
    for (const part of ["aleatoric", "epistemic", "total"]) {
      one(`.simplex-sum [data-part=${part}]`).textContent = format(parts[part], rule);
    }
    one(".simplex-sum [data-part=unit]").textContent = rule.isProportion ? "" : rule.unit;
  };

  const showShades = ({ rule, members }) => {
    const ifMoved = `member ${state.selected + 1} were there and the others stayed`;
    const captions = {
      entropy:
        `H(p) under ${rule.label}. The total is H at the mean ◆. The aleatoric part is the mean ` +
        "of H at the members. The epistemic part is the difference.",
      total: `The total under ${rule.label} if ${ifMoved}.`,
      aleatoric: `The aleatoric part under ${rule.label} if ${ifMoved}.`,
      epistemic:
        `The epistemic part under ${rule.label} if ${ifMoved}.` +
        (rule.isDecision ? " It is 0 where nothing is shaded." : ""),
    };
    one(".simplex-caption").textContent = captions[state.shade];
    for (const input of all("[name=shade]")) input.checked = input.value === state.shade;
    one("[data-do=add]").disabled = members.length === MOST_MEMBERS;
    one("[data-do=remove]").disabled = members.length === 1;
    for (const button of all("[data-preset]")) {
      const isShown =
        JSON.stringify(PRESETS[button.dataset.preset]) === JSON.stringify(state.members);
      button.setAttribute("aria-pressed", isShown);
    }
  };

  const showRule = ({ rule }) => {
    one("[name=rule]").value = rule.name;
    one(".simplex-about").textContent = rule.about;
    for (const name of ["beta", "alpha"]) {
      const input = one(`[name=${name}]`);
      input.value = state[name];
      input.closest("label").hidden = rule.parameter !== name;
      input.nextElementSibling.textContent = state[name];
    }
    one(".simplex-costs").hidden = rule.parameter !== "costs";
  };

  const makeRow = (name) => {
    const button = make("button", { type: "button" }, FAMILIES[name].label);
    button.addEventListener("click", () => change({ rule: name }));
    const bar = make("div", { class: "simplex-bar", "aria-hidden": "true" }, make("i"), make("i"));
    const cells = ["total", "aleatoric", "epistemic"].map((part) =>
      make("td", { "data-part": part }),
    );
    const heading = make("th", { scope: "row" }, button, " ", make("small"), bar);
    return make("tr", { "data-rule": name }, heading, ...cells);
  };

  const detailOf = ({ parameter, unit }) => {
    const symbol = { beta: "β", alpha: "α" }[parameter];
    return symbol ? `${symbol} = ${state[parameter]}` : unit;
  };

  const showTable = (table) => {
    for (const { rule, parts } of table) {
      const row = one(`tr[data-rule=${rule.name}]`);
      row.classList.toggle("is-chosen", rule.name === state.rule);
      row.querySelector("button").setAttribute("aria-pressed", rule.name === state.rule);
      row.querySelector("small").textContent = detailOf(rule);
      const [aleatoric, epistemic] = row.querySelectorAll("i");
      const share = (value) => `${rule.largestTotal > 0 ? (100 * value) / rule.largestTotal : 0}%`;
      aleatoric.style.width = share(parts.aleatoric);
      epistemic.style.width = share(parts.epistemic);
      for (const cell of row.querySelectorAll("td")) {
        const value = parts[cell.dataset.part];
        cell.textContent = format(value, rule);
        cell.dataset.value = value;
        cell.classList.toggle("is-zero", value === 0);
      }
    }
  };

  const makeMemberRow = (i) => {
    const inputs = CLASSES.map((name, k) => {
      const label = `Member ${i + 1}, probability of ${name}`;
      const input = make("input", {
        type: "number",
        min: 0,
        max: 1,
        step: 0.01,
        "aria-label": label,
      });
      input.addEventListener("change", () => {
        if (input.value !== "" && Number(input.value) >= 0)
          setProbability(i, k, Number(input.value));
        input.value = (state.members[i][k] / WHOLE).toFixed(3);
      });
      input.addEventListener("focus", () => change({ selected: i }));
      return input;
    });
    const remove = make("button", { type: "button", "aria-label": `Remove member ${i + 1}` }, "×");
    remove.addEventListener("click", () => removeMember(i));
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, String(i + 1)),
      ...inputs.map((input) => make("td", {}, input)),
      make("td", { class: "number" }),
      make("td", { class: "number" }),
      make("td", {}, remove),
    );
  };

  const showMembers = ({ members, rule, parts }) => {
    const body = one(".simplex-members tbody");
    while (body.rows.length > members.length) body.lastElementChild.remove();
    while (body.rows.length < members.length) body.append(makeMemberRow(body.rows.length));
    members.forEach((p, i) => {
      const row = body.rows[i];
      row.classList.toggle("is-selected", i === state.selected);
      row.querySelectorAll("input").forEach((input, k) => refresh(input, p[k].toFixed(3)));
      const [entropy, divergence] = row.querySelectorAll(".number");
      entropy.textContent = format(parts.entropies[i], rule);
      divergence.textContent = format(parts.divergences[i], rule);
      row.querySelector("button").disabled = members.length === 1;
    });
    const means = [
      ...parts.mean.map((x) => x.toFixed(3)),
      format(parts.aleatoric, rule),
      format(parts.epistemic, rule),
    ];
    [...one(".simplex-members tfoot tr").cells]
      .slice(1, 6)
      .forEach((cell, k) => (cell.textContent = means[k]));
  };

  // The inputs are made anew only if an action was added or removed, so that they keep the focus.
  const showCosts = () => {
    const table = one(".simplex-costs table");
    const { actions, costs } = state;
    const n = actions.length;
    if (table.rows[0]?.cells.length !== n + 1) {
      table.replaceChildren(
        makeCostHead(n),
        make("tbody", {}, ...CLASSES.map((_, y) => makeCostRow(y, n))),
      );
    }
    table.querySelectorAll("thead input").forEach((input, a) => refresh(input, actions[a]));
    table.querySelectorAll("thead button").forEach((button, a) => {
      button.disabled = n === ACTIONS.fewest;
      button.setAttribute("aria-label", `Remove ${actions[a]}`);
    });
    table.querySelectorAll("tbody input").forEach((input, i) => {
      const [y, a] = [Math.floor(i / n), i % n];
      refresh(input, costs[y][a]);
      input.setAttribute("aria-label", `Cost of ${actions[a]} if the class is ${CLASSES[y]}`);
    });
    one("[data-do=add-action]").disabled = n === ACTIONS.most;
  };

  const makeCostHead = (n) => {
    const cells = Array.from({ length: n }, (_, a) => {
      const attributes = {
        type: "text",
        maxlength: LONGEST_NAME,
        "aria-label": `Name of action ${a + 1}`,
      };
      const input = make("input", attributes);
      input.addEventListener("change", () => {
        if (input.value.trim()) change({ actions: state.actions.with(a, input.value.trim()) });
        input.value = state.actions[a];
      });
      const remove = make("button", { type: "button" }, "×");
      remove.addEventListener("click", () => removeAction(a));
      return make("th", { scope: "col" }, make("div", {}, input, remove));
    });
    return make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "class"), ...cells));
  };

  const makeCostRow = (y, n) => {
    const cells = Array.from({ length: n }, (_, a) => {
      const input = make("input", { type: "number", min: 0, step: "any" });
      input.addEventListener("input", () => {
        const isCost = input.value !== "" && Number(input.value) >= 0;
        input.setAttribute("aria-invalid", !isCost);
        if (isCost) setCost(y, a, Number(input.value));
      });
      input.addEventListener("blur", () => {
        input.value = state.costs[y][a];
        input.removeAttribute("aria-invalid");
      });
      return make("td", {}, input);
    });
    return make("tr", {}, make("th", { scope: "row" }, CLASSES[y]), ...cells);
  };

  // For screen readers, once things have come to rest
  let announcement = 0;
  const announceLater = () => {
    clearTimeout(announcement);
    announcement = setTimeout(() => {
      const members = probabilities();
      const { rule, parts } = measured(state.rule, members);
      const place = describeMember(members[state.selected], CLASSES);
      const numbers = ["total", "aleatoric", "epistemic"].map(
        (part) => `${part} ${withUnit(parts[part], rule)}`,
      );
      one("[role=status]").textContent =
        `Member ${state.selected + 1}: ${place}. ${rule.label}: ${numbers.join(", ")}.`;
    }, 600);
  };

  // -- links to a view ------------------------------------------------------------------------------

  const writeHash = () => {
    const { members, rule, shade, beta, alpha, costs, actions } = state;
    const table = (rows) => rows.map((row) => row.join()).join(";");
    const fields = { members: table(members), rule, shade, beta, alpha, costs: table(costs) };
    return String(
      new URLSearchParams([...Object.entries(fields), ...actions.map((name) => ["action", name])]),
    );
  };

  // Read what is valid in the address; anything else may be in it.
  const readHash = () => {
    const fields = new URLSearchParams(location.hash.slice(1));
    const table = (name) =>
      (fields.get(name) ?? "").split(";").map((row) => row.split(",").map(Number));
    const changes = {};
    const members = table("members");
    const isMember = (p) =>
      p.length === 3 &&
      p.every((x) => Number.isInteger(x) && x >= 0) &&
      p[0] + p[1] + p[2] === WHOLE;
    if (members.length <= MOST_MEMBERS && members.every(isMember))
      Object.assign(changes, { members, selected: Math.min(state.selected, members.length - 1) });
    if (Object.hasOwn(FAMILIES, fields.get("rule"))) changes.rule = fields.get("rule");
    if (one(`[name=shade][value="${CSS.escape(fields.get("shade") ?? "")}"]`))
      changes.shade = fields.get("shade");
    for (const name of ["beta", "alpha"]) {
      const { min, max } = one(`[name=${name}]`);
      const value = Number(fields.get(name));
      if (value >= Number(min) && value <= Number(max)) changes[name] = value;
    }
    const [costs, actions] = [
      table("costs"),
      fields.getAll("action").map((name) => name.slice(0, LONGEST_NAME)),
    ];
    const n = actions.length;
    const areCosts = (row) =>
      row.length === n && row.every((cost) => Number.isFinite(cost) && cost >= 0);
    if (n >= ACTIONS.fewest && n <= ACTIONS.most && costs.length === 3 && costs.every(areCosts)) {
      Object.assign(changes, { costs, actions });
    }
    return changes;
  };

  // -- controls -------------------------------------------------------------------------------------

  const picture = makePicture(one(".simplex-picture"), {
    onSelect: (i) => change({ selected: i }),
    onMove: moveMember,
    onStep: stepMember,
    onRemove: (i) => {
      if (!removeMember(i)) return;
      drawNow();
      picture.focusMember(state.selected);
    },
  });

  one("[name=rule]").append(
    ...Object.entries(FAMILIES).map(([name, { label }]) => make("option", { value: name }, label)),
  );
  one(".simplex-table tbody").append(...Object.keys(FAMILIES).map(makeRow));
  one("[name=rule]").addEventListener("change", (event) => change({ rule: event.target.value }));
  for (const name of ["beta", "alpha"]) {
    one(`[name=${name}]`).addEventListener("input", (event) =>
      change({ [name]: Number(event.target.value) }),
    );
  }
  for (const input of all("[name=shade]")) {
    input.addEventListener("change", () => change({ shade: input.value }));
  }
  for (const button of all("[data-preset]")) {
    button.addEventListener("click", () =>
      change({ members: PRESETS[button.dataset.preset], selected: 0 }),
    );
  }
  const actions = {
    add: addMember,
    remove: () => removeMember(state.selected),
    "add-action": addAction,
  };
  for (const [name, act] of Object.entries(actions)) {
    one(`[data-do=${name}]`).addEventListener("click", act);
  }
  new ResizeObserver(draw).observe(one(".simplex-picture"));
  window.addEventListener("hashchange", () => change(readHash()));
  Object.assign(state, readHash());
  root.hidden = false;
  drawNow();
})();
