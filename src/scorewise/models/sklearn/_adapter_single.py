"""Classifiers of scikit-learn that have no members, and the ways to get some."""

from __future__ import annotations

from scorewise.models._adapters import NoMembers, instance_of

NO_MEMBERS = (
    NoMembers(
        instance_of("sklearn.linear_model.LogisticRegression"),
        "scorewise.LaplaceClassifier draws its coefficients from their posterior, for which it "
        "needs the training rows; scorewise.BootstrapEnsemble makes an ensemble of it",
    ),
    NoMembers(
        instance_of(
            "sklearn.naive_bayes.GaussianNB",
            "sklearn.naive_bayes.MultinomialNB",
            "sklearn.naive_bayes.ComplementNB",
            "sklearn.naive_bayes.BernoulliNB",
            "sklearn.naive_bayes.CategoricalNB",
            "sklearn.neighbors.KNeighborsClassifier",
            "sklearn.neighbors.RadiusNeighborsClassifier",
            "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
            "sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis",
        ),
        "scorewise.BootstrapEnsemble makes an ensemble of it: the same rows give the same model, "
        "so each member is fitted on its own sample of them",
    ),
    NoMembers(
        instance_of(
            "sklearn.svm.SVC",
            "sklearn.svm.NuSVC",
            "sklearn.svm.LinearSVC",
            "sklearn.linear_model.SGDClassifier",
            "sklearn.linear_model.RidgeClassifier",
            "sklearn.linear_model.Perceptron",
        ),
        "sklearn.calibration.CalibratedClassifierCV gives it calibrated probabilities and one "
        "member for each fold; for more members, scorewise.BootstrapEnsemble makes an ensemble of "
        "that",
    ),
    NoMembers(
        instance_of("sklearn.tree.DecisionTreeClassifier"),
        "a RandomForestClassifier has trees as members, with min_samples_leaf=5 also for aleatoric "
        "uncertainty; scorewise.BootstrapEnsemble makes an ensemble of this tree",
    ),
    NoMembers(
        instance_of("sklearn.neural_network.MLPClassifier"),
        "scorewise.BootstrapEnsemble(model, bootstrap=False) fits it with different seeds, as a "
        "deep ensemble; a list of fitted networks works too",
    ),
    NoMembers(
        instance_of("sklearn.ensemble.AdaBoostClassifier"),
        "its estimators correct each other and none predicts by itself; "
        "scorewise.BootstrapEnsemble makes an ensemble of the whole",
    ),
    NoMembers(
        instance_of("sklearn.ensemble.StackingClassifier"),
        "its estimators are the inputs of another; a VotingClassifier(voting='soft') of the same "
        "estimators has them as members, and scorewise.BootstrapEnsemble makes an ensemble of the "
        "whole",
    ),
    NoMembers(
        instance_of(
            "sklearn.multiclass.OneVsRestClassifier",
            "sklearn.multiclass.OneVsOneClassifier",
            "sklearn.multiclass.OutputCodeClassifier",
        ),
        "its estimators separate different classes and none predicts all of them; "
        "scorewise.BootstrapEnsemble makes an ensemble of the whole",
    ),
)
