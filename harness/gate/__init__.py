"""Yes or no: a policy applied to the evidence of one or many runs."""
