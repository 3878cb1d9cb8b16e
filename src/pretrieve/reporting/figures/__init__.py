"""The papers' figures, made of measurements: a tidy CSV, an SVG drawn from it, and a manifest."""
