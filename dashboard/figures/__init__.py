"""Pure functions from an analysis result to a Plotly figure or to cytoscape elements; no dash here."""
