"""From uncertainty to decisions: abstain, detect, choose the measure, audit it."""
