"use strict";
/*
 * The words of the page: numbers in the units of a rule, and sentences about the present members.
 */
window.scorewise = window.scorewise || {};

scorewise.explain = (() => {
  // "0" is kept for what is exactly 0.
  const format = (value, rule) => {
    const [scale, digits, suffix] = rule.isProportion ? [100, 1, "\u00a0%"] : [1, 3, ""];
    const smallest = 10 ** -digits;
    if (value === 0) return `0${suffix}`;
    if (value * scale < smallest / 2) return `< ${smallest}${suffix}`;
    return (value * scale).toFixed(digits) + suffix;
  };

  // The same within a sentence
  const withUnit = (value, rule) => {
    if (value === 0) return "0";
    const number = format(value, rule).replace("<", "less than");
    return rule.name === "log" ? `${number} nats` : number;
  };

  const percent = (share) => {
    if (share < 0.005) return "less than 1\u00a0%";
    return share > 0.995 ? "more than 99\u00a0%" : `${Math.round(100 * share)}\u00a0%`;
  };

  const describeMember = (p, classes) =>
    classes.map((name, k) => `${name} ${p[k].toFixed(3)}`).join(", ");

  const join = (parts) =>
    parts.length < 2 ? parts.join() : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;

  const areEqual = (members) => members.every((p) => p.every((x, k) => x === members[0][k]));

  // [["cat", 4], ["dog", 1]]: how many members decide for which action, most first
  const countDecisions = (members, rule, actions) => {
    const decisions = members.map(rule.decide);
    return actions
      .map((name, a) => [name, decisions.filter((decision) => decision === a).length])
      .filter(([, count]) => count > 0)
      .sort(([, one], [, other]) => other - one);
  };

  // How to say what is done: "decides for cat", or "takes “ask”"
  const wordsOf = (rule) =>
    rule.name === "zero-one"
      ? { one: "decides for", many: "decide for", also: "for ", quoted: (name) => name }
      : { one: "takes", many: "take", also: "", quoted: (name) => `“${name}”` };

  // "all 5 members decide for cat", or "4 of 5 members decide for cat and 1 for dog"
  const describeDecisions = (members, rule, actions) => {
    const counts = countDecisions(members, rule, actions);
    const [[name, count], ...others] = counts;
    const n = members.length;
    const { one, many, also, quoted } = wordsOf(rule);
    if (count === n) return `${n === 2 ? "both" : `all ${n}`} members ${many} ${quoted(name)}`;
    const first = `${count} of ${n} members ${count === 1 ? one : many} ${quoted(name)}`;
    return join([first, ...others.map(([other, k]) => `${k} ${also}${quoted(other)}`)]);
  };

  // Why the epistemic part of a decision rule is 0
  const reasonOfZero = (members, rule, actions) => {
    if (countDecisions(members, rule, actions).length === 1)
      return describeDecisions(members, rule, actions);
    const action = wordsOf(rule).quoted(actions[rule.decideTogether(members)]);
    return `${action} is a best decision for every member`;
  };

  const capitalized = (text) => text[0].toUpperCase() + text.slice(1);

  const ofNoDisagreement = ({ members, rule, parts }) => {
    const reason =
      members.length === 1 ? "There is only one member" : `All ${members.length} members are equal`;
    const remains =
      parts.total === 0
        ? "The total is 0 too: a certain prediction expects no loss."
        : `The whole total, ${withUnit(parts.total, rule)}, is aleatoric: it would remain if the ` +
          "true probabilities were known.";
    return [
      `${reason}, so there is no disagreement, and the epistemic part is 0 under every rule.`,
      remains,
    ];
  };

  const ofDecision = ({ members, rule, parts, actions, log }) => {
    const decisions = capitalized(describeDecisions(members, rule, actions));
    if (parts.epistemic === 0) {
      return [
        `${capitalized(reasonOfZero(members, rule, actions))}. Knowing which member is right would ` +
          "not change the decision, so the epistemic part is 0.",
        `Under log it is ${withUnit(log.parts.epistemic, log.rule)}, because log also counts how ` +
          "far apart their probabilities are.",
      ];
    }
    const { one, quoted } = wordsOf(rule);
    const action = quoted(actions[rule.decideTogether(members)]);
    const loss = rule.name === "zero-one" ? "an error rate" : "a cost";
    return [
      `${decisions}. Their mean ${one} ${action} and expects ${loss} of ` +
        `${withUnit(parts.total, rule)}.`,
      "If it were known which member is right, its decision could be taken, and " +
        `${withUnit(parts.aleatoric, rule)} would remain: the aleatoric part. The difference, ` +
        `${withUnit(parts.epistemic, rule)}, is the epistemic part.`,
    ];
  };

  // Which member the disagreement is about, if more than half of it is about one
  const ofOutlier = ({ members, parts: { divergences } }) => {
    const largest = Math.max(...divergences);
    const share = largest / divergences.reduce((a, b) => a + b, 0);
    if (members.length < 3 || share <= 0.5) return [];
    return [
      `${capitalized(percent(share))} of it comes from member ${divergences.indexOf(largest) + 1}.`,
    ];
  };

  const ofSmoothRule = (view) => {
    const { members, rule, parts, classes, zeroOne } = view;
    const share = parts.epistemic / parts.total;
    const epistemic = `${withUnit(parts.epistemic, rule)}, ${percent(share)} of the total`;
    const summary =
      share < 0.05
        ? `The members nearly agree: the epistemic part under ${rule.label} is ${epistemic}. The rest ` +
          "would remain if it were known which member is right."
        : `The members differ, so the epistemic part under ${rule.label} is ${epistemic}.`;
    const underZeroOne =
      zeroOne.parts.epistemic === 0
        ? `Under zero-one it is 0: ${reasonOfZero(members, zeroOne.rule, classes)}, so knowing which ` +
          "member is right would not change the decision."
        : `Under zero-one it is ${withUnit(zeroOne.parts.epistemic, zeroOne.rule)}: ` +
          `${describeDecisions(members, zeroOne.rule, classes)}.`;
    return [summary, ...ofOutlier(view), underZeroOne];
  };

  // The present state under the chosen rule, as sentences. A view has the members, the names of the
  // classes and actions, the chosen rule with its parts, and the same for log and zeroOne.
  const explain = (view) => {
    if (areEqual(view.members)) return ofNoDisagreement(view);
    return view.rule.isDecision ? ofDecision(view) : ofSmoothRule(view);
  };

  // The same state as code for Python
  const asPython = ({ members, rule }) =>
    [
      "import scorewise as sw",
      "",
      "members = [",
      ...members.map((p) => `    [${p.join(", ")}],`),
      "]",
      `rule = ${rule.python}`,
      "print(sw.decompose(members, rule))",
    ].join("\n");

  return { asPython, describeMember, explain, format, withUnit };
})();
