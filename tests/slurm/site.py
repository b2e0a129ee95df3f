"""The example site as the throwaway cluster's tests vary it: $SITE holds settings of the partition, as JSON."""

import importlib.util
import json
import os
import pathlib

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "site-configs/example-slurm/reframe.py"

spec = importlib.util.spec_from_file_location("example", EXAMPLE)
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)

site_configuration = example.site_configuration
[system] = site_configuration["systems"]
[partition] = system["partitions"]
# Four nodes of one machine: jobs of a session may run at once, as they would on a cluster.
partition.update({"max_jobs": 8, "access": ["--partition=main", "--account=site", "--exclusive"]})
# A job that waits for a named node says ReqNodeNotAvail while that is busy: no reason to cancel it.
partition["sched_options"] = {"ignore_reqnodenotavail": True}
partition.update(json.loads(os.environ.get("SITE", "{}")))
