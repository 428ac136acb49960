"""Central inference: from the observations of many actors to their actions, one compiled step per batch."""
