"use strict";
/*
 * The mathematics of the page "The simplex": scoring rules for three classes, and what they say of
 * an ensemble. A member is an array of three probabilities.
 *
 * The formulas are those of the page "The mathematics". The epistemic part is a mean of divergences,
 * not total − aleatoric: a difference of rounded numbers leaves noise where members agree, and
 * there it must be exactly 0. A test compares all numbers with those of the Python library.
 */
window.scorewise = window.scorewise || {};

scorewise.rules = (() => {
  const SURE_OF_EACH_CLASS = [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ];
  const CENTER = [1 / 3, 1 / 3, 1 / 3];

  const sum = (terms) => terms.reduce((total, term) => total + term, 0);
  const average = (values) => sum(values) / values.length;
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const indexOfLeast = (values) => values.indexOf(Math.min(...values));

  // -- differences that plain formulas lose to rounding ------------------------------------------
  // q is the prediction, p the truth, d their difference p − q with all its digits.

  // p·log(p/q) − p + q
  const relativeEntropy = (q, p, d) => {
    if (p === 0) return q;
    const s = d / (p + q);
    if (Math.abs(s) > 0.3) return p * Math.log(p / q) - d;
    let odd = 0; // (atanh s − s)/s³ = Σ s^{2j}/(2j + 3)
    for (let j = 14; j >= 0; j--) odd = odd * s * s + 1 / (2 * j + 3);
    return d * s * (1 + odd * (s + s * s));
  };

  // exp(z) − 1 − z
  const expm1Minus = (z) => {
    if (Math.abs(z) > 0.7) return Math.expm1(z) - z;
    let series = 0;
    for (let j = 16; j >= 2; j--) series = (series * z + 1) / j;
    return series * z * z;
  };

  // [p^β − q^β − βq^{β−1}(p − q)]/(β − 1): how far x^β lies above its tangent at q
  const powerExcess = (q, p, d, beta) => {
    if (q === 0) return 0; // q is 0 only where every member is
    const rate = beta - 1;
    const slope = q ** rate;
    const first = slope * relativeEntropy(q, p, d);
    if (p === 0) return first;
    const logRatio = Math.abs(d) < 0.5 * q ? Math.log1p(d / q) : Math.log(p / q);
    return first + (p * slope * expm1Minus(rate * logRatio)) / rate;
  };

  // Σ p·(1 − p^{β−1})
  const powerDeficit = (p, beta) => {
    let deficit = 0;
    for (const x of p) if (x > 0) deficit -= x * Math.expm1((beta - 1) * Math.log(x));
    return deficit;
  };

  // -- rules with a smooth entropy: H(p) and D(q, p) ---------------------------------------------

  const smooth = (entropy, divergence) => ({
    entropy,
    isDecision: false,
    largestTotal: entropy(CENTER),
    divergences: (members) => {
      const { mean, deviations } = meanAndDeviations(members);
      return members.map((p, m) => divergence(mean, p, deviations[m]));
    },
  });

  const log = () =>
    smooth(
      (p) => {
        let entropy = 0;
        for (const x of p) if (x > 0) entropy -= x * Math.log(x);
        return entropy;
      },
      (q, p, d) => sum(p.map((x, k) => relativeEntropy(q[k], x, d[k]))),
    );

  const brier = () =>
    smooth(
      (p) => p[0] * (p[1] + p[2]) + p[1] * (p[0] + p[2]) + p[2] * (p[0] + p[1]), // 1 − Σp²
      (q, p, d) => dot(d, d),
    );

  const tsallis = (beta) =>
    smooth(
      (p) => powerDeficit(p, beta) / (beta - 1),
      (q, p, d) => sum(p.map((x, k) => powerExcess(q[k], x, d[k], beta))),
    );

  const pseudospherical = (alpha) =>
    smooth(
      (p) => -Math.expm1(Math.log1p(-powerDeficit(p, alpha)) / alpha), // 1 − ‖p‖
      (q, p, d) => {
        // D does not change when q is scaled. Scaled so that the tangent of Σx^α at q meets p at
        // the height of q, D is ‖p‖ − ‖q‖, and Σp^α − Σq^α is the height of p above it.
        const slope = q.map((x) => x ** (alpha - 1));
        const scale = dot(d, slope) / dot(q, slope);
        const scaled = q.map((x) => x + x * scale);
        const rest = d.map((x, k) => x - q[k] * scale);
        const excess = sum(p.map((x, k) => powerExcess(scaled[k], x, rest[k], alpha)));
        const powers = sum(scaled.map((x) => x ** alpha));
        const growth = Math.expm1(Math.log1p(((alpha - 1) * excess) / powers) / alpha);
        return powers ** (1 / alpha) * growth;
      },
    );

  // -- rules of a decision: costs[y][a] is the cost of action a if class y is true ----------------

  const decision = (costs) => {
    const actions = costs[0].map((_, a) => a);
    const costsOf = actions.map((a) => costs.map((row) => row[a]));
    const expected = (p) => costsOf.map((cost) => dot(p, cost));
    const decide = (p) => indexOfLeast(expected(p));
    const entropy = (p) => Math.min(...expected(p));

    // What each action costs more than the best one: 0 where it is best, also if rounding hides a tie.
    const regrets = (p) => {
      const best = costsOf[decide(p)];
      return costsOf.map((cost) => {
        const more = cost.map((c, y) => c - best[y]);
        const regret = dot(p, more);
        const rounding = 4 * Number.EPSILON * dot(p, more.map(Math.abs));
        return regret > rounding ? regret : 0;
      });
    };

    // The action of the mean has the least mean regret: 0 if it is best for every member.
    const decideTogether = (members) => {
      const byMember = members.map(regrets);
      return indexOfLeast(actions.map((a) => average(byMember.map((regret) => regret[a]))));
    };

    const regions = actions.map((a) => regionOf(costsOf, a));
    return {
      entropy,
      isDecision: true,
      largestTotal: Math.max(...regions.flat().map(entropy)), // H is linear in each region
      divergences: (members) => {
        const action = decideTogether(members);
        return members.map((p) => regrets(p)[action]);
      },
      decide,
      decideTogether,
      regions,
    };
  };

  // The corners of the polygon in which no other action is cheaper than the a-th: fewer than three
  // if it is nowhere the best.
  const regionOf = (costsOf, a) => {
    let corners = SURE_OF_EACH_CLASS;
    costsOf.forEach((other, b) => {
      const advantage = (p) => dot(p, other) - dot(p, costsOf[a]);
      const isSame = other.every((cost, y) => cost === costsOf[a][y]);
      if (isSame && b < a) corners = []; // the first of equal actions is taken
      corners = corners.flatMap((p, i) => {
        const previous = corners.at(i - 1);
        const [before, here] = [advantage(previous), advantage(p)];
        const share = before / (before - here);
        const crossing = previous.map((x, k) => x + share * (p[k] - x));
        return [...(before * here < 0 ? [crossing] : []), ...(here >= 0 ? [p] : [])];
      });
    });
    return corners;
  };

  const ZERO_ONE_COSTS = SURE_OF_EACH_CLASS.map((row) => row.map((x) => 1 - x));

  // -- an ensemble --------------------------------------------------------------------------------

  // Measured from the first member, so that the deviations of equal members are exactly 0.
  const meanAndDeviations = (members) => {
    const [first] = members;
    const shift = first.map((x, k) => average(members.map((p) => p[k] - x)));
    return {
      mean: first.map((x, k) => Math.max(0, x + shift[k])),
      deviations: members.map((p) => p.map((x, k) => x - first[k] - shift[k])),
    };
  };

  const decompose = (members, rule) => {
    const { mean } = meanAndDeviations(members);
    const entropies = members.map(rule.entropy);
    const divergences = rule.divergences(members);
    return {
      mean,
      entropies,
      divergences,
      total: rule.entropy(mean),
      aleatoric: average(entropies),
      epistemic: average(divergences),
    };
  };

  // Total, aleatoric or epistemic part if a further member were at p, for drawing: fast, as all sums
  // over the other members are computed once, but total − aleatoric is exact only to 15 digits.
  const partWithMemberAt = (part, others, rule) => {
    const n = others.length + 1;
    const sums = [0, 1, 2].map((k) => sum(others.map((p) => p[k])));
    const entropyOfOthers = sum(others.map(rule.entropy));
    const total = (p) => rule.entropy(sums.map((x, k) => (x + p[k]) / n));
    const aleatoric = (p) => (entropyOfOthers + rule.entropy(p)) / n;
    const epistemic = (p) => {
      const difference = total(p) - aleatoric(p);
      return difference > 1e-12 * rule.largestTotal ? difference : 0;
    };
    return { total, aleatoric, epistemic }[part];
  };

  // -- the rules of the page ----------------------------------------------------------------------

  const FAMILIES = {
    log: {
      label: "log",
      unit: "nats",
      about: "−log of the probability given to what happens. Epistemic: mutual information.",
      make: log,
      python: () => '"log"',
    },
    brier: {
      label: "Brier",
      unit: "squared error",
      about: "The squared error of all probabilities. Epistemic: their variance.",
      make: brier,
      python: () => '"brier"',
    },
    "zero-one": {
      label: "zero-one",
      unit: "error rate",
      isProportion: true,
      about: "1 if the most probable class is wrong. Only the decision counts.",
      make: () => decision(ZERO_ONE_COSTS),
      python: () => '"zero-one"',
    },
    spherical: {
      label: "spherical",
      unit: "",
      about: "Only the direction of the vector of probabilities counts.",
      make: () => pseudospherical(2),
      python: () => '"spherical"',
    },
    tsallis: {
      label: "Tsallis",
      unit: "",
      parameter: "beta",
      about:
        "Close to log for β near 1, and Brier at β = 2. A larger β looks more at likely classes.",
      make: ({ beta }) => tsallis(beta),
      python: ({ beta }) => `"tsallis:${beta}"`,
    },
    pseudospherical: {
      label: "pseudospherical",
      unit: "",
      parameter: "alpha",
      about: "Spherical at α = 2, and close to zero-one for a large α.",
      make: ({ alpha }) => pseudospherical(alpha),
      python: ({ alpha }) => `"pseudospherical:${alpha}"`,
    },
    "cost-matrix": {
      label: "cost matrix",
      unit: "cost",
      parameter: "costs",
      about: "Your costs: the action of least expected cost is taken.",
      make: ({ costs }) => decision(costs),
      python: ({ costs }) => {
        const rows = costs.map((row) => `    [${row.join(", ")}],`);
        return ["sw.rules.cost_matrix([", ...rows, "])"].join("\n");
      },
    },
  };

  // A rule by its name, with those of the parameters beta, alpha and costs that it has.
  const makeRule = (name, parameters) => {
    const { make, python, ...facts } = FAMILIES[name];
    return { name, ...facts, ...make(parameters), python: python(parameters) };
  };

  return { FAMILIES, decompose, makeRule, partWithMemberAt };
})();
