"""Adapters for boosted trees: CatBoost, LightGBM, XGBoost and scikit-learn's own."""
