"""The scikit-learn door and what it needs."""
