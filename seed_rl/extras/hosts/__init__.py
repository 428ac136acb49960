"""Several learner processes, one per host, that train one model: the flags `--learner_hosts` and their like."""
