"""Which measure is best on your data?
===================================

Theory recommends a measure of uncertainty for each task. It assumes a calibrated model, so ask your
own rows as well: ``sw.compare`` ranks all measures on them, with intervals that allow you to pick
the best.
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import scorewise as sw

X, X_new, y, y_new = train_test_split(*load_digits(return_X_y=True), test_size=0.5, random_state=0)
forest = RandomForestClassifier(100, max_depth=6, random_state=0).fit(X, y)
samples = sw.predict_samples(forest, X_new)

# %%
# The advice for abstaining, if each error costs the same:

print(sw.advise("selective", "zero-one"))

# %%
# The same question to 899 digits. The area under the rejection curve (AULC) is the error of the
# accepted digits, averaged over all coverages.

comparison = sw.compare(samples, y_new, task="selective", task_loss="zero-one", random_state=0)
print(comparison)

# %%
# Measures whose interval reaches 0 are indistinguishable from the best.

display = sw.plots.ComparisonDisplay(comparison).plot()
recommended = "total zero-one"
place = [standing.name for standing in comparison.standings].index(recommended)
print(f"{recommended} is number {place + 1} of {len(comparison.standings)}.")
display.ax_.set_title(f"The best measure for abstaining here is {comparison.best}")

# %%
# Calibrating first can matter as much as the choice of a measure. Here the calibration is fitted on
# one half of these digits, and both curves are of the other half.

calibration = sw.fit_calibration(samples[:450], y_new[:450])
predictions = {"as it is": samples[450:], "calibrated": calibration.transform(samples[450:])}
curves = {
    name: sw.rejection_curve(sw.task_losses(q, y_new[450:]), sw.decompose(q, "zero-one").total)
    for name, q in predictions.items()
}
display = sw.plots.RejectionCurveDisplay(curves, sw.rules.zero_one.unit)
display.plot(show_oracle=False, show_random=False)
sw.plots.style.percent_axis(display.ax_.yaxis)
lower = 1 - curves["calibrated"].aulc / curves["as it is"].aulc
display.ax_.set_title(f"Calibrating first lowers the area under the curve by {lower:.0%}")
